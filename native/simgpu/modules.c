/* The entry points about modules, libraries, kernels and functions. */
#include <stdlib.h>
#include <string.h>

#include "simgpu/module.h"
#include "simgpu/stream.h"

struct CUlib_st {
    CUmodule module; /* one for all contexts: code is the same everywhere */
};

/* ---- modules ---- */

CUresult cuModuleLoadData(CUmodule *out, const void *image)
{
    SG_CONTEXT(context);
    return sg_module_load(out, image, context);
}

CUresult cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned int count,
                            CUjit_option *options, void **values)
{
    (void)count, (void)options, (void)values;
    return cuModuleLoadData(out, image);
}

CUresult cuModuleLoadFatBinary(CUmodule *out, const void *image)
{
    return cuModuleLoadData(out, image);
}

CUresult cuModuleLoad(CUmodule *out, const char *path)
{
    SG_CONTEXT(context);
    return sg_module_load_file(out, path, context);
}

CUresult cuModuleUnload(CUmodule module)
{
    SG_ENTER();
    if (!sg_handle_is(module, SG_MODULE) || module->library) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (module->context && !module->context->destroyed) {
        sg_context_drain(module->context);
    }
    sg_handle_remove(module, SG_MODULE);
    sg_module_unload(module);
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *out, CUmodule module, const char *name)
{
    SG_ENTER();
    return sg_handle_is(module, SG_MODULE) ? sg_module_function(out, module, name)
                                           : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule module,
                              const char *name)
{
    SG_ENTER();
    return sg_handle_is(module, SG_MODULE) ? sg_module_global(address, bytes, module, name)
                                           : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuModuleGetFunctionCount(unsigned int *count, CUmodule module)
{
    SG_ENTER();
    if (!sg_handle_is(module, SG_MODULE)) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    *count = module->function_count;
    return CUDA_SUCCESS;
}

CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned int count, CUmodule module)
{
    SG_ENTER();
    if (!sg_handle_is(module, SG_MODULE)) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    for (unsigned i = 0, n = 0; i < module->symbol_count && n < count; i++) {
        if (module->symbols[i].is_kernel) {
            SG_TRY(sg_module_function(&functions[n++], module, module->symbols[i].name));
        }
    }
    return CUDA_SUCCESS;
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
    SG_ENTER();
    *mode = CU_MODULE_LAZY_LOADING;
    return CUDA_SUCCESS;
}

/* ---- libraries ---- */

static CUresult library_of(CUlibrary *out, CUresult loaded, CUmodule module)
{
    if (loaded) {
        return loaded;
    }
    CUlibrary library = calloc(1, sizeof *library);
    if (!library) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    library->module = module;
    module->library = library;
    sg_handle_add(library, SG_LIBRARY);
    *out = library;
    return CUDA_SUCCESS;
}

CUresult cuLibraryLoadData(CUlibrary *out, const void *code, CUjit_option *jit, void **jit_values,
                           unsigned int jits, CUlibraryOption *options, void **values,
                           unsigned int count)
{
    CUmodule module = NULL;
    SG_ENTER();
    (void)jit, (void)jit_values, (void)jits, (void)options, (void)values, (void)count;
    if (!out) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult loaded = sg_module_load(&module, code, NULL);
    return library_of(out, loaded, module);
}

CUresult cuLibraryLoadFromFile(CUlibrary *out, const char *path, CUjit_option *jit,
                               void **jit_values, unsigned int jits, CUlibraryOption *options,
                               void **values, unsigned int count)
{
    CUmodule module = NULL;
    SG_ENTER();
    (void)jit, (void)jit_values, (void)jits, (void)options, (void)values, (void)count;
    if (!out) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult loaded = sg_module_load_file(&module, path, NULL);
    return library_of(out, loaded, module);
}

