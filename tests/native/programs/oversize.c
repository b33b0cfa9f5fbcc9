/* More memory than a GPU has in one program:  oversize KERNELS PIECE_BYTES PIECES SWEEPS [managed]
 *
 * It allocates the pieces and works on all of them, SWEEPS times; 0: until a line comes on stdin. It ends
 * with exit code 0 if every word is right. Its own managed memory is what a program has without moiety. */
#include <poll.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include "simgpu_check.h"

#define PIECES_MAX 64
#define SWEEPS_MAX 4096

static CUdeviceptr at[PIECES_MAX];
static uint64_t pieces, words;

static uint64_t seed_of(uint64_t piece) { return piece * 1000003 + 1; }

static void allocate(uint64_t bytes, int is_managed)
{
    for (uint64_t i = 0; i < pieces; i++) {
        if (is_managed) {
            OK(cuMemAllocManaged(&at[i], bytes, CU_MEM_ATTACH_GLOBAL));
        } else {
            OK(cuMemAlloc_v2(&at[i], bytes));
        }
    }
    for (uint64_t i = 0; i < pieces; i++) {
        uint64_t seed = seed_of(i);
        LAUNCH(kernel("fill_u64"), NULL, &at[i], &words, &seed);
    }
    OK(cuCtxSynchronize());
}

static int is_over(uint64_t done, uint64_t wanted)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    return wanted ? done == wanted : done == SWEEPS_MAX || poll(&input, 1, 0) != 0;
}

static uint64_t work(uint64_t wanted)
{
    uint64_t sweeps = 0;
    for (CUfunction step = kernel("step_u64"); !is_over(sweeps, wanted); sweeps++) {
        for (uint64_t i = 0; i < pieces; i++) {
            LAUNCH(step, NULL, &at[i], &words, &sweeps);
        }
        OK(cuCtxSynchronize());
    }
    return sweeps;
}

static uint64_t wrong_words(uint64_t sweeps)
{
    static uint64_t ks[SWEEPS_MAX];
    CUdeviceptr device_ks, errors;
    uint64_t wrong = 0;
    for (uint64_t k = 0; k < sweeps; k++) {
        ks[k] = k;
    }
    OK(cuMemAlloc_v2(&device_ks, sizeof(ks)));
    OK(cuMemAlloc_v2(&errors, 8));
    OK(cuMemcpyHtoD_v2(device_ks, ks, sizeof(ks)));
    OK(cuMemsetD8_v2(errors, 0, 8));
    for (uint64_t i = 0; i < pieces; i++) {
        uint64_t seed = seed_of(i);
        LAUNCH(kernel("check_u64"), NULL, &at[i], &words, &seed, &device_ks, &sweeps, &errors);
    }
    OK(cuCtxSynchronize());
    OK(cuMemcpyDtoH_v2(&wrong, errors, 8));
    return wrong;
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

int main(int argc, char **argv)
{
    size_t left, all, total;
    CHECK(argc == 5 || argc == 6);
    setenv("KERNELS", argv[1], 1);
    uint64_t bytes = strtoull(argv[2], NULL, 10), wanted = strtoull(argv[4], NULL, 10);
    pieces = strtoull(argv[3], NULL, 10);
    words = bytes / 8;
    CHECK(pieces <= PIECES_MAX && wanted <= SWEEPS_MAX);
    begin();
    OK(cuMemGetInfo_v2(&left, &all));
    OK(cuDeviceTotalMem_v2(&total, 0));
    printf("%zu %zu\n", all, total);
    allocate(bytes, argc == 6);
    printf("ready\n");
    fflush(stdout);
    uint64_t began_ns = now_ns(), sweeps = work(wanted), took_ns = now_ns() - began_ns;
    uint64_t wrong = wrong_words(sweeps);
    for (uint64_t i = 0; i < pieces; i++) {
        OK(cuMemFree_v2(at[i]));
    }
    printf("%llu sweeps in %llu ns, %llu words wrong\n", (unsigned long long)sweeps,
           (unsigned long long)took_ns, (unsigned long long)wrong);
    return wrong ? 3 : 0;
}
