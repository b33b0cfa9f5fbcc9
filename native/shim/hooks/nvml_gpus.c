/* NVML's GPUs, as a share of some GPUs has them: only these, numbered from 0. NVML itself reads no
 * CUDA_VISIBLE_DEVICES, so a program's choice among its GPUs changes nothing here. */
#include <stddef.h>
#include <string.h>

#include "shim/agent/own_gpus.h"
#include "shim/hooks/nvml.h"

#define EXPORT __attribute__((visibility("default")))
#define UUID_TEXT 96
#define NEAR_MAX 64u

enum { OK = 0, INVALID_ARGUMENT = 2, NOT_FOUND = 6, FUNCTION_NOT_FOUND = 13 }; /* nvmlReturn_t */

typedef int count_fn(unsigned *count);
typedef int by_index_fn(unsigned index, void **device);
typedef int by_name_fn(const char *name, void **device);
typedef int index_fn(void *device, unsigned *index);
typedef int near_fn(void *device, unsigned level, unsigned *count, void **devices);
typedef int uuid_fn(void *device, char *uuid, unsigned bytes);

EXPORT count_fn nvmlDeviceGetCount;
EXPORT count_fn nvmlDeviceGetCount_v2;
EXPORT by_index_fn nvmlDeviceGetHandleByIndex;
EXPORT by_index_fn nvmlDeviceGetHandleByIndex_v2;
EXPORT by_name_fn nvmlDeviceGetHandleByUUID;
EXPORT by_name_fn nvmlDeviceGetHandleBySerial;
EXPORT by_name_fn nvmlDeviceGetHandleByPciBusId;
EXPORT by_name_fn nvmlDeviceGetHandleByPciBusId_v2;
EXPORT index_fn nvmlDeviceGetIndex;
EXPORT near_fn nvmlDeviceGetTopologyNearestGpus;

/* NULL: no GPU is hidden. NVML numbers whole GPUs, so a part of one (MIG) is not filtered. */
static const struct visible_gpus *shown(void)
{
    const struct visible_gpus *gpus = own_gpus();
    for (uint32_t i = 0; gpus && i < gpus->count; i++) {
        if (strncmp(gpus->names[i], "GPU-", 4) != 0) {
            return NULL;
        }
    }
    return gpus;
}

/* The number that the program has for a GPU; -1: it does not see it. */
static int number_of(const struct visible_gpus *gpus, void *device)
{
    char text[UUID_TEXT] = {0};
    uuid_fn *ask = (uuid_fn *)nvml_real("nvmlDeviceGetUUID");
    if (ask && ask(device, text, sizeof(text)) == OK) {
        for (uint32_t i = 0; i < gpus->count; i++) {
            if (strcmp(gpus->names[i], text) == 0) {
                return (int)i;
            }
        }
    }
    return -1;
}

static int count(const char *name, unsigned *found)
{
    count_fn *ask = (count_fn *)nvml_real(name);
    int result = ask ? ask(found) : FUNCTION_NOT_FOUND;
    const struct visible_gpus *gpus = result == OK ? shown() : NULL;
    if (gpus) {
        *found = gpus->count;
    }
    return result;
}

int nvmlDeviceGetCount(unsigned *found) { return count(__func__, found); }
int nvmlDeviceGetCount_v2(unsigned *found) { return count(__func__, found); }

static int by_index(const char *name, unsigned index, void **device)
{
    const struct visible_gpus *gpus = shown();
    by_index_fn *ask = (by_index_fn *)nvml_real(name);
    by_name_fn *find = gpus ? (by_name_fn *)nvml_real("nvmlDeviceGetHandleByUUID") : NULL;
    if (!find) {
        return ask ? ask(index, device) : FUNCTION_NOT_FOUND;
    }
    return index < gpus->count && device ? find(gpus->names[index], device) : INVALID_ARGUMENT;
}

int nvmlDeviceGetHandleByIndex(unsigned index, void **device)
{
    return by_index(__func__, index, device);
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
    return by_index(__func__, index, device);
}

static int by_name(const char *call, const char *name, void **device)
{
    by_name_fn *ask = (by_name_fn *)nvml_real(call);
    int result = ask ? ask(name, device) : FUNCTION_NOT_FOUND;
    const struct visible_gpus *gpus = result == OK ? shown() : NULL;
    return gpus && number_of(gpus, *device) < 0 ? NOT_FOUND : result;
}

int nvmlDeviceGetHandleByUUID(const char *name, void **device)
{
    return by_name(__func__, name, device);
}

int nvmlDeviceGetHandleBySerial(const char *name, void **device)
{
    return by_name(__func__, name, device);
}

int nvmlDeviceGetHandleByPciBusId(const char *name, void **device)
{
    return by_name(__func__, name, device);
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *name, void **device)
{
    return by_name(__func__, name, device);
}

int nvmlDeviceGetIndex(void *device, unsigned *index)
{
    index_fn *ask = (index_fn *)nvml_real("nvmlDeviceGetIndex");
    int result = ask ? ask(device, index) : FUNCTION_NOT_FOUND;
    const struct visible_gpus *gpus = result == OK ? shown() : NULL;
    int number = gpus ? number_of(gpus, device) : -1;
    if (number >= 0) {
        *index = (unsigned)number;
    }
    return result;
}

/* Of the GPUs near another, those that the program sees. A program that gives 0 for their number asks for it. */
int nvmlDeviceGetTopologyNearestGpus(void *device, unsigned level, unsigned *found, void **nearest)
{
    near_fn *ask = (near_fn *)nvml_real(__func__);
    const struct visible_gpus *gpus = ask ? shown() : NULL;
    if (!gpus || !found) {
        return ask ? ask(device, level, found, nearest) : FUNCTION_NOT_FOUND;
    }
    void *all[NEAR_MAX];
    unsigned number = 0, own = 0;
    int result = ask(device, level, &number, NULL);
    number = number < NEAR_MAX ? number : NEAR_MAX;
    if (result == OK && number) {
        result = ask(device, level, &number, all);
        number = number < NEAR_MAX ? number : NEAR_MAX;
    }
    for (unsigned i = 0; result == OK && i < number; i++) {
        if (number_of(gpus, all[i]) < 0) {
            continue;
        }
        if (nearest && own < *found) {
            nearest[own] = all[i];
        }
        own++;
    }
    if (result == OK && (!nearest || !*found || own < *found)) {
        *found = own;
    }
    return result;
}

#define WRAPPED(name) {#name, (void *)name}
const struct nvml_wrapper nvml_gpu_wrappers[] = {
    WRAPPED(nvmlDeviceGetCount),
    WRAPPED(nvmlDeviceGetCount_v2),
    WRAPPED(nvmlDeviceGetHandleByIndex),
    WRAPPED(nvmlDeviceGetHandleByIndex_v2),
    WRAPPED(nvmlDeviceGetHandleByUUID),
    WRAPPED(nvmlDeviceGetHandleBySerial),
    WRAPPED(nvmlDeviceGetHandleByPciBusId),
    WRAPPED(nvmlDeviceGetHandleByPciBusId_v2),
    WRAPPED(nvmlDeviceGetIndex),
    WRAPPED(nvmlDeviceGetTopologyNearestGpus),
    {NULL, NULL},
};
