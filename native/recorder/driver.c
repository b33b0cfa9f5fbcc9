#include "recorder/driver.h"

#include <dlfcn.h>

#include "shim/base/lock.h"

// NOLINTBEGIN(bugprone-suspicious-missing-comma) a name and its suffix are one string
static const char *const names[ENTRY_COUNT] = {
#define CUDA_CALL(name, parameters, arguments) #name,
#define CUDA_CALL_DS(name, parameters, arguments) #name, #name "_ptds",
#define CUDA_CALL_SZ(name, parameters, arguments) #name, #name "_ptsz",
#include "cuda/cuda_calls.def"
#define PLAIN(class, name, symbol, since) #symbol,
#define PLAIN_DS(class, name, symbol, since, since_ptds) #symbol, #symbol "_ptds",
#define PLAIN_SZ(class, name, symbol, since, since_ptsz) #symbol, #symbol "_ptsz",
#include "cuda/plain_calls.def"
};
// NOLINTEND(bugprone-suspicious-missing-comma)

static CUresult not_initialized(void) { return CUDA_ERROR_NOT_INITIALIZED; }
static CUresult not_supported(void) { return CUDA_ERROR_NOT_SUPPORTED; }

void *driver_entries[ENTRY_COUNT] = {[0 ... ENTRY_COUNT - 1] = (void *)not_initialized};

static bool loaded;
static struct lock lock;

dlsym_fn *driver_dlsym(void)
{
    static dlsym_fn *found;
    if (!found) {
        found = (dlsym_fn *)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    }
    return found;
}

bool driver_load(void)
{
    if (__atomic_load_n(&loaded, __ATOMIC_ACQUIRE)) {
        return true;
    }
    void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD); /* kept: it never goes away */
    if (!library || !driver_dlsym()) {
        return false;
    }
    LOCK_SCOPE(&lock);
    for (int i = 0; i < ENTRY_COUNT && !loaded; i++) {
        void *theirs = driver_dlsym()(library, names[i]);
        driver_entries[i] = theirs ? theirs : (void *)not_supported;
    }
    __atomic_store_n(&loaded, true, __ATOMIC_RELEASE);
    return true;
}

bool driver_exports(enum entry entry) { return driver_entries[entry] != (void *)not_supported; }
