#include "shim/gate/thunk.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#include "cuda/cuda_abi.h"
#include "shim/agent/client_report.h"
#include "shim/gate/gate.h"
#include "shim/gate/queue_depth.h"

/* Calls of one thread inside each other: the driver calls the program back, which calls the driver. */
#define DEPTH 6

/* What thunk_go needs when the driver returns; the offsets stand in its code. */
struct frame {
    void *back;     /* where the caller goes on; NULL: go to `function` and forget */
    void *rbx;      /* the caller's */
    void *function; /* the driver's */
    struct mw_slot *slot;
    enum thunk_kind kind;
};
_Static_assert(offsetof(struct frame, back) == 0 && offsetof(struct frame, rbx) == 8 &&
                   offsetof(struct frame, function) == 16,
               "thunk_go knows them");

static __thread struct frame frames[DEPTH] __attribute__((tls_model("initial-exec")));
static __thread uint32_t depth __attribute__((tls_model("initial-exec")));

struct frame *thunk_enter(struct thunk *thunk, void *back, void *rbx);
void thunk_leave(struct frame *frame, CUresult result);

/* In the place of a function whose caller may not be pinned. */
static CUresult refuse(void) { return CUDA_ERROR_OUT_OF_MEMORY; }

/* Outside the gate. */
static bool may_pin(const struct thunk *thunk)
{
    return thunk->kind != THUNK_PIN || client_pin_begin(thunk->name) == CUDA_SUCCESS;
}

__attribute__((used)) struct frame *thunk_enter(struct thunk *thunk, void *back, void *rbx)
{
    static __thread struct frame through __attribute__((tls_model("initial-exec")));
    int kept = errno;
    /* Deeper than anything known, it is inside the gate already. */
    struct frame *frame = depth < DEPTH ? &frames[depth] : &through;
    frame->function = *thunk->function;
    frame->back = NULL;
    if (frame != &through && !may_pin(thunk)) {
        frame->function = (void *)(uintptr_t)refuse;
        errno = kept;
        return frame;
    }
    if (frame != &through) {
        depth++;
        frame->rbx = rbx;
        frame->kind = thunk->kind;
        frame->slot = gate_enter();
        frame->back = back;
    }
    if (thunk->kind == THUNK_UNKNOWN) {
        thunk->entered(thunk);
    }
    if (thunk->kind == THUNK_AWAIT) {
        queue_depth_be_impatient();
    }
    errno = kept;
    return frame;
}

__attribute__((used)) void thunk_leave(struct frame *frame, CUresult result)
{
    gate_leave(frame->slot);
    if (frame->kind == THUNK_PIN) {
        client_pin_end(result == CUDA_SUCCESS);
    }
    depth--;
}

/* In r11 is the thunk; all else is as the caller left it: arguments in six registers, eight vector
 * registers and above the return address, in al how many of the vector ones. The driver is called with the
 * stack pointer where it was before the caller's own call. rbx, which the driver keeps, finds the frame
 * again, and debuggers find there what they need to walk on. */
__asm__(".pushsection .text\n"
        ".p2align 4\n"
        ".hidden thunk_go\n"
        ".globl thunk_go\n"
        ".type thunk_go, @function\n"
        "thunk_go:\n"
        ".cfi_startproc\n"
        "pushq %rbp\n"
        ".cfi_def_cfa_offset 16\n"
        ".cfi_offset %rbp, -16\n"
        "movq %rsp, %rbp\n"
        ".cfi_def_cfa_register %rbp\n"
        "subq $192, %rsp\n"
        "movq %rdi, (%rsp)\n"
        "movq %rsi, 8(%rsp)\n"
        "movq %rdx, 16(%rsp)\n"
        "movq %rcx, 24(%rsp)\n"
        "movq %r8, 32(%rsp)\n"
        "movq %r9, 40(%rsp)\n"
        "movq %rax, 48(%rsp)\n"
        "movaps %xmm0, 64(%rsp)\n"
        "movaps %xmm1, 80(%rsp)\n"
        "movaps %xmm2, 96(%rsp)\n"
        "movaps %xmm3, 112(%rsp)\n"
        "movaps %xmm4, 128(%rsp)\n"
        "movaps %xmm5, 144(%rsp)\n"
        "movaps %xmm6, 160(%rsp)\n"
        "movaps %xmm7, 176(%rsp)\n"
        "movq %r11, %rdi\n"
        "movq 8(%rbp), %rsi\n"
        "movq %rbx, %rdx\n"
        "call thunk_enter\n"
        "movq %rax, %r11\n"
        "movq (%rsp), %rdi\n"
        "movq 8(%rsp), %rsi\n"
        "movq 16(%rsp), %rdx\n"
        "movq 24(%rsp), %rcx\n"
        "movq 32(%rsp), %r8\n"
        "movq 40(%rsp), %r9\n"
        "movq 48(%rsp), %rax\n"
        "movaps 64(%rsp), %xmm0\n"
        "movaps 80(%rsp), %xmm1\n"
        "movaps 96(%rsp), %xmm2\n"
        "movaps 112(%rsp), %xmm3\n"
        "movaps 128(%rsp), %xmm4\n"
        "movaps 144(%rsp), %xmm5\n"
        "movaps 160(%rsp), %xmm6\n"
        "movaps 176(%rsp), %xmm7\n"
        "leave\n"
        ".cfi_def_cfa %rsp, 8\n"
        ".cfi_restore %rbp\n"
        "cmpq $0, (%r11)\n"
        "jne 1f\n"
        "jmp *16(%r11)\n"
        "1:\n"
        "movq %r11, %rbx\n"
        ".cfi_escape 0x10, 0x03, 0x02, 0x73, 0x08\n" /* rbx is at rbx + 8 */
        "addq $8, %rsp\n"
        ".cfi_def_cfa_offset 0\n"
        ".cfi_escape 0x10, 0x10, 0x02, 0x73, 0x00\n" /* the return address is at rbx */
        "call *16(%rbx)\n"
        "subq $48, %rsp\n"
        ".cfi_def_cfa_offset 48\n"
        "movq %rax, (%rsp)\n"
        "movq %rdx, 8(%rsp)\n"
        "movups %xmm0, 16(%rsp)\n"
        "movq (%rbx), %r11\n"
        "movq %r11, 40(%rsp)\n" /* where it was */
        ".cfi_offset %rip, -8\n"
        "movq 8(%rbx), %r11\n"
        "movq %r11, 32(%rsp)\n"
        "movq %rbx, %rdi\n"
        "movq 32(%rsp), %rbx\n"
        ".cfi_restore %rbx\n"
        "movl (%rsp), %esi\n" /* what the driver returned */
        "call thunk_leave\n"
        "movq (%rsp), %rax\n"
        "movq 8(%rsp), %rdx\n"
        "movups 16(%rsp), %xmm0\n"
        "addq $40, %rsp\n"
        ".cfi_def_cfa_offset 8\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size thunk_go, .-thunk_go\n"
        ".popsection\n");
