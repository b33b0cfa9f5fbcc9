#include "shim/trampoline.h"

#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "shim/lock.h"

#define STUBS_MAX 1024
#define STUB_BYTES 32
#define NAME_BYTES 64

struct unknown {
    char name[NAME_BYTES];
    void *function;
    void *stub;
    uint64_t calls;
};

static struct unknown unknowns[STUBS_MAX];
static uint32_t count;
static unsigned char *page;
static struct lock lock;

/* Names of which the prefix says that they only tell or configure something. */
static const char *const harmless[] = {
    "cuDeviceGet", "cuProfiler",     "cuGetError", "cuOccupancy",      "cuFuncGet",
    "cuFuncSet",   "cuKernelGet",    "cuCoredump", "cuLogs",           "cuCtxGet",
    "cuStreamGet", "cuGraphNodeGet", "cuEventGet", "cuDeviceRegister", "cuDeviceUnregister",
};

static bool is_harmless(const char *name)
{
    for (size_t i = 0; i < sizeof(harmless) / sizeof(harmless[0]); i++) {
        if (!strncmp(name, harmless[i], strlen(harmless[i]))) {
            return true;
        }
    }
    return false;
}

#if defined(__x86_64__)
/*  movabs $calls, %r11 ; lock incq (%r11) ; movabs $function, %r11 ; jmp *%r11
 *  r11 belongs to nobody at a call (System V ABI, table of registers). */
static void write_stub(unsigned char *at, const uint64_t *calls, const void *function)
{
    static const unsigned char load[] = {0x49, 0xbb};
    static const unsigned char increment[] = {0xf0, 0x49, 0xff, 0x03};
    static const unsigned char jump[] = {0x41, 0xff, 0xe3};
    memcpy(at, load, 2);
    memcpy(at + 2, &calls, 8);
    memcpy(at + 10, increment, 4);
    memcpy(at + 14, load, 2);
    memcpy(at + 16, &function, 8);
    memcpy(at + 24, jump, 3);
}
#endif

static void *make_stub(struct unknown *unknown)
{
#if defined(__x86_64__)
    size_t bytes = (size_t)STUBS_MAX * STUB_BYTES;
    if (!page) {
        void *made = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        page = made == MAP_FAILED ? NULL : made;
    }
    unsigned char *at = page ? page + (unknown - unknowns) * STUB_BYTES : NULL;
    /* Other threads may run stubs of this page meanwhile, so it stays executable. Where a
     * policy forbids that (SELinux execmem), calls go uncounted. */
    // NOLINTNEXTLINE(clang-analyzer-security.MmapWriteExec) for the moment of writing a stub
    if (at && mprotect(page, bytes, PROT_READ | PROT_WRITE | PROT_EXEC) == 0) {
        write_stub(at, &unknown->calls, unknown->function);
        mprotect(page, bytes, PROT_READ | PROT_EXEC);
        return at;
    }
#endif
    return unknown->function;
}

void *trampoline_for(const char *name, void *function)
{
    LOCK_SCOPE(&lock);
    for (uint32_t i = 0; i < count; i++) {
        if (unknowns[i].function == function) {
            return unknowns[i].stub;
        }
    }
    if (count == STUBS_MAX) {
        return function;
    }
    struct unknown *unknown = &unknowns[count];
    strncpy(unknown->name, name, NAME_BYTES - 1);
    unknown->function = function;
    unknown->stub = make_stub(unknown);
    count++;
    return unknown->stub;
}

uint64_t trampoline_calls(void)
{
    LOCK_SCOPE(&lock);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += __atomic_load_n(&unknowns[i].calls, __ATOMIC_RELAXED);
    }
    return sum;
}

const char *trampoline_suspect(void)
{
    LOCK_SCOPE(&lock);
    for (uint32_t i = 0; i < count; i++) {
        if (__atomic_load_n(&unknowns[i].calls, __ATOMIC_RELAXED) &&
            !is_harmless(unknowns[i].name)) {
            return unknowns[i].name;
        }
    }
    return NULL;
}

void trampoline_after_fork(void) { atomic_store(&lock.word, 0); }
