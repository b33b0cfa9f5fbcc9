/* NVML: beginning, ending, and what concerns the machine as a whole. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "simgpu/nvml/system.h"
#include "simgpu/shared/state.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int users;

__attribute__((destructor)) static void end(void) { sg_state_close(); }

nvmlReturn_t sg_nvml_entered(void) { return users > 0 ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED; }

static nvmlReturn_t begin(void)
{
    char why[1024] = "";
    int error = 0;
    pthread_mutex_lock(&lock);
    if (!sg_state || !sg_process) {
        error = sg_state_open(SG_WATCHER, why, sizeof why);
        if (error) {
            fprintf(stderr, "simgpu: %s.\n", why);
        }
    }
    if (!error) {
        users++;
    }
    pthread_mutex_unlock(&lock);
    return error ? NVML_ERROR_DRIVER_NOT_LOADED : NVML_SUCCESS;
}

NVML_SYSTEM(nvmlInit, void) { return begin(); }

NVML_SYSTEM(nvmlInit_v2, void) { return begin(); }

NVML_SYSTEM(nvmlInitWithFlags, unsigned int flags)
{
    (void)flags;
    return begin();
}

NVML_SYSTEM(nvmlShutdown, void)
{
    pthread_mutex_lock(&lock);
    nvmlReturn_t result = users > 0 ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
    users -= users > 0; /* the slot stays: programs initialise again and again */
    pthread_mutex_unlock(&lock);
    return result;
}

EXPORT const char *nvmlErrorString(nvmlReturn_t result);
EXPORT const char *nvmlErrorString(nvmlReturn_t result)
{
    switch (result) {
    case NVML_SUCCESS:
        return "Success";
    case NVML_ERROR_UNINITIALIZED:
        return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT:
        return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED:
        return "Not Supported";
    case NVML_ERROR_NOT_FOUND:
        return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE:
        return "Insufficient Size";
    case NVML_ERROR_DRIVER_NOT_LOADED:
        return "Driver Not Loaded";
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH:
        return "Argument version mismatch";
    default:
        return "Unknown Error";
    }
}

static nvmlReturn_t put(char *out, unsigned bytes, const char *text)
{
    if (!out) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    if (strlen(text) >= bytes) {
        return NVML_ERROR_INSUFFICIENT_SIZE;
    }
    memcpy(out, text, strlen(text) + 1);
    return NVML_SUCCESS;
}

NVML_SYSTEM(nvmlSystemGetDriverVersion, char *version, unsigned int bytes)
{
    /* The branch of the driver that came with that version of CUDA. */
    static const struct {
        unsigned cuda;
        const char *driver;
    } branches[] = {{13000, "580.0.simgpu"}, {12080, "570.0.simgpu"}, {12060, "560.0.simgpu"},
                    {12040, "550.0.simgpu"}, {12020, "535.0.simgpu"}, {12000, "525.0.simgpu"},
                    {11000, "450.0.simgpu"}};
    if (sg_nvml_entered()) {
        return NVML_ERROR_UNINITIALIZED;
    }
    for (size_t i = 0; i < sizeof branches / sizeof *branches; i++) {
        if (sg_state->machine.driver_version >= branches[i].cuda) {
            return put(version, bytes, branches[i].driver);
        }
    }
    return NVML_ERROR_UNKNOWN;
}

NVML_SYSTEM(nvmlSystemGetNVMLVersion, char *version, unsigned int bytes)
{
    return put(version, bytes, "13.0.simgpu");
}

NVML_SYSTEM(nvmlSystemGetCudaDriverVersion, int *version)
{
    if (sg_nvml_entered()) {
        return NVML_ERROR_UNINITIALIZED;
    }
    *version = (int)sg_state->machine.driver_version;
    return NVML_SUCCESS;
}

NVML_SYSTEM(nvmlSystemGetCudaDriverVersion_v2, int *version)
{
    return nvmlSystemGetCudaDriverVersion(version);
}

NVML_SYSTEM(nvmlSystemGetProcessName, unsigned int pid, char *name, unsigned int bytes)
{
    char path[64], text[512] = "";
    snprintf(path, sizeof path, "/proc/%u/comm", pid);
    FILE *file = fopen(path, "re");
    if (!file) {
        return NVML_ERROR_NOT_FOUND;
    }
    if (fgets(text, sizeof text, file)) {
        char *end_of_line = strchr(text, '\n');
        if (end_of_line) {
            *end_of_line = '\0';
        }
    }
    fclose(file);
    return put(name, bytes, text);
}

#define NVML_UNSUPPORTED(name)                                                  \
    EXPORT nvmlReturn_t name(void);                                             \
    EXPORT nvmlReturn_t name(void)                                              \
    {                                                                           \
        return users > 0 ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_UNINITIALIZED; \
    }
#include "simgpu/nvml/unsupported.def"
