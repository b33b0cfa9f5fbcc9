#include "shim/trampoline.h"

#include <stddef.h>
#include <string.h>

#include "shim/control.h"
#include "shim/link.h"
#include "shim/lock.h"
#include "shim/passage.h"

/* Far more than a driver has beyond the tables. Made beforehand, so that no memory has to be both
 * written and executed, which some systems forbid. */
#define STUBS_MAX 512
#define STUB_BYTES 16

struct unknown {
    struct passage passage;
    void *function; /* NULL: no function but something else with a name */
    char name[MW_NAME_BYTES];
    bool told;
    char unused[23];
};
_Static_assert(sizeof(struct unknown) == 128, "the stubs know it");

extern struct unknown trampoline_unknowns[STUBS_MAX];
struct unknown trampoline_unknowns[STUBS_MAX];
extern const char trampoline_stubs[];

static uint32_t count;
static struct lock lock;
static _Atomic uint64_t calls_in_all;
static _Atomic uint32_t names_told;

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

/* NULL when there are too many. */
static struct unknown *add(const char *name, void *function)
{
    if (count == STUBS_MAX) {
        return NULL;
    }
    struct unknown *unknown = &trampoline_unknowns[count];
    memcpy(unknown->name, name, strnlen(name, MW_NAME_BYTES - 1));
    unknown->function = function;
    unknown->passage.function = &unknown->function;
    unknown->passage.name = unknown->name;
    unknown->passage.kind = PASSAGE_UNKNOWN;
    count++;
    return unknown;
}

void *trampoline_for(const char *name, void *function)
{
    LOCK_SCOPE(&lock);
    struct unknown *unknown = NULL;
    for (uint32_t i = 0; i < count && !unknown; i++) {
        if (trampoline_unknowns[i].function == function) {
            unknown = &trampoline_unknowns[i];
        }
    }
    unknown = unknown ? unknown : add(name, function);
    if (!unknown) {
        return function;
    }
    return (void *)(uintptr_t)(trampoline_stubs + (unknown - trampoline_unknowns) * STUB_BYTES);
}

static void tell(struct unknown *unknown, uint64_t calls)
{
    struct mw_unknown note = {.calls = calls};
    memcpy(note.name, unknown->name, sizeof(note.name));
    link_send(&note, sizeof(note), MW_UNKNOWN);
}

void trampoline_called(struct passage *passage)
{
    struct unknown *unknown = (struct unknown *)(void *)passage;
    uint64_t calls = __atomic_add_fetch(&passage->calls, 1, __ATOMIC_RELAXED);
    atomic_fetch_add(&calls_in_all, 1);
    if (calls == 1) {
        unknown->told = atomic_fetch_add(&names_told, 1) < MW_UNKNOWN_MAX;
    }
    if (control_is_active() && unknown->told && (calls & (calls - 1)) == 0) {
        tell(unknown, calls);
    }
    control_unknown(unknown->name);
}

void trampoline_used(const char *name)
{
    struct unknown *unknown = NULL;
    lock_take(&lock);
    for (uint32_t i = 0; i < count && !unknown; i++) {
        if (!strncmp(trampoline_unknowns[i].name, name, MW_NAME_BYTES - 1)) {
            unknown = &trampoline_unknowns[i];
        }
    }
    unknown = unknown ? unknown : add(name, NULL);
    lock_drop(&lock);
    if (unknown) {
        trampoline_called(&unknown->passage);
    }
}

void trampoline_tell(void)
{
    for (uint32_t i = 0; i < STUBS_MAX; i++) {
        struct unknown *unknown = &trampoline_unknowns[i];
        uint64_t calls = __atomic_load_n(&unknown->passage.calls, __ATOMIC_RELAXED);
        if (calls && unknown->told) {
            tell(unknown, calls);
            control_pin(unknown->name);
        }
    }
}

uint64_t trampoline_calls(void) { return atomic_load(&calls_in_all); }

void trampoline_after_fork(void) { atomic_store(&lock.word, 0); }
