/* cuGetProcAddress, answered from the tables in cuda/entrypoints.def and cuda/plain_calls.def. */
#include <stdlib.h>
#include <string.h>

#include "cuda/cuda_calls.h"

static const struct entry {
    const char *name;
    void *function, *per_thread; /* the _ptds or _ptsz entry point, or NULL */
    int since, per_thread_since;
} entries[] = {
#define ENTRY(name, symbol, since) {#name, (void *)symbol, NULL, since, 0},
#define ENTRY_DS(name, symbol, since, since_ptds) \
    {#name, (void *)symbol, (void *)symbol##_ptds, since, since_ptds},
#define ENTRY_SZ(name, symbol, since, since_ptsz) \
    {#name, (void *)symbol, (void *)symbol##_ptsz, since, since_ptsz},
#define PLAIN(class, name, symbol, since) ENTRY(name, symbol, since)
#define PLAIN_DS(class, name, symbol, since, since_ptds) ENTRY_DS(name, symbol, since, since_ptds)
#define PLAIN_SZ(class, name, symbol, since, since_ptsz) ENTRY_SZ(name, symbol, since, since_ptsz)
#include "cuda/plain_calls.def"

#include "cuda/entrypoints.def"
};

/* ---- addresses that nothing is exported at, on demand ---- */

#define ENTRIES (sizeof entries / sizeof *entries)
#define ALIASES_MAX 2048
_Static_assert(2 * ENTRIES <= ALIASES_MAX, "one for each flavour");

extern const char sg_alias_code[]; /* eight bytes each */
extern void *sg_aliased[ALIASES_MAX];
void *sg_aliased[ALIASES_MAX];

__asm__(".pushsection .text\n"
        ".p2align 3\n"
        ".hidden sg_alias_code\n"
        ".globl sg_alias_code\n"
        "sg_alias_code:\n"
        ".set alias_offset, 0\n"
        ".rept 2048\n"
        "jmp *sg_aliased+alias_offset(%rip)\n"
        ".p2align 3\n"
        ".set alias_offset, alias_offset + 8\n"
        ".endr\n"
        ".popsection\n");

static void *aliased(size_t entry, int own, void *function)
{
    const char *wanted = getenv("MOIETY_SIMGPU_ALIASES");
    if (!wanted || !*wanted || *wanted == '0') {
        return function;
    }
    size_t i = 2 * entry + (own ? 1 : 0);
    __atomic_store_n(&sg_aliased[i], function, __ATOMIC_RELEASE);
    return (void *)(uintptr_t)(sg_alias_code + 8 * i);
}

/* Finds the newest form that is not newer than the version asked for. */
static CUdriverProcAddressQueryResult look_up(const char *name, int version, int per_thread,
                                              void **function)
{
    int known = 0, best = -1;
    for (size_t i = 0; i < ENTRIES; i++) {
        const struct entry *entry = &entries[i];
        if (strcmp(entry->name, name) != 0) {
            continue;
        }
        int own = per_thread && entry->per_thread;
        int since = own ? entry->per_thread_since : entry->since;
        known = 1;
        if (since > version || since <= best) {
            continue;
        }
        best = since;
        *function = aliased(i, own, own ? entry->per_thread : entry->function);
    }
    return best >= 0 ? CU_GET_PROC_ADDRESS_SUCCESS
           : known   ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                     : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status)
{
    CUdriverProcAddressQueryResult found;
    int driver = 0;
    if (!symbol || !function || flags & ~(cuuint64_t)3) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *function = NULL;
    cuDriverGetVersion(&driver);
    if (version > driver) { /* a function newer than this driver's version is not found */
        version = driver;
    }
    found = look_up(symbol, version, (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0,
                    function);
    if (status) {
        *status = found;
    }
    return found == CU_GET_PROC_ADDRESS_SUCCESS || status ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetProcAddress(const char *symbol, void **function, int version, cuuint64_t flags)
{
    return cuGetProcAddress_v2(symbol, function, version, flags, NULL);
}

CUDA_EXPORT CUresult cuGetProcAddress_v2_ptsz(const char *symbol, void **function, int version,
                                              cuuint64_t flags,
                                              CUdriverProcAddressQueryResult *status);
CUDA_EXPORT CUresult cuGetProcAddress_ptsz(const char *symbol, void **function, int version,
                                           cuuint64_t flags);

CUresult cuGetProcAddress_v2_ptsz(const char *symbol, void **function, int version,
                                  cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
    if (!(flags & CU_GET_PROC_ADDRESS_LEGACY_STREAM)) {
        flags |= CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    }
    return cuGetProcAddress_v2(symbol, function, version, flags, status);
}

CUresult cuGetProcAddress_ptsz(const char *symbol, void **function, int version, cuuint64_t flags)
{
    return cuGetProcAddress_v2_ptsz(symbol, function, version, flags, NULL);
}