static CUresult find(CUlibrary library)
{
    SG_ENTER();
    return sg_handle_is(library, SG_LIBRARY) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuLibraryUnload(CUlibrary library)
{
    SG_TRY(find(library));
    sg_handle_remove(library, SG_LIBRARY);
    sg_handle_remove(library->module, SG_MODULE);
    CUcontext context = sg_context_current();
    if (context && !context->destroyed) {
        sg_context_drain(context);
    }
    sg_module_unload(library->module);
    free(library);
    return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernel(CUkernel *out, CUlibrary library, const char *name)
{
    SG_TRY(find(library));
    return sg_module_function((CUfunction *)(void *)out, library->module, name);
}

CUresult cuLibraryGetKernelCount(unsigned int *count, CUlibrary library)
{
    SG_TRY(find(library));
    return cuModuleGetFunctionCount(count, library->module);
}

CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int count, CUlibrary library)
{
    SG_TRY(find(library));
    return cuModuleEnumerateFunctions((CUfunction *)(void *)kernels, count, library->module);
}

CUresult cuLibraryGetModule(CUmodule *out, CUlibrary library)
{
    SG_TRY(find(library));
    *out = library->module;
    return CUDA_SUCCESS;
}

CUresult cuLibraryGetGlobal(CUdeviceptr *address, size_t *bytes, CUlibrary library,
                            const char *name)
{
    SG_TRY(find(library));
    return sg_module_global(address, bytes, library->module, name);
}

CUresult cuLibraryGetManaged(CUdeviceptr *address, size_t *bytes, CUlibrary library,
                             const char *name)
{
    (void)address, (void)bytes, (void)name;
    SG_TRY(find(library));
    return CUDA_ERROR_NOT_FOUND;
}

/* ---- functions; a CUkernel is the same object ---- */

static CUresult find_function(const void *function)
{
    SG_ENTER();
    return sg_handle_is(function, SG_FUNCTION) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuKernelGetFunction(CUfunction *out, CUkernel kernel)
{
    SG_TRY(find_function(kernel));
    *out = (CUfunction)(void *)kernel;
    return CUDA_SUCCESS;
}

CUresult cuKernelGetLibrary(CUlibrary *out, CUkernel kernel)
{
    SG_TRY(find_function(kernel));
    *out = ((CUfunction)(void *)kernel)->module->library;
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuFuncGetModule(CUmodule *out, CUfunction function)
{
    SG_TRY(find_function(function));
    *out = function->module;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char **name, CUfunction function)
{
    SG_TRY(find_function(function));
    *name = function->name;
    return CUDA_SUCCESS;
}

CUresult cuKernelGetName(const char **name, CUkernel kernel)
{
    return cuFuncGetName(name, (CUfunction)(void *)kernel);
}

CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *size)
{
    SG_TRY(find_function(function));
    if (index >= function->kernel->params) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *offset = function->offset[index];
    if (size) {
        *size = function->kernel->size[index];
    }
    return CUDA_SUCCESS;
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset, size_t *size)
{
    return cuFuncGetParamInfo((CUfunction)(void *)kernel, index, offset, size);
}

CUresult cuFuncGetParamCount(CUfunction function, size_t *count)
{
    SG_TRY(find_function(function));
    *count = function->kernel->params;
    return CUDA_SUCCESS;
}

CUresult cuKernelGetParamCount(CUkernel kernel, size_t *count)
{
    return cuFuncGetParamCount((CUfunction)(void *)kernel, count);
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function)
{
    SG_TRY(find_function(function));
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = 1024;
        break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *value = 32;
        break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *value = (int)(sg_profile_of(0)->cc_major * 10 + sg_profile_of(0)->cc_minor);
        break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = function->max_dynamic_shared ? function->max_dynamic_shared : 49152;
        break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        *value = -1;
        break;
    default:
        if ((unsigned)attribute > CU_FUNC_ATTRIBUTE_SHARED_MEMORY_MODE) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        *value = 0;
    }
    return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value)
{
    SG_TRY(find_function(function));
    if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
        if (value < 0 || (unsigned)value > sg_profile_of(0)->shared_per_block_optin) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        function->max_dynamic_shared = value;
    }
    return CUDA_SUCCESS;
}

CUresult cuKernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel kernel,
                              CUdevice device)
{
    (void)device;
    return cuFuncGetAttribute(value, attribute, (CUfunction)(void *)kernel);
}

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel,
                              CUdevice device)
{
    (void)device;
    return cuFuncSetAttribute((CUfunction)(void *)kernel, attribute, value);
}

CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config)
{
    (void)config;
    return find_function(function);
}

CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice device)
{
    (void)config, (void)device;
    return find_function(kernel);
}

CUresult cuFuncSetSharedMemConfig(CUfunction function, CUsharedconfig config)
{
    (void)config;
    return find_function(function);
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function)
{
    SG_TRY(find_function(function));
    *state = CU_FUNCTION_LOADING_STATE_LOADED;
    return CUDA_SUCCESS;
}

CUresult cuFuncLoad(CUfunction function) { return find_function(function); }

/* ---- occupancy: by threads alone ---- */

static int blocks_per_multiprocessor(int block)
{
    const struct sg_profile *profile = sg_profile_of(sg_context_current()->gpu);
    int blocks = block > 0 ? (int)profile->threads_per_multiprocessor / block : 0;
    return blocks > (int)profile->blocks_per_multiprocessor
               ? (int)profile->blocks_per_multiprocessor
               : blocks;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction function,
                                                              int block, size_t shared,
                                                              unsigned int flags)
{
    SG_CONTEXT(context);
    SG_TRY(find_function(function));
    if (!blocks || block <= 0 || flags > 1) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *blocks = shared > sg_profile_of(context->gpu)->shared_per_multiprocessor
                  ? 0
                  : blocks_per_multiprocessor(block);
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int block,
                                                     size_t shared)
{
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block, shared, 0);
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, CUfunction function,
                                                   CUoccupancyB2DSize shared_of, size_t shared,
                                                   int limit, unsigned int flags)
{
    SG_CONTEXT(context);
    (void)shared_of, (void)shared, (void)flags;
    SG_TRY(find_function(function));
    *block = limit > 0 && limit < 1024 ? limit : 1024;
    *grid = (int)sg_profile_of(context->gpu)->multiprocessors * blocks_per_multiprocessor(*block);
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction function,
                                          CUoccupancyB2DSize shared_of, size_t shared, int limit)
{
    return cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, function, shared_of, shared,
                                                     limit, 0);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, CUfunction function, int blocks,
                                                 int block)
{
    SG_CONTEXT(context);
    (void)block;
    SG_TRY(find_function(function));
    if (blocks <= 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *bytes = sg_profile_of(context->gpu)->shared_per_multiprocessor / (unsigned)blocks;
    return CUDA_SUCCESS;
}
