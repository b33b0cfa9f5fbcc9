/* The entry points about modules and libraries. */
#include <stdlib.h>
#include <string.h>

#include "simgpu/base/handles.h"
#include "simgpu/context/context_stack.h"
#include "simgpu/exec/module.h"
#include "simgpu/stream/capture_rules.h"
#include "simgpu/stream/stream.h"

struct CUlib_st {
    CUmodule module; /* all contexts share one, because code has no address of a context */
};

/* ---- modules ---- */

CUresult cuModuleLoadData(CUmodule *out, const void *image)
{
    SG_CONTEXT(context);
    SG_TRY(sg_capture_forbids());
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
    SG_TRY(sg_capture_forbids());
    return sg_module_load_file(out, path, context);
}

CUresult cuModuleUnload(CUmodule module)
{
    SG_ENTER();
    if (!sg_handle_is(module, SG_MODULE) || module->library) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    SG_TRY(sg_capture_forbids());
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
