/* Allocates and frees as it is told, a line each, and answers each with a line:
 *     alloc SLOT MIB   free SLOT   fill SLOT WORD   check SLOT WORD   copy SLOT   what SLOT   range SLOT
 *     left             churn TIMES MIB             reset
 * A slot keeps its last address after it was freed. Answers are error codes, but for `left` (MiB),
 * and `check` (words that are wrong). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/cuda_calls.h"

#define MIB (1ull << 20)
#define SLOTS 64

static CUdeviceptr at[SLOTS];
static size_t bytes[SLOTS];

static CUresult begin(void)
{
    CUcontext context;
    CUresult result = cuInit(0);
    if (result == CUDA_SUCCESS) {
        result = cuDevicePrimaryCtxRetain(&context, 0);
    }
    return result == CUDA_SUCCESS ? cuCtxSetCurrent(context) : result;
}

static CUresult reset(void)
{
    CUresult result = cuDevicePrimaryCtxReset_v2(0);
    return result == CUDA_SUCCESS ? begin() : result;
}

static long check(unsigned slot, unsigned word)
{
    unsigned *copy = malloc(bytes[slot]);
    long wrong = 0;
    if (!copy || cuMemcpyDtoH_v2(copy, at[slot], bytes[slot]) != CUDA_SUCCESS) {
        free(copy);
        return -1;
    }
    for (size_t i = 0; i < bytes[slot] / sizeof(word); i++) {
        wrong += copy[i] != word;
    }
    free(copy);
    return wrong;
}

static CUresult churn(unsigned times, size_t mib)
{
    CUdeviceptr pointer;
    CUresult result = CUDA_SUCCESS;
    for (unsigned i = 0; i < times && result == CUDA_SUCCESS; i++) {
        result = cuMemAlloc_v2(&pointer, mib * MIB);
        if (result == CUDA_SUCCESS) {
            result = cuMemFree_v2(pointer);
        }
    }
    return result;
}

static CUresult what(unsigned slot)
{
    unsigned type = 0;
    return cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at[slot]);
}

static CUresult range(unsigned slot)
{
    CUdeviceptr base;
    size_t size;
    return cuMemGetAddressRange_v2(&base, &size, at[slot]);
}

static long left(void)
{
    size_t available = 0;
    size_t total = 0;
    return cuMemGetInfo_v2(&available, &total) == CUDA_SUCCESS ? (long)(available / MIB) : -1;
}

static CUresult copy(unsigned slot)
{
    unsigned word = 7;
    return cuMemcpyHtoD_v2(at[slot], &word, sizeof(word));
}

static long obey(const char *word, unsigned first, unsigned second)
{
    if (!strcmp(word, "left")) {
        return left();
    }
    if (!strcmp(word, "churn")) {
        return churn(first, second);
    }
    if (!strcmp(word, "reset")) {
        return reset();
    }
    if (first >= SLOTS) {
        exit(2);
    }
    if (!strcmp(word, "alloc")) {
        bytes[first] = second * MIB;
        return cuMemAlloc_v2(&at[first], bytes[first]);
    }
    if (!strcmp(word, "free")) {
        return cuMemFree_v2(at[first]);
    }
    if (!strcmp(word, "fill")) {
        return cuMemsetD32_v2(at[first], second, bytes[first] / sizeof(second));
    }
    if (!strcmp(word, "check")) {
        return check(first, second);
    }
    if (!strcmp(word, "copy")) {
        return copy(first);
    }
    if (!strcmp(word, "what")) {
        return what(first);
    }
    if (!strcmp(word, "range")) {
        return range(first);
    }
    exit(2);
}

int main(void)
{
    char line[64];
    char word[16];
    if (begin() != CUDA_SUCCESS) {
        return 1;
    }
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin)) {
        unsigned first = 0;
        unsigned second = 0;
        if (sscanf(line, "%15s %u %u", word, &first, &second) < 1) { // NOLINT(cert-err34-c)
            return 2;
        }
        printf("%ld\n", obey(word, first, second));
        fflush(stdout);
    }
    return 0;
}
