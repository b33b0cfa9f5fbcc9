/* How programs find the driver's functions; they find the recorder's, which are made in calls.c. */
#include <dlfcn.h>
#include <string.h>

#include "recorder/calls.h"
#include "recorder/driver.h"
#include "recorder/trace.h"
#include "shim/base/symbol_versions.h"

#if defined(__clang__) && __has_attribute(musttail)
#    define TAIL_CALL __attribute__((musttail)) return
#else
#    define TAIL_CALL return /* gcc at -O2 makes a jump of it */
#endif

// NOLINTNEXTLINE(readability-redundant-declaration) libc's, but to be exported by us
__attribute__((visibility("default"))) void *dlsym(void *restrict handle,
                                                   const char *restrict name);

/* Ours for one of the driver's; the same where the table does not have it. */
static void *substitute(void *found)
{
    for (int i = 0; driver_load() && i < ENTRY_COUNT; i++) {
        if (driver_entries[i] == found && calls_ours[i]) {
            return calls_ours[i];
        }
    }
    return found;
}

static bool is_ours(const void *function)
{
    for (int i = 0; i < ENTRY_COUNT; i++) {
        if (calls_ours[i] == function) {
            return true;
        }
    }
    return false;
}

/* Other names are passed on by a jump, so that RTLD_NEXT still means the program's next. */
void *dlsym(void *restrict handle, const char *restrict name)
{
    if (name[0] != 'c' || name[1] != 'u' || name[2] < 'A' || name[2] > 'Z') {
        TAIL_CALL driver_dlsym()(handle, name);
    }
    void *found = driver_dlsym()(handle, name);
    if (!found || is_ours(found)) {
        return found && driver_load() ? found : NULL;
    }
    void *ours = substitute(found);
    if (ours == found) {
        trace_remark("unseen", name);
    }
    return ours;
}

/* What goes in is lost when the call returns: it stands before what came out. */
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    CUstreamCaptureMode wanted = mode ? *mode : 0;
    CUresult result = driver_load() ? DRIVER(cuThreadExchangeStreamCaptureMode)(mode)
                                    : CUDA_ERROR_NOT_INITIALIZED;
    struct argument all[] = {ARGUMENTS(wanted, mode)};
    trace_call("cuThreadExchangeStreamCaptureMode", result, all, 2);
    return result;
}

/* What the driver returned is told as it is: the trace says whether it is the function that it exports. */
static CUresult answer(const char *symbol, void **function, int version, cuuint64_t flags,
                       CUresult result, const char *own, struct argument *arguments, size_t count)
{
    void *found = function && result == CUDA_SUCCESS ? *function : NULL;
    trace_call(own, result, arguments, count);
    if (!found || !symbol) {
        return result;
    }
    *function = substitute(found);
    if (*function == found) {
        enum entry entry = symbol_versions_find(symbol, version, flags);
        trace_remark(entry == ENTRY_COUNT || !calls_ours[entry] ? "unseen" : "not-exported",
                     symbol);
        if (entry != ENTRY_COUNT && calls_ours[entry] && !driver_exports(entry)) {
            driver_entries[entry] = found;
            *function = calls_ours[entry];
        }
    }
    return result;
}

CUresult cuGetProcAddress(const char *symbol, void **function, int cuda_version, cuuint64_t flags)
{
    CUresult result = driver_load()
                          ? DRIVER(cuGetProcAddress)(symbol, function, cuda_version, flags)
                          : CUDA_ERROR_NOT_INITIALIZED;
    struct argument all[] = {ARGUMENTS(symbol, function, cuda_version, flags)};
    return answer(symbol, function, cuda_version, flags, result, "cuGetProcAddress", all, 4);
}

CUresult cuGetProcAddress_v2(const char *symbol, void **function, int cuda_version,
                             cuuint64_t flags, CUdriverProcAddressQueryResult *symbol_status)
{
    CUresult result = driver_load() ? DRIVER(cuGetProcAddress_v2)(symbol, function, cuda_version,
                                                                  flags, symbol_status)
                                    : CUDA_ERROR_NOT_INITIALIZED;
    struct argument all[] = {ARGUMENTS(symbol, function, cuda_version, flags, symbol_status)};
    return answer(symbol, function, cuda_version, flags, result, "cuGetProcAddress_v2", all, 5);
}
