#include "shim/swap/zero_scan.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/base/driver.h"

#define NAME "moiety_find_zeros"
#define THREADS 1024u
#define STRIDE (THREADS * 64u) /* what one round of a block reads; chunks are multiples of it */

/* The page, as the kernel sees it. */
struct zero_scan_page {
    struct {
        uint64_t from, to;
    } chunk[ZERO_SCAN_AT_ONCE];
    uint32_t verdict[ZERO_SCAN_AT_ONCE]; /* 1: only zeros, 2: data */
};

/* One block of threads for each chunk, with as many blocks at work as the GPU has room for. Each
 * thread reads four times 16 bytes; the barrier adds up what all found, so all leave together.
 * sm_50 is the oldest that drivers of our time know; the driver compiles it for the GPU that is there. */
static const char kernel[] = ".version 6.0\n"
                             ".target sm_50\n"
                             ".address_size 64\n"
                             ".visible .entry " NAME "(.param .u64 page)\n"
                             ".maxntid 1024, 1, 1\n"
                             "{\n"
                             ".reg .pred %p<4>;\n"
                             ".reg .b32 %r<24>;\n"
                             ".reg .b64 %rd<12>;\n"
                             "ld.param.u64 %rd1, [page];\n"
                             "cvta.to.global.u64 %rd1, %rd1;\n"
                             "mov.u32 %r1, %ctaid.x;\n"
                             "mov.u32 %r2, %tid.x;\n"
                             "mul.wide.u32 %rd2, %r1, 16;\n"
                             "add.u64 %rd2, %rd1, %rd2;\n"
                             "ld.global.v2.u64 {%rd3, %rd4}, [%rd2];\n"
                             "mul.wide.u32 %rd5, %r2, 16;\n"
                             "add.u64 %rd3, %rd3, %rd5;\n"
                             "mov.u32 %r3, 2;\n"
                             "NEXT:\n"
                             "ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd3];\n"
                             "ld.global.v4.u32 {%r8, %r9, %r10, %r11}, [%rd3+16384];\n"
                             "ld.global.v4.u32 {%r12, %r13, %r14, %r15}, [%rd3+32768];\n"
                             "ld.global.v4.u32 {%r16, %r17, %r18, %r19}, [%rd3+49152];\n"
                             "or.b32 %r4, %r4, %r5;\n"
                             "or.b32 %r6, %r6, %r7;\n"
                             "or.b32 %r8, %r8, %r9;\n"
                             "or.b32 %r10, %r10, %r11;\n"
                             "or.b32 %r12, %r12, %r13;\n"
                             "or.b32 %r14, %r14, %r15;\n"
                             "or.b32 %r16, %r16, %r17;\n"
                             "or.b32 %r18, %r18, %r19;\n"
                             "or.b32 %r4, %r4, %r6;\n"
                             "or.b32 %r8, %r8, %r10;\n"
                             "or.b32 %r12, %r12, %r14;\n"
                             "or.b32 %r16, %r16, %r18;\n"
                             "or.b32 %r4, %r4, %r8;\n"
                             "or.b32 %r12, %r12, %r16;\n"
                             "or.b32 %r4, %r4, %r12;\n"
                             "setp.ne.u32 %p1, %r4, 0;\n"
                             "bar.red.or.pred %p2, 0, %p1;\n"
                             "@%p2 bra SAY;\n"
                             "add.u64 %rd3, %rd3, 65536;\n"
                             "setp.lt.u64 %p3, %rd3, %rd4;\n"
                             "@%p3 bra NEXT;\n"
                             "mov.u32 %r3, 1;\n"
                             "SAY:\n"
                             "setp.ne.u32 %p1, %r2, 0;\n"
                             "@%p1 bra END;\n"
                             "mul.wide.u32 %rd6, %r1, 4;\n"
                             "add.u64 %rd6, %rd1, %rd6;\n"
                             "st.global.u32 [%rd6+1024], %r3;\n"
                             "END:\n"
                             "ret;\n"
                             "}\n";
_Static_assert(offsetof(struct zero_scan_page, verdict) == 1024, "as the kernel has it");

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
    if (DRIVER(cuMemHostAlloc)(&page, sizeof(struct zero_scan_page), CU_MEMHOSTALLOC_DEVICEMAP) !=
        CUDA_SUCCESS) {
        return false;
    }
    zero_scan->page = page;
    return DRIVER(cuMemHostGetDevicePointer_v2)(&zero_scan->page_at, page, 0) == CUDA_SUCCESS;
}

static CUresult load(struct zero_scan *zero_scan)
{
    CUmodule module;
    CUresult result = zero_scan->page || make_page(zero_scan)
                          ? DRIVER(cuModuleLoadData)(&module, kernel)
                          : CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_ERROR_NO_BINARY_FOR_GPU) {
        result = load_beside_driver(&module);
    }
    return result == CUDA_SUCCESS ? DRIVER(cuModuleGetFunction)(&zero_scan->function, module, NAME)
                                  : result;
}

void zero_scan_load(struct zero_scan *zero_scan, uint32_t turn)
{
    if (zero_scan->function || zero_scan->hopeless || zero_scan->tried_turn == turn) {
        return;
    }
    zero_scan->tried_turn = turn;
    CUresult result = load(zero_scan);
    if (result != CUDA_SUCCESS) {
        zero_scan->function = NULL;
        zero_scan->hopeless = result != CUDA_ERROR_OUT_OF_MEMORY;
    }
}

void zero_scan_give_up(struct zero_scan *zero_scan)
{
    zero_scan->function = NULL;
    zero_scan->hopeless = true;
}

void zero_scan_add(struct zero_scan *zero_scan, uint32_t index, CUdeviceptr at, uint64_t bytes)
{
    zero_scan->page->chunk[index].from = at;
    zero_scan->page->chunk[index].to = at + bytes;
    zero_scan->page->verdict[index] = 0;
}

CUresult zero_scan_run(struct zero_scan *zero_scan, uint32_t count, CUstream stream)
{
    _Static_assert((2u << 20) % STRIDE == 0, "a granule is a whole number of rounds");
    void *params[] = {&zero_scan->page_at};
    return DRIVER(cuLaunchKernel)(zero_scan->function, count, 1, 1, THREADS, 1, 1, 0, stream,
                                  params, NULL);
}

bool zero_scan_is_zero(const struct zero_scan *zero_scan, uint32_t index)
{
    return __atomic_load_n(&zero_scan->page->verdict[index], __ATOMIC_RELAXED) == 1;
}
