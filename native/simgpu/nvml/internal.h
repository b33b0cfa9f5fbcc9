/* How an NVML entry point begins. */
#ifndef SIMGPU_NVML_INTERNAL_H
#define SIMGPU_NVML_INTERNAL_H

#include "simgpu/nvml/nvml_abi.h"
#include "simgpu/shared/link_bandwidth.h"
#include "simgpu/shared/process_identity.h"
#include "simgpu/shared/process_table.h"
#include "simgpu/shared/state.h"

/* NVML's own numbering: which GPUs CUDA_VISIBLE_DEVICES hides from CUDA makes no difference here. */
nvmlReturn_t sg_nvml_entered(void);
nvmlReturn_t sg_nvml_device(nvmlDevice_t device, unsigned *gpu);

#define EXPORT __attribute__((visibility("default")))

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
#define NVML_SYSTEM(name, ...)             \
    EXPORT nvmlReturn_t name(__VA_ARGS__); \
    EXPORT nvmlReturn_t name(__VA_ARGS__)

#endif
