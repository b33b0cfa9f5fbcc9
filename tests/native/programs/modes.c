/* Memory of two kinds in one program:  modes KERNELS
 *
 * It allocates twice, and between that waits for a line on stdin, so that its mode can be changed;
 * prints which of its pieces are managed memory; then works on all of them, round after round,
 * until another line comes; and ends with exit code 0 if every word is right. */
#include <poll.h>
#include <stdint.h>
#include <unistd.h>

#include "simgpu_check.h"

#define MIB (1ull << 20)
#define PIECES 6
#define ROUNDS_MAX 4096

static const uint64_t sizes[PIECES / 2] = {18 * MIB, 3 * MIB + 8, 512};

static CUdeviceptr at[PIECES];
static CUstream stream;

static uint64_t words(int piece) { return sizes[piece % (PIECES / 2)] / 8; }

static void wait_for_line(const char *said)
{
    char line[16];
    printf("%s\n", said);
    fflush(stdout);
    CHECK(fgets(line, sizeof(line), stdin));
}

static void allocate(int from)
{
    for (int i = from; i < from + PIECES / 2; i++) {
        CUdeviceptr base = 0;
        size_t bytes = 0;
        uint64_t count = words(i);
        uint64_t seed = (uint64_t)i * 1000003;
        OK(cuMemAlloc_v2(&at[i], count * 8));
        OK(cuMemGetAddressRange_v2(&base, &bytes, at[i] + count * 4));
        CHECK(base == at[i] && bytes == count * 8);
        LAUNCH(kernel("fill_u64"), stream, &at[i], &count, &seed);
    }
    OK(cuStreamSynchronize(stream));
}

static void tell_kinds(void)
{
    for (int i = 0; i < PIECES; i++) {
        unsigned managed = 7;
        unsigned type = 0;
        OK(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, at[i]));
        OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at[i]));
        CHECK(type == CU_MEMORYTYPE_DEVICE);
        printf("%u", managed);
    }
    printf("\n");
}

static uint64_t work(void)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    uint64_t rounds = 0;
    CUfunction step = kernel("step_u64");
    while (rounds < ROUNDS_MAX && poll(&input, 1, 0) == 0) {
        for (int i = 0; i < PIECES; i++) {
            uint64_t count = words(i);
            LAUNCH(step, stream, &at[i], &count, &rounds);
        }
        OK(cuStreamSynchronize(stream));
        rounds++;
    }
    return rounds;
}

int main(int argc, char **argv)
{
    static uint64_t ks[ROUNDS_MAX];
    CUdeviceptr device_ks;
    CUdeviceptr errors;
    uint64_t wrong = 0;
    CHECK(argc == 2);
    setenv("KERNELS", argv[1], 1);
    begin();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    allocate(0);
    wait_for_line("first");
    allocate(PIECES / 2);
    tell_kinds();
    wait_for_line("second");
    uint64_t rounds = work();
    for (uint64_t k = 0; k < rounds; k++) {
        ks[k] = k;
    }
    OK(cuMemAlloc_v2(&device_ks, sizeof(ks)));
    OK(cuMemAlloc_v2(&errors, 8));
    OK(cuMemcpyHtoD_v2(device_ks, ks, sizeof(ks)));
    OK(cuMemsetD8_v2(errors, 0, 8));
    for (int i = 0; i < PIECES; i++) {
        uint64_t count = words(i);
        uint64_t seed = (uint64_t)i * 1000003;
        LAUNCH(kernel("check_u64"), stream, &at[i], &count, &seed, &device_ks, &rounds, &errors);
    }
    OK(cuStreamSynchronize(stream));
    OK(cuMemcpyDtoH_v2(&wrong, errors, 8));
    for (int i = 0; i < PIECES; i++) {
        OK(cuMemFree_v2(at[i]));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(at[i]));
    }
    printf("%llu rounds, %llu words wrong\n", (unsigned long long)rounds,
           (unsigned long long)wrong);
    return wrong ? 3 : 0;
}
