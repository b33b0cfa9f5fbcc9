/* A way through the gate for functions of the driver whose parameters are not known.
 *
 * The caller's registers and its part of the stack stay as they are: only the return address is taken out of
 * the way while the driver runs, so that arguments on the stack lie where the driver looks for them.
 */
#ifndef MOIETY_SHIM_GATE_THUNK_H
#define MOIETY_SHIM_GATE_THUNK_H

#include <stdint.h>

enum thunk_kind {
    THUNK_GATED = 0,
    THUNK_PIN = 1,     /* and pins its caller, if the agent agrees */
    THUNK_AWAIT = 2,   /* and what comes behind it may wait for what its own thread does later */
    THUNK_UNKNOWN = 3, /* and pins, and is reported (unknown_calls.h) */
};

struct thunk {
    void *const *function; /* the driver's */
    const char *name;
    uint64_t calls; /* of unknown ones */
    enum thunk_kind kind;
    void (*entered)(struct thunk *thunk); /* THUNK_UNKNOWN: called once its caller is inside */
};

/* A function called `symbol` that leads to *function. */
#if defined(__x86_64__)
#    define THUNK(symbol, called, to, its_kind)                                                    \
        extern struct thunk thunk_of_##symbol;                                                     \
        struct thunk thunk_of_##symbol = {.function = (to), .name = (called), .kind = (its_kind)}; \
        __asm__(".pushsection .text\n"                                                             \
                ".p2align 4\n"                                                                     \
                ".globl " #symbol "\n"                                                             \
                ".type " #symbol ", @function\n" #symbol ":\n"                                     \
                "endbr64\n"                                                                        \
                "leaq thunk_of_" #symbol "(%rip), %r11\n"                                          \
                "jmp thunk_go\n"                                                                   \
                ".size " #symbol ", .-" #symbol "\n"                                               \
                ".popsection\n")
#else
#    error "the shim runs on x86-64"
#endif

#endif
