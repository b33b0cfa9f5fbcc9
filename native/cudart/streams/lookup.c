/* The driver's functions, as the runtime gives them out. */
#include "cudart/driver.h"
#include "cudart/runtime.h"
#include "cudart/thread.h"

static cudaError_t look_up(const char *symbol, void **function, int version,
                           unsigned long long flags, CUdriverProcAddressQueryResult *status)
{
#ifdef RT_PER_THREAD
    flags = flags ? flags : CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
#endif
    RT_TRY(rt_start());
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    *function = NULL;
    CUresult result = rt_lookup(symbol, function, version, flags, &found);
    if (status) {
        *status = found;
        /* Where the program asked why, not to find one is an answer and no error. */
        result = result == CUDA_ERROR_NOT_FOUND ? CUDA_SUCCESS : result;
    }
    return rt_end((cudaError_t)result);
}

RT_CALL(RT_SZ(cudaGetDriverEntryPointByVersion), const char *symbol, void **function,
        unsigned int version, unsigned long long flags, CUdriverProcAddressQueryResult *status)
{
    return look_up(symbol, function, (int)version, flags, status);
}

RT_CALL(RT_SZ(cudaGetDriverEntryPoint), const char *symbol, void **function,
        unsigned long long flags, CUdriverProcAddressQueryResult *status)
{
    return look_up(symbol, function, CUDART_VERSION, flags, status);
}
