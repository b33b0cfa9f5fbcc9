/* Kernels and variables of the program. */
#ifndef MOIETY_CUDART_REGISTRATION_H
#define MOIETY_CUDART_REGISTRATION_H

#include "cudart/runtime.h"

struct rt_function {
    const void *host;   /* the address that the program launches */
    const char *name;   /* as the compiler mangled it */
    CUkernel kernel;    /* of the driver; NULL: code for a GPU, which only takes time here */
    uint32_t spins : 1; /* its first argument says how many cycles it takes */
    int dynamic_shared; /* as cudaFuncSetAttribute left it */
};
struct rt_function *rt_function(const void *host);
struct rt_function *rt_function_add(const void *host, const char *name, CUkernel kernel);
void rt_function_remove(const void *host);
/* The memory behind a variable of the program's device code, on the current device. */
cudaError_t rt_symbol(const void *host, CUdeviceptr *address, size_t *bytes);
void rt_symbols_reset(int device);

#endif
