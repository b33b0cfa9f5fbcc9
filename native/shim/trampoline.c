#include "shim/trampoline.h"

#include <stddef.h>
#include <string.h>

#include "shim/lock.h"
#include "shim/passage.h"

/* Far more than a driver has beyond the tables. Made beforehand, so that no memory has to be both written and
 * executed, which some systems forbid. */
#define STUBS_MAX 512
#define STUB_BYTES 16
#define NAME_BYTES 64

struct unknown {
    struct passage passage;
    void *function;
    char name[NAME_BYTES];
    char unused[24];
};
_Static_assert(sizeof(struct unknown) == 128, "the stubs know it");

extern struct unknown trampoline_unknowns[STUBS_MAX];
struct unknown trampoline_unknowns[STUBS_MAX];
extern const char trampoline_stubs[];

static uint32_t count;
static struct lock lock;

__asm__(".pushsection .text\n"
        ".p2align 4\n"
        ".hidden trampoline_stubs\n"
        ".globl trampoline_stubs\n"
        "trampoline_stubs:\n"
        ".set unknown_offset, 0\n"
        ".rept 512\n"
        "endbr64\n"
        "leaq trampoline_unknowns+unknown_offset(%rip), %r11\n"
        "jmp passage_go\n"
        ".p2align 4\n"
        ".set unknown_offset, unknown_offset + 128\n"
        ".endr\n"
        ".popsection\n");

void *trampoline_for(const char *name, void *function)
{
    LOCK_SCOPE(&lock);
    uint32_t i = 0;
    while (i < count && trampoline_unknowns[i].function != function) {
        i++;
    }
    if (i == STUBS_MAX) {
        return function;
    }
    if (i == count) {
        struct unknown *unknown = &trampoline_unknowns[i];
        strncpy(unknown->name, name, NAME_BYTES - 1);
        unknown->function = function;
        unknown->passage.function = &unknown->function;
        unknown->passage.name = unknown->name;
        unknown->passage.kind = PASSAGE_UNKNOWN;
        count++;
    }
    return (void *)(uintptr_t)(trampoline_stubs + (size_t)i * STUB_BYTES);
}

void trampoline_called(const char *name, uint64_t calls)
{
    (void)name;
    (void)calls;
}

uint64_t trampoline_calls(void)
{
    LOCK_SCOPE(&lock);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += __atomic_load_n(&trampoline_unknowns[i].passage.calls, __ATOMIC_RELAXED);
    }
    return sum;
}

const char *trampoline_suspect(void)
{
    LOCK_SCOPE(&lock);
    for (uint32_t i = 0; i < count; i++) {
        if (__atomic_load_n(&trampoline_unknowns[i].passage.calls, __ATOMIC_RELAXED)) {
            return trampoline_unknowns[i].name;
        }
    }
    return NULL;
}

void trampoline_after_fork(void) { atomic_store(&lock.word, 0); }
