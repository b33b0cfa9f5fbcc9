/* How an NVML entry point about a device begins. */
#ifndef SIMGPU_NVML_DEVICE_H
#define SIMGPU_NVML_DEVICE_H

#include "simgpu/nvml/system.h"
#include "simgpu/shared/state.h"

/* Finds the shared state's number of a GPU. NVML numbers all GPUs of the machine, whatever
 * CUDA_VISIBLE_DEVICES hides from CUDA. */
nvmlReturn_t sg_nvml_device(nvmlDevice_t device, unsigned *gpu);

/* What NVML says of the place of a GPU on the bus. */
void sg_nvml_pci(unsigned gpu, nvmlPciInfo_t *info);

/* Opens the body of nvmlNAME(nvmlDevice_t device, ...), with `gpu` and its `profile`. */
#define NVML_DEVICE(name, ...)                                    \
    EXPORT nvmlReturn_t name(nvmlDevice_t device, ##__VA_ARGS__); \
    EXPORT nvmlReturn_t name(nvmlDevice_t device, ##__VA_ARGS__)
#define NVML_ENTER()                                     \
    unsigned gpu;                                        \
    nvmlReturn_t entered = sg_nvml_device(device, &gpu); \
    if (entered)                                         \
        return entered;                                  \
    const struct sg_profile *profile __attribute__((unused)) = &sg_state->machine.profile[gpu]

#endif
