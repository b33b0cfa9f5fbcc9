#include "shim/swap/zero_scan.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/base/driver.h"
#include "shim/swap/clean.h"
#include "shim/swap/scan_kernels.h"

/* A driver that is no GPU's takes no PTX; simgpu brings its form of the kernel along, next to itself. */
static CUresult load_beside_driver(CUmodule *module)
{
    char path[4096];
    struct stat status;
    Dl_info driver;
    if (!dladdr((void *)DRIVER(cuInit), &driver) || !driver.dli_fname) {
        return CUDA_ERROR_FILE_NOT_FOUND;
    }
    const char *slash = strrchr(driver.dli_fname, '/');
    int folder = slash ? (int)(slash - driver.dli_fname) + 1 : 0;
    snprintf(path, sizeof(path), "%.*skernels.elf", folder, driver.dli_fname);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return CUDA_ERROR_FILE_NOT_FOUND;
    }
    CUresult result = CUDA_ERROR_INVALID_IMAGE;
    void *image = fstat(file, &status) == 0 ? calloc(1, (size_t)status.st_size + 1) : NULL;
    if (image && read(file, image, (size_t)status.st_size) == (ssize_t)status.st_size) {
        result = DRIVER(cuModuleLoadData)(module, image);
    }
    free(image);
    close(file);
    return result;
}

static bool make_page(struct zero_scan *zero_scan)
{
    void *page = NULL;
    if (DRIVER(cuMemHostAlloc)(&page, sizeof(struct scan_page) + SCAN_ROUND_BYTES,
                               CU_MEMHOSTALLOC_DEVICEMAP) != CUDA_SUCCESS) {
        return false;
    }
    zero_scan->page = page;
    return DRIVER(cuMemHostGetDevicePointer_v2)(&zero_scan->page_at, page, 0) == CUDA_SUCCESS;
}

/* Of the current context's GPU: its memory moves twice its width with each clock. */
static double memory_rate(void)
{
    CUdevice device;
    int khz = 0, bits = 0;
    if (DRIVER(cuCtxGetDevice)(&device) != CUDA_SUCCESS ||
        DRIVER(cuDeviceGetAttribute)(&khz, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, device) !=
            CUDA_SUCCESS ||
        DRIVER(cuDeviceGetAttribute)(&bits, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, device) !=
            CUDA_SUCCESS) {
        return 0;
    }
    return 2e3 * khz * bits / 8;
}

static CUresult load(struct zero_scan *zero_scan)
{
    CUmodule module;
    bool hashes = clean_mode() != CLEAN_OFF; /* else its kernel is not worth the driver's time */
    CUresult result =
        zero_scan->page || make_page(zero_scan)
            ? DRIVER(cuModuleLoadData)(&module, hashes ? SCAN_MODULE : SCAN_MODULE_OF_ZEROS)
            : CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_ERROR_NO_BINARY_FOR_GPU) {
        result = load_beside_driver(&module);
    }
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (!hashes ||
        DRIVER(cuModuleGetFunction)(&zero_scan->hash, module, "moiety_hash") != CUDA_SUCCESS) {
        zero_scan->hash = NULL;
    }
    zero_scan->memory_rate = memory_rate();
    return DRIVER(cuModuleGetFunction)(&zero_scan->function, module, "moiety_find_zeros");
}

void zero_scan_load(struct zero_scan *zero_scan, uint32_t turn)
{
    if (zero_scan->function || zero_scan->hopeless || zero_scan->tried_turn == turn) {
        return;
    }
    zero_scan->tried_turn = turn;
    CUresult result = load(zero_scan);
    zero_scan->why = result;
    if (result != CUDA_SUCCESS) {
        zero_scan->function = zero_scan->hash = NULL;
        zero_scan->hopeless = result != CUDA_ERROR_OUT_OF_MEMORY;
    }
}

void zero_scan_give_up(struct zero_scan *zero_scan, CUresult why)
{
    zero_scan->why = why;
    zero_scan->function = zero_scan->hash = NULL;
    zero_scan->hopeless = true;
}

void zero_scan_add(struct zero_scan *zero_scan, uint32_t slot, CUdeviceptr at, uint64_t bytes)
{
    struct scan_page *page = zero_scan->page;
    page->chunk[slot].from = at;
    page->chunk[slot].to = at + bytes;
    memset(page->verdict[slot], 0, sizeof(page->verdict[slot]));
    memset(page->hash[slot], 0xff, sizeof(page->hash[slot]));
}

CUresult zero_scan_run(struct zero_scan *zero_scan, uint32_t count, CUstream stream)
{
    void *params[] = {&zero_scan->page_at};
    return DRIVER(cuLaunchKernel)(zero_scan->function, count, SCAN_BLOCKS, 1, SCAN_THREADS, 1, 1, 0,
                                  stream, params, NULL);
}

bool zero_scan_is_zero(const struct zero_scan *zero_scan, uint32_t index)
{
    uint32_t zero = 0;
    for (uint32_t block = 0; block < SCAN_BLOCKS; block++) {
        uint32_t verdict =
            __atomic_load_n(&zero_scan->page->verdict[index][block], __ATOMIC_RELAXED);
        zero += verdict == SCAN_ZERO;
    }
    return zero == SCAN_BLOCKS;
}
