#include "shim/base/symbol_versions.h"

#include <stdbool.h>
#include <string.h>

struct form {
    const char *name;
    enum entry entry;
    int since;
    bool per_thread;
};

#define ENTRY(name, symbol, since) {#name, ENTRY_##symbol, since, false},
#define ENTRY_DS(name, symbol, since, since_ptds) \
    {#name, ENTRY_##symbol, since, false}, {#name, ENTRY_##symbol##_ptds, since_ptds, true},
#define ENTRY_SZ(name, symbol, since, since_ptsz) \
    {#name, ENTRY_##symbol, since, false}, {#name, ENTRY_##symbol##_ptsz, since_ptsz, true},
static const struct form forms[] = {
#define PLAIN(class, name, symbol, since) ENTRY(name, symbol, since)
#define PLAIN_DS(class, name, symbol, since, since_ptds) ENTRY_DS(name, symbol, since, since_ptds)
#define PLAIN_SZ(class, name, symbol, since, since_ptsz) ENTRY_SZ(name, symbol, since, since_ptsz)
#include "cuda/plain_calls.def"

#include "cuda/entrypoints.def"
};

enum entry symbol_versions_find(const char *name, int cuda_version, cuuint64_t flags)
{
    bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
    const struct form *best = NULL;
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        const struct form *form = &forms[i];
        if (form->since > cuda_version || strcmp(form->name, name) != 0 ||
            (form->per_thread && !per_thread)) {
            continue;
        }
        /* the newest form of the flavour asked for, else the newest of the other flavour */
        if (!best || (form->per_thread && !best->per_thread) ||
            (form->per_thread == best->per_thread && form->since > best->since)) {
            best = form;
        }
    }
    return best ? best->entry : ENTRY_COUNT;
}
