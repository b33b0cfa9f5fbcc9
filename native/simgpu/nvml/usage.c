/* NVML: what a GPU does, and for which processes. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "simgpu/nvml/device.h"
#include "simgpu/shared/clock.h"
#include "simgpu/shared/link_bandwidth.h"
#include "simgpu/shared/process_identity.h"
#include "simgpu/shared/process_table.h"

static uint64_t used_bytes(unsigned gpu)
{
    sg_lock();
    sg_reap();
    uint64_t used = sg_used_bytes(gpu);
    sg_unlock();
    return used;
}

/* ---- memory ---- */

NVML_DEVICE(nvmlDeviceGetMemoryInfo, nvmlMemory_t *memory)
{
    NVML_ENTER();
    uint64_t used = used_bytes(gpu);
    *memory = (nvmlMemory_t){profile->memory_bytes, profile->memory_bytes - used, used};
    return NVML_SUCCESS;
}

NVML_DEVICE(nvmlDeviceGetMemoryInfo_v2, nvmlMemory_v2_t *memory)
{
    NVML_ENTER();
    unsigned version = memory->version;
    uint64_t used = used_bytes(gpu);
    *memory =
        (nvmlMemory_v2_t){version, profile->memory_bytes, 0, profile->memory_bytes - used, used};
    return NVML_SUCCESS;
}

NVML_DEVICE(nvmlDeviceGetBAR1MemoryInfo, nvmlBAR1Memory_t *memory)
{
    NVML_ENTER();
    *memory = (nvmlBAR1Memory_t){profile->memory_bytes, profile->memory_bytes, 0};
    return NVML_SUCCESS;
}

/* ---- processes ---- */

struct user {
    uint32_t pid;
    uint64_t bytes;
    unsigned percent;
};

/* The processes with a context, or memory, on the GPU. */
static unsigned users_of(unsigned gpu, struct user users[SG_PROCESSES_MAX])
{
    unsigned count = 0;
    sg_lock();
    sg_reap();
    for (unsigned i = 0; i < sg_state->processes_high; i++) {
        const struct sg_process *process = &sg_state->process[i];
        uint64_t bytes =
            process->pid && process->role == SG_DRIVER ? sg_process_bytes(process, gpu) : 0;
        uint32_t pid = bytes ? sg_process_pid(process) : 0;
        if (pid) {
            users[count++] = (struct user){pid, bytes, sg_process_utilisation(gpu, process)};
        }
    }
    sg_unlock();
    return count;
}

NVML_DEVICE(nvmlDeviceGetComputeRunningProcesses_v3, unsigned int *count, nvmlProcessInfo_t *infos)
{
    struct user users[SG_PROCESSES_MAX];
    NVML_ENTER();
    unsigned room = *count, found = users_of(gpu, users);
    *count = found;
    if (found > room || (found && !infos)) {
        return NVML_ERROR_INSUFFICIENT_SIZE;
    }
    for (unsigned i = 0; i < found; i++) {
        infos[i] = (nvmlProcessInfo_t){users[i].pid, users[i].bytes, 0xffffffffu, 0xffffffffu};
    }
    return NVML_SUCCESS;
}

NVML_DEVICE(nvmlDeviceGetComputeRunningProcesses_v2, unsigned int *count, nvmlProcessInfo_t *infos)
{
    return nvmlDeviceGetComputeRunningProcesses_v3(device, count, infos);
}

NVML_DEVICE(nvmlDeviceGetComputeRunningProcesses, unsigned int *count, nvmlProcessInfo_v1_t *infos)
{
    struct user users[SG_PROCESSES_MAX];
    NVML_ENTER();
    unsigned room = *count, found = users_of(gpu, users);
    *count = found;
    if (found > room || (found && !infos)) {
        return NVML_ERROR_INSUFFICIENT_SIZE;
    }
    for (unsigned i = 0; i < found; i++) {
        infos[i] = (nvmlProcessInfo_v1_t){users[i].pid, users[i].bytes};
    }
    return NVML_SUCCESS;
}

