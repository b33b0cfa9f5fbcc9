/* The beginning and the end of a process's use of the driver. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simgpu/driver.h"
#include "simgpu/guard.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int initialised, ended, forked, working;
static unsigned visible[SG_DEVICES_MAX], visible_count;
__thread int sg_per_thread_default;

static void in_child(void)
{
    /* As with the real driver, a child cannot use what its parent set up; threads and locks did not come along. */
    if (initialised) {
        forked = 1;
    }
}

__attribute__((destructor)) static void end(void)
{
    if (!initialised || forked) {
        return;
    }
    __atomic_store_n(&ended, 1, __ATOMIC_SEQ_CST);
    /* Work that still runs keeps its slot, which the next process to look finds without an owner. */
    if (__atomic_load_n(&working, __ATOMIC_SEQ_CST) == 0) {
        sg_state_close();
    }
}

int sg_work_begin(void)
{
    __atomic_add_fetch(&working, 1, __ATOMIC_SEQ_CST);
    if (!__atomic_load_n(&ended, __ATOMIC_SEQ_CST)) {
        return 1;
    }
    sg_work_end();
    return 0;
}

void sg_work_end(void) { __atomic_sub_fetch(&working, 1, __ATOMIC_SEQ_CST); }

/* One entry of CUDA_VISIBLE_DEVICES: an index, or GPU- and the beginning of a UUID. -1: neither. */
static int find_device(const char *text)
{
    char *rest;
    long index = strtol(text, &rest, 10);
    if (rest != text && *rest == '\0') {
        return index >= 0 && index < (long)sg_state->machine.count ? (int)index : -1;
    }
    for (unsigned i = 0; i < sg_state->machine.count; i++) {
        const uint8_t *u = sg_state->device[i].uuid;
        char uuid[64];
        snprintf(uuid, sizeof uuid,
                 "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0],
                 u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13],
                 u[14], u[15]);
        if (strlen(text) > 4 && strncmp(uuid, text, strlen(text)) == 0) {
            return (int)i;
        }
    }
    return -1;
}

static void choose_devices(void)
{
    const char *text = getenv("CUDA_VISIBLE_DEVICES");
    char copy[1024], *save = NULL;
    visible_count = 0;
    if (!text) {
        while (visible_count < sg_state->machine.count) {
            visible[visible_count] = visible_count;
            visible_count++;
        }
        return;
    }
    snprintf(copy, sizeof copy, "%s", text);
    for (char *one = strtok_r(copy, ", ", &save); one; one = strtok_r(NULL, ", ", &save)) {
        int device = find_device(one);
        if (device < 0) { /* the list ends at the first that is not there */
            return;
        }
        for (unsigned i = 0; i < visible_count; i++) {
            if (visible[i] == (unsigned)device) {
                return;
            }
        }
        visible[visible_count++] = (unsigned)device;
    }
}

CUresult cuInit(unsigned int flags)
{
    char why[1024] = "";
    CUresult result = CUDA_SUCCESS;
    if (flags) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (forked) {
        return CUDA_ERROR_NOT_INITIALIZED;
    }
    pthread_mutex_lock(&lock);
    if (!initialised) {
        int error = sg_state_open(SG_DRIVER, why, sizeof why);
        if (error) {
            fprintf(stderr, "simgpu: %s.\n", why);
            result = error == -EINVAL ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_NO_DEVICE;
        } else {
            choose_devices();
            sg_guard_install();
            pthread_atfork(NULL, NULL, in_child);
            initialised = 1;
        }
    }
    pthread_mutex_unlock(&lock);
    if (!result && visible_count == 0) {
        return CUDA_ERROR_NO_DEVICE;
    }
    return result;
}

__thread int sg_in_host_function;

CUresult sg_enter(void)
{
    if (__builtin_expect(!initialised || forked, 0)) {
        return CUDA_ERROR_NOT_INITIALIZED;
    }
    if (__builtin_expect(sg_in_host_function, 0)) {
        return CUDA_ERROR_NOT_PERMITTED;
    }
    return ended ? CUDA_ERROR_DEINITIALIZED : CUDA_SUCCESS;
}

unsigned sg_device_count(void) { return visible_count; }

unsigned sg_device_of(CUdevice device) { return visible[device]; }

int sg_device_is(CUdevice device) { return device >= 0 && (unsigned)device < visible_count; }

const struct sg_profile *sg_profile_of(unsigned gpu) { return &sg_state->machine.profile[gpu]; }

CUdevice sg_ordinal_of(unsigned gpu)
{
    for (unsigned i = 0; i < visible_count; i++) {
        if (visible[i] == gpu) {
            return (CUdevice)i;
        }
    }
    return CU_DEVICE_INVALID;
}

void sg_count(enum sg_counted what, uint64_t bytes)
{
    struct sg_process *process = sg_process;
    if (!process) {
        return;
    }
    struct simgpu_counters *counters = &process->counters;
    uint64_t *count = what == SG_LAUNCHED         ? &counters->launches
                      : what == SG_GRAPH_LAUNCHED ? &counters->graph_launches
                      : what == SG_COPIED         ? &counters->copies
                      : what == SG_MEMSET_DONE    ? &counters->memsets
                                                  : &counters->host_functions;
    __atomic_add_fetch(count, 1, __ATOMIC_RELAXED);
    if (what == SG_COPIED) {
        __atomic_add_fetch(&counters->copied_bytes, bytes, __ATOMIC_RELAXED);
    }
    __atomic_store_n(&counters->last_ns, sg_now_ns(), __ATOMIC_RELAXED);
}

CUDA_EXPORT int simgpu_counters(struct simgpu_counters *out)
{
    if (sg_enter() || !sg_process) {
        return -1;
    }
    *out = sg_process->counters;
    return 0;
}
