/* NVML's answers about GPUs and memory, as a share sees them. */
#ifndef MOIETY_SHIM_HOOKS_NVML_H
#define MOIETY_SHIM_HOOKS_NVML_H

#include <stdbool.h>

/* Whether a function of NVML of this name is answered by us. */
bool nvml_is_wrapped(const char *name);
/* What stands in its place for a program that found it, through this handle; NULL: nothing. */
void *nvml_wrapped(void *handle, const char *name, void *found);
/* NVML's own function; NULL: it has none. */
void *nvml_real(const char *name);

/* A function of NVML that is answered by us. */
struct nvml_wrapper {
    const char *name;
    void *ours;
};
/* Those about GPUs (nvml_gpus.c); a name of NULL ends the list. */
extern const struct nvml_wrapper nvml_gpu_wrappers[];

#endif