NVML_DEVICE(nvmlDeviceGetRunningProcessDetailList, nvmlProcessDetailList_v1_t *list)
{
    struct user users[SG_PROCESSES_MAX];
    NVML_ENTER();
    unsigned room = list->numProcArrayEntries, found = list->mode == 0 ? users_of(gpu, users) : 0;
    list->numProcArrayEntries = found;
    if (found > room || (found && !list->procArray)) {
        return NVML_ERROR_INSUFFICIENT_SIZE;
    }
    for (unsigned i = 0; i < found; i++) {
        list->procArray[i] =
            (nvmlProcessDetail_v1_t){users[i].pid, users[i].bytes, 0xffffffffu, 0xffffffffu, 0};
    }
    return NVML_SUCCESS;
}

/* Under MPS all programs are its clients. */
NVML_DEVICE(nvmlDeviceGetMPSComputeRunningProcesses_v3, unsigned int *count,
            nvmlProcessInfo_t *infos)
{
    NVML_ENTER();
    if (!profile->mps) {
        *count = 0;
        return NVML_SUCCESS;
    }
    return nvmlDeviceGetComputeRunningProcesses_v3(device, count, infos);
}

NVML_DEVICE(nvmlDeviceGetMPSComputeRunningProcesses_v2, unsigned int *count,
            nvmlProcessInfo_t *infos)
{
    return nvmlDeviceGetMPSComputeRunningProcesses_v3(device, count, infos);
}

/* There are no graphics processes, and the oldest form is not supported. */
#define NVML_NO_PROCESSES(name)                         \
    NVML_DEVICE(name, unsigned int *count, void *infos) \
    {                                                   \
        NVML_ENTER();                                   \
        (void)infos;                                    \
        *count = 0;                                     \
        return NVML_SUCCESS;                            \
    }
NVML_NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses)
NVML_NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2)
NVML_NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3)
NVML_NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses)

