// weft_switch and the entry trampoline for x86-64 (System V ABI). The contract is in context.h.
//
// The frame of a suspended context, 64 bytes from its stack pointer upwards:
//
//     0  mxcsr (4 bytes), x87 control word (2 bytes), 2 bytes unused
//     8  r15    16  r14    24  r13    32  r12    40  rbx    48  rbp
//    56  address to resume at
//
// make_context (context.cc) builds the same frame by hand: rbx holds the entry function there, and
// the address is weft_goroutine_begin.
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
//     ret, first entry by je  5.3       14.9       21.6     <- this one
//
// A first entry never is what the predictor expects; hence the comparison with its address, which
// costs nothing when it fails.
//
// CET. The object is marked for indirect branch tracking (`ret` is not an indirect branch) but not
// for shadow stacks: there is none per goroutine, and the missing mark makes the linker turn the
// feature off for whatever this object is linked into.

#define FRAME_MXCSR    0
#define FRAME_X87      4
#define MXCSR_CONTROL  0xffc0           // the low bits are sticky flags, which a call may change

    .text

    .globl  weft_switch
    .hidden weft_switch
    .type   weft_switch, @function
    .p2align 6
weft_switch:                            // rdi = save, rsi = load, rdx = transfer
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
    movzwl  FRAME_X87(%rsp), %ecx
    movq    %rsp, (%rdi)

    movq    (%rsi), %rsp                // the other stack; the same layout, so the CFI still holds
    xorl    FRAME_MXCSR(%rsp), %eax
    testl   $MXCSR_CONTROL, %eax
    jnz     .Lload_mxcsr
.Lmxcsr_done:
    cmpw    FRAME_X87(%rsp), %cx
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
    leaq    weft_goroutine_begin(%rip), %rcx
    cmpq    %rcx, (%rsp)
    je      weft_goroutine_begin
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

    // The first instructions of every goroutine, from weft_goroutine_begin on: rax = transfer, rbx =
    // entry function, and the resume address, which nobody needs, still on the stack. The nop is for
    // unwinders, which look for the call before the address to return to: there must be something
    // before weft_goroutine_begin that belongs to this function.
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
    nop
    .globl  weft_goroutine_begin
    .hidden weft_goroutine_begin
weft_goroutine_begin:
    addq    $8, %rsp                    // aligned now
    xorl    %ebp, %ebp                  // ends the chain for unwinders that follow frame pointers
    movq    %rax, %rdi
    call    *%rbx
    ud2                                 // entry functions do not return
    .cfi_endproc
    .size   weft_goroutine_entry, . - weft_goroutine_entry

    .section .note.GNU-stack, "", @progbits

    .section .note.gnu.property, "a"
    .p2align 3
    .long   4, 16, 5                    // name size, descriptor size, NT_GNU_PROPERTY_TYPE_0
    .string "GNU"
    .long   0xc0000002, 4, 1, 0         // GNU_PROPERTY_X86_FEATURE_1_AND: IBT, not SHSTK
