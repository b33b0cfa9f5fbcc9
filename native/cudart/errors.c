/* Results by name, and in words. */
#include "cudart/driver.h"
#include "cudart/runtime.h"

static const struct {
    cudaError_t code;
    const char *name, *text; /* NULL: the driver's text */
} errors[] = {
#define ERROR(code, name) {code, "cudaError" #name, NULL},
#define OWN_ERROR(code, name, text) {code, "cudaError" #name, text},
#include "cudart/errors.def"
};

RT_EXPORT const char *cudaGetErrorName(cudaError_t error);
const char *cudaGetErrorName(cudaError_t error)
{
    if (!error) {
        return "cudaSuccess";
    }
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        if (errors[i].code == error) {
            return errors[i].name;
        }
    }
    return "unrecognized error code";
}

RT_EXPORT const char *cudaGetErrorString(cudaError_t error);
const char *cudaGetErrorString(cudaError_t error)
{
    const char *text = NULL;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        if (errors[i].code == error && errors[i].text) {
            return errors[i].text;
        }
    }
    rt_start();
    if (!rt_driver.cuGetErrorString || rt_driver.cuGetErrorString((CUresult)error, &text) ||
        !text) {
        return error ? cudaGetErrorName(error) : "no error";
    }
    return text;
}
