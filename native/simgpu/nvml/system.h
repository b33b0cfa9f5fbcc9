/* Starting and ending NVML. */
#ifndef SIMGPU_NVML_SYSTEM_H
#define SIMGPU_NVML_SYSTEM_H

#include "simgpu/nvml/nvml_abi.h"

/* Refuses a call before nvmlInit and after the last nvmlShutdown. */
nvmlReturn_t sg_nvml_entered(void);

#define EXPORT __attribute__((visibility("default")))

#define NVML_SYSTEM(name, ...)             \
    EXPORT nvmlReturn_t name(__VA_ARGS__); \
    EXPORT nvmlReturn_t name(__VA_ARGS__)

#endif
