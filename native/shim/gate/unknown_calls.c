#include "shim/gate/unknown_calls.h"

#include <stddef.h>
#include <string.h>

#include "shim/agent/client_report.h"
#include "shim/agent/socket.h"
#include "shim/base/lock.h"
#include "shim/gate/thunk.h"

/* Far more than a driver has beyond the tables. Made beforehand, so that no memory has to be both
 * written and executed, which some systems forbid. */
#define STUBS_MAX 512
#define STUB_BYTES 16

struct unknown {
    struct thunk thunk;
    void *function; /* NULL: no function but something else with a name */
    char name[MW_NAME_BYTES];
    bool told;
    char unused[15];
};
_Static_assert(sizeof(struct unknown) == 128, "the stubs know it");

extern struct unknown unknown_calls[STUBS_MAX];
struct unknown unknown_calls[STUBS_MAX];
extern const char unknown_call_stubs[];

static uint32_t count;
static struct lock lock = LOCK_INIT(LOCK_UNKNOWN_CALLS);
static _Atomic uint64_t calls_in_all;
static _Atomic uint32_t names_told;

__asm__(".pushsection .text\n"
        ".p2align 4\n"
        ".hidden unknown_call_stubs\n"
        ".globl unknown_call_stubs\n"
        "unknown_call_stubs:\n"
        ".set unknown_offset, 0\n"
        ".rept 512\n"
        "endbr64\n"
        "leaq unknown_calls+unknown_offset(%rip), %r11\n"
        "jmp thunk_go\n"
        ".p2align 4\n"
        ".set unknown_offset, unknown_offset + 128\n"
        ".endr\n"
        ".popsection\n");

static void tell(struct unknown *unknown, uint64_t calls)
{
    struct mw_unknown note = {.calls = calls};
    memcpy(note.name, unknown->name, sizeof(note.name));
    agent_send(&note, sizeof(note), MW_UNKNOWN);
}

/* One of them was called. */
static void called(struct thunk *thunk)
{
    struct unknown *unknown = (struct unknown *)(void *)thunk;
    uint64_t calls = __atomic_add_fetch(&thunk->calls, 1, __ATOMIC_RELAXED);
    atomic_fetch_add(&calls_in_all, 1);
    if (calls == 1) {
        unknown->told = atomic_fetch_add(&names_told, 1) < MW_UNKNOWN_MAX;
    }
    if (client_is_active() && unknown->told && (calls & (calls - 1)) == 0) {
        tell(unknown, calls);
    }
    client_report_unknown(unknown->name);
}

/* NULL when there are too many. */
static struct unknown *add(const char *name, void *function)
{
    if (count == STUBS_MAX) {
        return NULL;
    }
    struct unknown *unknown = &unknown_calls[count];
    memcpy(unknown->name, name, strnlen(name, MW_NAME_BYTES - 1));
    unknown->function = function;
    unknown->thunk.function = &unknown->function;
    unknown->thunk.name = unknown->name;
    unknown->thunk.kind = THUNK_UNKNOWN;
    unknown->thunk.entered = called;
    count++;
    return unknown;
}

void *unknown_call_thunk(const char *name, void *function)
{
    LOCK_SCOPE(&lock);
    struct unknown *unknown = NULL;
    for (uint32_t i = 0; i < count && !unknown; i++) {
        if (unknown_calls[i].function == function) {
            unknown = &unknown_calls[i];
        }
    }
    unknown = unknown ? unknown : add(name, function);
    if (!unknown) {
        return function;
    }
    return (void *)(uintptr_t)(unknown_call_stubs + (unknown - unknown_calls) * STUB_BYTES);
}

void unknown_call_used(const char *name)
{
    struct unknown *unknown = NULL;
    lock_take(&lock);
    for (uint32_t i = 0; i < count && !unknown; i++) {
        if (!strncmp(unknown_calls[i].name, name, MW_NAME_BYTES - 1)) {
            unknown = &unknown_calls[i];
        }
    }
    unknown = unknown ? unknown : add(name, NULL);
    lock_drop(&lock);
    if (unknown) {
        called(&unknown->thunk);
    }
}

void unknown_calls_tell(void)
{
    for (uint32_t i = 0; i < STUBS_MAX; i++) {
        struct unknown *unknown = &unknown_calls[i];
        uint64_t calls = __atomic_load_n(&unknown->thunk.calls, __ATOMIC_RELAXED);
        if (calls && unknown->told) {
            tell(unknown, calls);
            client_report_pinned(unknown->name);
        }
    }
}

uint64_t unknown_calls_count(void) { return atomic_load(&calls_in_all); }

void unknown_calls_after_fork(void) { lock_after_fork(&lock); }
