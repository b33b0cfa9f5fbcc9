/* cuInit: opens the shared state and chooses the GPUs that the process sees. */
#include <errno.h>
#include <stdio.h>

#include "simgpu/base/devices.h"
#include "simgpu/base/entry.h"
#include "simgpu/exec/guard.h"
#include "simgpu/shared/state.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

CUresult cuInit(unsigned int flags)
{
    char why[1024] = "";
    CUresult result = CUDA_SUCCESS;
    if (flags) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (sg_is_forked()) {
        return CUDA_ERROR_NOT_INITIALIZED;
    }
    pthread_mutex_lock(&lock);
    if (!sg_is_initialised()) {
        int error = sg_state_open(SG_DRIVER, why, sizeof why);
        if (error) {
            fprintf(stderr, "simgpu: %s.\n", why);
            result = error == -EINVAL ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_NO_DEVICE;
        } else {
            sg_devices_choose();
            sg_guard_install();
            sg_set_initialised();
        }
    }
    pthread_mutex_unlock(&lock);
    if (!result && sg_device_count() == 0) {
        return CUDA_ERROR_NO_DEVICE;
    }
    return result;
}
