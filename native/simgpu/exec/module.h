/* Modules: ELF shared objects whose functions are the kernels. */
#ifndef SIMGPU_MODULE_H
#define SIMGPU_MODULE_H

#include "simgpu/context/context.h"
#include "simgpu/kernel.h"

struct sg_range;

struct CUmod_st {
    CUcontext context; /* NULL: it belongs to a library, and so to the process */
    CUlibrary library;
    void *object; /* of dlopen */
    uint64_t charged_bytes;
    unsigned charged_gpu;
    CUfunction functions;
    unsigned function_count;
    struct sg_symbol {
        const char *name; /* in the image's own memory */
        uint64_t size;
        int is_kernel;
    } *symbols;
    unsigned symbol_count;
    char *names;
};

/* A CUkernel is the same object: a launch takes either. */
struct CUfunc_st {
    CUmodule module;
    CUfunction next;
    const struct simgpu_kernel *kernel;
    char name[128];
    uint32_t offset[SIMGPU_PARAMS_MAX];
    uint32_t params_bytes;
    int max_dynamic_shared;
    int has_large_clusters; /* clusters above the portable size are allowed */
};

CUresult sg_module_load(CUmodule *out, const void *image, CUcontext context);
CUresult sg_module_load_file(CUmodule *out, const char *path, CUcontext context);
CUresult sg_module_function(CUfunction *out, CUmodule module, const char *name);
CUresult sg_module_global(CUdeviceptr *address, size_t *bytes, CUmodule module, const char *name);
void sg_module_unload(CUmodule module);

#endif