NVML_DEVICE(nvmlDeviceGetProcessUtilization, nvmlProcessUtilizationSample_t *samples,
            unsigned int *count, unsigned long long since_us)
{
    struct user users[SG_PROCESSES_MAX];
    struct timespec now;
    NVML_ENTER();
    (void)since_us;
    unsigned room = samples ? *count : 0, found = users_of(gpu, users);
    *count = found;
    if (!found) {
        return NVML_ERROR_NOT_FOUND;
    }
    if (found > room) {
        return NVML_ERROR_INSUFFICIENT_SIZE;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    for (unsigned i = 0; i < found; i++) {
        samples[i] = (nvmlProcessUtilizationSample_t){
            .pid = users[i].pid,
            .smUtil = users[i].percent,
            .timeStamp = (unsigned long long)now.tv_sec * 1000000ull +
                         (unsigned long long)now.tv_nsec / 1000ull};
    }
    return NVML_SUCCESS;
}

/* ---- load, and what follows from it ---- */

NVML_DEVICE(nvmlDeviceGetUtilizationRates, nvmlUtilization_t *rates)
{
    NVML_ENTER();
    rates->gpu = sg_utilisation(gpu, SG_COMPUTE);
    unsigned in = sg_utilisation(gpu, SG_LINK_H2D), out = sg_utilisation(gpu, SG_LINK_D2H);
    rates->memory = in > out ? in : out;
    return NVML_SUCCESS;
}

static nvmlReturn_t idle_engine(nvmlDevice_t device, unsigned *percent, unsigned *period_us)
{
    NVML_ENTER();
    *percent = 0;
    *period_us = 1000000;
    return NVML_SUCCESS;
}

NVML_DEVICE(nvmlDeviceGetEncoderUtilization, unsigned int *percent, unsigned int *period_us)
{
    return idle_engine(device, percent, period_us);
}

NVML_DEVICE(nvmlDeviceGetDecoderUtilization, unsigned int *percent, unsigned int *period_us)
{
    return idle_engine(device, percent, period_us);
}

/* The power when idle, and most of the rest in proportion to the load. */
static unsigned power_mw(unsigned gpu)
{
    const struct sg_profile *profile = &sg_state->machine.profile[gpu];
    unsigned load = sg_utilisation(gpu, SG_COMPUTE);
    return profile->idle_w * 1000 + (profile->power_limit_w - profile->idle_w) * 10 * load * 8 / 10;
}

NVML_DEVICE(nvmlDeviceGetPowerUsage, unsigned int *mw)
{
    NVML_ENTER();
    *mw = power_mw(gpu);
    return NVML_SUCCESS;
}

NVML_DEVICE(nvmlDeviceGetTotalEnergyConsumption, unsigned long long *mj)
{
    NVML_ENTER();
    *mj = sg_now_ns() / 1000000ull * profile->idle_w +
          sg_state->device[gpu].busy.total_ns / 1000000ull *
              (profile->power_limit_w - profile->idle_w) * 8 / 10;
    return NVML_SUCCESS;
}

NVML_DEVICE(nvmlDeviceGetPowerManagementLimit, unsigned int *mw)
{
    NVML_ENTER();
    *mw = profile->power_limit_w * 1000;
    return NVML_SUCCESS;
}

NVML_DEVICE(nvmlDeviceGetEnforcedPowerLimit, unsigned int *mw)
{
    return nvmlDeviceGetPowerManagementLimit(device, mw);
}

NVML_DEVICE(nvmlDeviceGetPowerManagementDefaultLimit, unsigned int *mw)
{
    return nvmlDeviceGetPowerManagementLimit(device, mw);
}

NVML_DEVICE(nvmlDeviceGetTemperature, unsigned int sensor, unsigned int *celsius)
{
    NVML_ENTER();
    if (sensor != 0) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    *celsius = 32 + sg_utilisation(gpu, SG_COMPUTE) * 35 / 100;
    return NVML_SUCCESS;
}

NVML_DEVICE(nvmlDeviceGetTemperatureV, nvmlTemperature_v1_t *temperature)
{
    unsigned celsius = 0;
    nvmlReturn_t result = nvmlDeviceGetTemperature(device, temperature->sensorType, &celsius);
    temperature->temperature = (int)celsius;
    return result;
}

NVML_DEVICE(nvmlDeviceGetMaxClockInfo, unsigned int type, unsigned int *mhz)
{
    NVML_ENTER();
    if (type > 3) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    *mhz = type == 2 ? profile->memory_clock_mhz : profile->clock_mhz;
    return NVML_SUCCESS;
}

NVML_DEVICE(nvmlDeviceGetClockInfo, unsigned int type, unsigned int *mhz)
{
    return nvmlDeviceGetMaxClockInfo(device, type, mhz);
}

NVML_DEVICE(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long *reasons)
{
    NVML_ENTER();
    *reasons = sg_utilisation(gpu, SG_COMPUTE) ? 0 : 1; /* idle */
    return NVML_SUCCESS;
}

/* ---- the link ---- */

NVML_DEVICE(nvmlDeviceGetCurrPcieLinkGeneration, unsigned int *generation)
{
    NVML_ENTER();
    *generation = profile->pcie_generation;
    return NVML_SUCCESS;
}

NVML_DEVICE(nvmlDeviceGetMaxPcieLinkGeneration, unsigned int *generation)
{
    return nvmlDeviceGetCurrPcieLinkGeneration(device, generation);
}

NVML_DEVICE(nvmlDeviceGetCurrPcieLinkWidth, unsigned int *lanes)
{
    NVML_ENTER();
    *lanes = 16;
    return NVML_SUCCESS;
}

NVML_DEVICE(nvmlDeviceGetMaxPcieLinkWidth, unsigned int *lanes)
{
    return nvmlDeviceGetCurrPcieLinkWidth(device, lanes);
}

NVML_DEVICE(nvmlDeviceGetPcieThroughput, unsigned int counter, unsigned int *kb_per_s)
{
    NVML_ENTER();
    if (counter > 1) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    uint64_t rate = counter == 0 ? profile->d2h_bytes_per_s : profile->h2d_bytes_per_s;
    *kb_per_s = (unsigned)(rate / 1024 *
                           sg_utilisation(gpu, counter == 0 ? SG_LINK_D2H : SG_LINK_H2D) / 100);
    return NVML_SUCCESS;
}
