// weft_switch and the beginning of every context for x86-64 (System V ABI). The contract is in
// context.h.
//
// The frame of a suspended context, 64 bytes from its stack pointer upwards:
//
//     0  mxcsr (4 bytes), x87 control word (2 bytes), 2 bytes unused
//     8  r15    16  r14    24  r13    32  r12    40  rbx    48  rbp
//    56  address to resume at
//
// A context that has not started has no frame. Its stack pointer is the top of its stack, and odd.
//
// Left through `ret`, on purpose. The predictor pairs returns with calls. A switch that is called and
// left by `pop; jmp` leaves one entry too many, so that every return that follows on the other stack
// is mispredicted; one that is left by `ret` is predicted to return to its caller, and is right as
// long as both sides suspended at the same place, which is what a scheduler does. Measured, ns per
// switch, two goroutines that yield in a loop, three calls deep; a loop with the two ends of the
// switch at different places, which flatters `pop; jmp`; a start of a goroutine plus the way back:
//
//                            yield   two places   start
//     ret                     5.3       14.5       31.9
//     pop; jmp               37.0        4.1       21.9
//     ret, first entry by jnz 5.3       14.9       21.6     <- this one
//
// A first entry never is what the predictor expects; hence the jump. And an entry function that
// returns keeps calls and returns in pairs: the `ret` that leaves its context for good meets the call
// that had started it, and is right if whoever is resumed had suspended there.
//
// CET. The object is marked for indirect branch tracking (`ret` is not an indirect branch) but not
// for shadow stacks: there is none per goroutine, and the missing mark makes the linker turn the
// feature off for whatever this object is linked into.

#define FRAME_MXCSR    0
#define FRAME_X87      4
#define MXCSR_CONTROL  0xffc0           // the low bits are sticky flags, which a call may change
#define DEFAULT_MXCSR  0x1f80           // all exceptions masked, round to nearest
#define DEFAULT_X87    0x037f           // the same, 64-bit mantissa

    .text

    .globl  weft_switch
    .hidden weft_switch
    .type   weft_switch, @function
    .p2align 6
weft_switch:                            // rdi = save, rsi = load, rdx = transfer, rcx = entry
    .cfi_startproc
    endbr64
    pushq   %rbp
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %rbp, 0
    pushq   %rbx
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %rbx, 0
    pushq   %r12
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %r12, 0
    pushq   %r13
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %r13, 0
    pushq   %r14
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %r14, 0
    pushq   %r15
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %r15, 0
    subq    $8, %rsp
    .cfi_adjust_cfa_offset 8
    stmxcsr FRAME_MXCSR(%rsp)
    fnstcw  FRAME_X87(%rsp)
    // Read back in the widths they were written in: wider loads would miss the store buffer.
    movl    FRAME_MXCSR(%rsp), %eax
    movzwl  FRAME_X87(%rsp), %r8d
    movq    %rsp, (%rdi)

    movq    (%rsi), %rsi
    testb   $1, %sil
    jnz     .Lbegin
    movq    %rsi, %rsp                  // the other stack; the same layout, so the CFI still holds
.Lresume:                               // eax, r8w = the control words loaded now
    xorl    FRAME_MXCSR(%rsp), %eax
    testl   $MXCSR_CONTROL, %eax
    jnz     .Lload_mxcsr
.Lmxcsr_done:
    cmpw    FRAME_X87(%rsp), %r8w
    jne     .Lload_x87
.Lx87_done:
    movq    %rdx, %rax
    .cfi_remember_state
    addq    $8, %rsp
    .cfi_adjust_cfa_offset -8
    popq    %r15
    .cfi_adjust_cfa_offset -8
    .cfi_restore %r15
    popq    %r14
    .cfi_adjust_cfa_offset -8
    .cfi_restore %r14
    popq    %r13
    .cfi_adjust_cfa_offset -8
    .cfi_restore %r13
    popq    %r12
    .cfi_adjust_cfa_offset -8
    .cfi_restore %r12
    popq    %rbx
    .cfi_adjust_cfa_offset -8
    .cfi_restore %rbx
    popq    %rbp
    .cfi_adjust_cfa_offset -8
    .cfi_restore %rbp
    ret

    // Out of the way: a goroutine that changed its rounding mode or its exception masks. Here the
    // whole frame is still on the stack.
    .cfi_restore_state
.Lload_mxcsr:
    ldmxcsr FRAME_MXCSR(%rsp)
    jmp     .Lmxcsr_done
.Lload_x87:
    fldcw   FRAME_X87(%rsp)
    jmp     .Lx87_done
    .cfi_endproc
    .size   weft_switch, . - weft_switch

    // The outermost function of every context. From .Lbegin on: rsi = its odd stack pointer, rcx =
    // entry function, rdx = transfer, eax and r8w = the control words loaded now. Nothing is written
    // to the new stack, nor below the old stack pointer, before the new one is loaded.
    // "Undefined" return address = outermost frame. The personality routine sees every exception
    // that nobody in the goroutine catches (fiber/unwind.cc).
    .globl  weft_goroutine_entry
    .hidden weft_goroutine_entry
    .type   weft_goroutine_entry, @function
    .p2align 4
    .hidden weft_entry_personality
weft_goroutine_entry:
    .cfi_startproc
    .cfi_personality 0x1b, weft_entry_personality     // 0x1b: pc-relative, 4 bytes signed
    .cfi_undefined %rip
.Lbegin:
    xorl    $DEFAULT_MXCSR, %eax
    testl   $MXCSR_CONTROL, %eax
    jnz     .Ldefault_mxcsr
.Ldefault_mxcsr_done:
    cmpl    $DEFAULT_X87, %r8d
    jne     .Ldefault_x87
.Ldefault_x87_done:
    leaq    -1(%rsi), %rsp              // aligned now
    xorl    %ebp, %ebp                  // ends the chain for unwinders that follow frame pointers
    movq    %rcx, %rbx
    movq    %rdx, %rdi
    call    *%rcx                       // returns rax = context to resume, rdx = transfer

    movq    (%rax), %rsi
    movq    %rbx, %rcx
    stmxcsr -8(%rsp)                    // into the red zone
    fnstcw  -4(%rsp)
    movl    -8(%rsp), %eax
    movzwl  -4(%rsp), %r8d
    testb   $1, %sil
    jnz     .Lbegin
    movq    %rsi, %rsp
    jmp     .Lresume

.Ldefault_mxcsr:
    ldmxcsr .Lmxcsr(%rip)
    jmp     .Ldefault_mxcsr_done
.Ldefault_x87:
    fldcw   .Lx87(%rip)
    jmp     .Ldefault_x87_done
    .cfi_endproc
    .size   weft_goroutine_entry, . - weft_goroutine_entry

    .section .rodata
    .p2align 2
.Lmxcsr:
    .long   DEFAULT_MXCSR
.Lx87:
    .short  DEFAULT_X87

    .section .note.GNU-stack, "", @progbits

    .section .note.gnu.property, "a"
    .p2align 3
    .long   4, 16, 5                    // name size, descriptor size, NT_GNU_PROPERTY_TYPE_0
    .string "GNU"
    .long   0xc0000002, 4, 1, 0         // GNU_PROPERTY_X86_FEATURE_1_AND: IBT, not SHSTK
