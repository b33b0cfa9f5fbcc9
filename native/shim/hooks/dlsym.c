/* How programs find the driver's functions, and where they find ours instead.
 *
 * The driver (or libc) is always asked first; what it returned decides what is wrapped, so a
 * program gets exactly the version and the stream flavour that it would have got.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "shim/base/disable.h"
#include "shim/base/driver.h"
#include "shim/base/symbol_versions.h"
#include "shim/gate/unknown_calls.h"
#include "shim/hooks/nvml.h"

#if defined(__clang__) && __has_attribute(musttail)
#    define TAIL_CALL __attribute__((musttail)) return
#else
#    define TAIL_CALL return /* gcc at -O2 makes a jump of it */
#endif

#define EXPORT __attribute__((visibility("default")))

// NOLINTBEGIN(readability-redundant-declaration) libc's, but to be exported by us
EXPORT void *dlsym(void *restrict handle, const char *restrict name);
EXPORT void *dlopen(const char *file, int mode);
EXPORT void *dlvsym(void *restrict handle, const char *restrict name, const char *restrict version);
// NOLINTEND(readability-redundant-declaration)

static bool is_driver_call(const char *name)
{
    return name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z';
}

static void *substitute(const char *name, void *found)
{
    if (driver_is_ours(found)) {
        return driver_load() ? found : NULL; /* without us the program would not have found it */
    }
    if (!driver_load() || !driver_has(found) || shim_is_disabled()) {
        return found;
    }
    void *wrapped = driver_wrapper_of(found);
    return wrapped ? wrapped : unknown_call_thunk(name, found);
}

static bool is_looked_at(const char *name) { return is_driver_call(name) || nvml_is_wrapped(name); }

static void *in_place_of(void *handle, const char *name, void *found)
{
    return is_driver_call(name) ? substitute(name, found) : nvml_wrapped(handle, name, found);
}

/* A library that is loaded with RTLD_DEEPBIND finds the driver and libc's lookup before the shim's,
 * so its work would be done without a lease. MOIETY_DEEPBIND=keep keeps the flag, for programs that
 * need it. */
static int without_deepbind(int mode)
{
    const char *socket = getenv("MOIETY_SOCKET");
    const char *kept = getenv("MOIETY_DEEPBIND");
    bool shares = socket && *socket && !(kept && strcmp(kept, "keep") == 0);
    return shares && !shim_is_disabled() ? mode & ~RTLD_DEEPBIND : mode;
}

/* A jump, too: where the loader searches depends on the caller. */
void *dlopen(const char *file, int mode)
{
    if (__builtin_expect(mode & RTLD_DEEPBIND, 0)) {
        mode = without_deepbind(mode);
    }
    TAIL_CALL real_dlopen()(file, mode);
}

/* RTLD_NEXT and RTLD_DEFAULT depend on the caller: names that the shim does not replace are passed
 * on by a jump, so that libc still sees the program as its caller. */
void *dlsym(void *restrict handle, const char *restrict name)
{
    if (__builtin_expect(!is_looked_at(name), 1)) {
        TAIL_CALL real_dlsym()(handle, name);
    }
    void *found = real_dlsym()(handle, name);
    return found ? in_place_of(handle, name, found) : NULL;
}

void *dlvsym(void *restrict handle, const char *restrict name, const char *restrict version)
{
    if (__builtin_expect(!is_looked_at(name), 1)) {
        TAIL_CALL real_dlvsym()(handle, name, version);
    }
    void *found = real_dlvsym()(handle, name, version);
    return found ? in_place_of(handle, name, found) : NULL;
}

/* Replaces what cuGetProcAddress returned: known by its address, or else by the name and
 * version. */
static void *substitute_version(const char *symbol, void *found, int cuda_version, cuuint64_t flags)
{
    if (shim_is_disabled()) {
        return found;
    }
    void *wrapped = driver_is_ours(found) ? found : driver_wrapper_of(found);
    if (wrapped) {
        return wrapped;
    }
    int version = 0;
    DRIVER(cuDriverGetVersion)(&version); /* newer forms are not what an older driver returned */
    version = version && version < cuda_version ? version : cuda_version;
    enum entry entry = symbol_versions_find(symbol, version, flags);
    return entry == ENTRY_COUNT ? unknown_call_thunk(symbol, found)
                                : driver_wrapper_of_entry(entry, found);
}

CUresult cuGetProcAddress(const char *symbol, void **function, int cuda_version, cuuint64_t flags)
{
    if (!driver_load()) {
        return CUDA_ERROR_NOT_INITIALIZED;
    }
    CUresult result = DRIVER(cuGetProcAddress)(symbol, function, cuda_version, flags);
    if (result == CUDA_SUCCESS && symbol && function && *function) {
        *function = substitute_version(symbol, *function, cuda_version, flags);
    }
    return result;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **function, int cuda_version,
                             cuuint64_t flags, CUdriverProcAddressQueryResult *symbol_status)
{
    if (!driver_load()) {
        return CUDA_ERROR_NOT_INITIALIZED;
    }
    CUresult result =
        DRIVER(cuGetProcAddress_v2)(symbol, function, cuda_version, flags, symbol_status);
    if (result == CUDA_SUCCESS && symbol && function && *function) {
        *function = substitute_version(symbol, *function, cuda_version, flags);
    }
    return result;
}
