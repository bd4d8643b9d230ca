// weft_switch and the beginning of every context for aarch64 (AAPCS64). The contract is in context.h.
//
// The frame of a suspended context, 176 bytes from its stack pointer upwards:
//
//     0  x29     8  x30 = address to resume at
//    16  x19 … x28 (ten registers)
//    96  d8 … d15 (the low halves of v8 … v15; the ABI keeps no more)
//   160  fpcr   168  unused
//
// A context that has not started has no frame. Its stack pointer is the top of its stack, and odd.
// x18 belongs to the platform and is left alone.
//
// Left through `ret`: the runtime suspends at very few places, mostly the same one on both sides,
// so that the return predictor is right about the address and stays in step with the calls. An entry
// function that returns does its part: see switch_x86_64.S.
//
// BTI: `ret` needs no landing pad; the bti instructions are for those who come by a branch.
// Pointer authentication: resume addresses lie on stacks unsigned, as those of any leaf function.

    .text

    .globl  weft_switch
    .hidden weft_switch
    .type   weft_switch, %function
    .p2align 6
weft_switch:                            // x0 = save, x1 = load, x2 = transfer, x3 = entry
    .cfi_startproc
    hint    #34                         // bti c
    sub     sp, sp, #176
    .cfi_adjust_cfa_offset 176
    stp     x29, x30, [sp, #0]
    .cfi_rel_offset x29, 0
    .cfi_rel_offset x30, 8
    stp     x19, x20, [sp, #16]
    .cfi_rel_offset x19, 16
    .cfi_rel_offset x20, 24
    stp     x21, x22, [sp, #32]
    .cfi_rel_offset x21, 32
    .cfi_rel_offset x22, 40
    stp     x23, x24, [sp, #48]
    .cfi_rel_offset x23, 48
    .cfi_rel_offset x24, 56
    stp     x25, x26, [sp, #64]
    .cfi_rel_offset x25, 64
    .cfi_rel_offset x26, 72
    stp     x27, x28, [sp, #80]
    .cfi_rel_offset x27, 80
    .cfi_rel_offset x28, 88
    stp     d8, d9, [sp, #96]
    .cfi_rel_offset d8, 96
    .cfi_rel_offset d9, 104
    stp     d10, d11, [sp, #112]
    .cfi_rel_offset d10, 112
    .cfi_rel_offset d11, 120
    stp     d12, d13, [sp, #128]
    .cfi_rel_offset d12, 128
    .cfi_rel_offset d13, 136
    stp     d14, d15, [sp, #144]
    .cfi_rel_offset d14, 144
    .cfi_rel_offset d15, 152
    mrs     x9, fpcr
    str     x9, [sp, #160]
    mov     x10, sp
    str     x10, [x0]

    ldr     x10, [x1]
    tbnz    x10, #0, .Lbegin
    mov     sp, x10                     // the other stack; the same layout, so the CFI still holds
.Lresume:                               // x9 = the control word loaded now
    ldr     x10, [sp, #160]
    cmp     x9, x10
    b.eq    .Lfpcr_done
    msr     fpcr, x10                   // a goroutine that changed its rounding mode
.Lfpcr_done:
    mov     x0, x2
    ldp     x19, x20, [sp, #16]
    .cfi_restore x19
    .cfi_restore x20
    ldp     x21, x22, [sp, #32]
    .cfi_restore x21
    .cfi_restore x22
    ldp     x23, x24, [sp, #48]
    .cfi_restore x23
    .cfi_restore x24
    ldp     x25, x26, [sp, #64]
    .cfi_restore x25
    .cfi_restore x26
    ldp     x27, x28, [sp, #80]
    .cfi_restore x27
    .cfi_restore x28
    ldp     d8, d9, [sp, #96]
    .cfi_restore d8
    .cfi_restore d9
    ldp     d10, d11, [sp, #112]
    .cfi_restore d10
    .cfi_restore d11
    ldp     d12, d13, [sp, #128]
    .cfi_restore d12
    .cfi_restore d13
    ldp     d14, d15, [sp, #144]
    .cfi_restore d14
    .cfi_restore d15
    ldp     x29, x30, [sp, #0]
    .cfi_restore x29
    .cfi_restore x30
    add     sp, sp, #176
    .cfi_adjust_cfa_offset -176
    ret
    .cfi_endproc
    .size   weft_switch, . - weft_switch

    // The outermost function of every context. From .Lbegin on: x10 = its odd stack pointer, x3 = entry
    // function, x2 = transfer, x9 = the control word loaded now. Nothing is written to the new stack,
    // nor below the old stack pointer, before the new one is loaded.
    // "Undefined" return address = outermost frame. The personality routine sees every exception
    // that nobody in the goroutine catches (fiber/unwind.cc).
    .globl  weft_goroutine_entry
    .hidden weft_goroutine_entry
    .type   weft_goroutine_entry, %function
    .p2align 4
    .hidden weft_entry_personality
weft_goroutine_entry:
    .cfi_startproc
    .cfi_personality 0x1b, weft_entry_personality     // 0x1b: pc-relative, 4 bytes signed
    .cfi_undefined x30
.Lbegin:
    cbz     x9, .Ldefault_fpcr_done
    msr     fpcr, xzr                   // no traps, round to nearest
.Ldefault_fpcr_done:
    sub     x10, x10, #1
    mov     sp, x10                     // aligned
    mov     x29, #0                     // ends the chain for unwinders that follow frame pointers
    mov     x30, #0
    mov     x19, x3
    mov     x0, x2
    blr     x3                          // returns x0 = context to resume, x1 = transfer

    ldr     x10, [x0]
    mov     x2, x1
    mov     x3, x19
    mrs     x9, fpcr
    tbnz    x10, #0, .Lbegin
    mov     sp, x10
    b       .Lresume
    .cfi_endproc
    .size   weft_goroutine_entry, . - weft_goroutine_entry

    .section .note.GNU-stack, "", %progbits

    .section .note.gnu.property, "a"
    .p2align 3
    .word   4, 16, 5                    // name size, descriptor size, NT_GNU_PROPERTY_TYPE_0
    .string "GNU"
    .word   0xc0000000, 4, 1, 0         // GNU_PROPERTY_AARCH64_FEATURE_1_AND: BTI
