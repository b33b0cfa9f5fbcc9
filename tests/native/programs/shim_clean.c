/* A program whose memory leaves and comes back, driven by lines of stdin:  shim_clean MIB...
 *
 * It allocates the sizes, fills them, and keeps what they must hold in host memory as well. Each line is answered
 * with one line: "write PIECE OFFSET" sets 8 bytes, "check" compares every byte ("right", "wrong" or the error),
 * "count" says how many bytes were copied to and from the GPU (without those of "check"), "damage PIECE" flips a byte
 * of that piece where the shim keeps its host copy, "fail N" makes the Nth copy out from now on fail, "limit" lets
 * the process map no more memory and "unlimit" ends that, "new MIB" allocates one more piece, "free PIECE" frees one.
 * "refuse KERNEL TIMES" makes launches of that kernel fail. "context" makes one of its own, in which later pieces are
 * made, and "lose" ends the first one with its pieces; "break" breaks all of them, as a kernel's error does. "export
 * PIECE" lets other processes open it, and "handle PIECE" asks for a handle for other devices in a wrong way. "bind
 * MIB" makes a piece that was bound to a multicast object, and "peer PIECE OFFSET" writes as "write" does, from GPU 1.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cuda/cuda_calls.h"
#include "simgpu/api/inspect.h"

#define MIB (1ull << 20)
#define PIECES 16
static void expect(int holds, int line, const char *what)
{
    if (!holds) {
        fprintf(stderr, "shim_clean.c:%d: %s does not hold\n", line, what);
        exit(1);
    }
}
#define EXPECT(condition) expect((condition) != 0, __LINE__, #condition)
#define OK(call) EXPECT((call) == CUDA_SUCCESS)

static CUdeviceptr piece[PIECES];
static unsigned char *right[PIECES];
static unsigned long long bytes[PIECES], checked_bytes;
static unsigned count, first_of_own;
static unsigned char *back;
static void *driver;

static unsigned long long next_random(void)
{
    static unsigned long long state = 88172645463325252ull;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* Random bytes for new memory, which is a piece from then on. */
static void fill(CUdeviceptr at, unsigned long long mib)
{
    EXPECT(count < PIECES && mib <= 4096);
    if (count >= PIECES || mib > 4096) {
        return;
    }
    piece[count] = at;
    bytes[count] = mib * MIB;
    right[count] = malloc(bytes[count]);
    for (unsigned long long i = 0; i < bytes[count]; i += 8) {
        unsigned long long word = next_random();
        memcpy(right[count] + i, &word, 8);
    }
    OK(cuMemcpyHtoD_v2(at, right[count], bytes[count]));
    count++;
}

static void allocate(unsigned long long mib)
{
    CUdeviceptr at;
    OK(cuMemAlloc_v2(&at, mib * MIB));
    fill(at, mib);
}

static void check(void)
{
    for (unsigned i = 0; i < count; i++) {
        if (!piece[i]) {
            continue;
        }
        CUresult result = cuMemcpyDtoH_v2(back, piece[i], bytes[i]);
        if (result != CUDA_SUCCESS) {
            printf("error %d\n", result);
            return;
        }
        checked_bytes += bytes[i];
        if (memcmp(back, right[i], bytes[i]) != 0) {
            printf("wrong %u\n", i);
            return;
        }
    }
    printf("right\n");
}

/* The piece's first bytes, wherever they are in writable memory that is neither ours nor the GPU's. */
static void damage(unsigned which)
{
    unsigned long long from, to, found = 0;
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    EXPECT(maps);
    while (fgets(line, sizeof(line), maps)) {
        char mode[8] = "";
        EXPECT(sscanf(line, "%llx-%llx %7s", &from, &to, mode) == 3);
        if (memcmp(mode, "rw-p", 4) != 0 || strchr(line, '[') || to - from < 2 * MIB) {
            continue;
        }
        for (unsigned long long at = from; at + 64 <= to; at += 4096) {
            unsigned char *copy = (unsigned char *)at;
            if (copy != back && copy != right[which] && memcmp(copy, right[which], 64) == 0) {
                copy[40] ^= 4;
                found++;
            }
        }
    }
    fclose(maps);
    printf("damaged %llu\n", found);
}

static unsigned long long copied(void)
{
    struct simgpu_counters now;
    int (*counters)(struct simgpu_counters *) =
        (__typeof__(counters))dlsym(driver, "simgpu_counters");
    EXPECT(counters && counters(&now) == 0);
    return now.copied_bytes - checked_bytes;
}

static void fail_copies(unsigned long long after, unsigned long long times)
{
    void (*fail)(int, uint64_t, uint64_t, int) =
        (__typeof__(fail))dlsym(driver, "simgpu_fail_copies");
    EXPECT(fail);
    fail(0, after, times, CUDA_ERROR_UNKNOWN);
    printf("done\n");
}

static void limit(int on)
{
    static const char path[] = "/proc/self/statm";
    struct rlimit most = {RLIM_INFINITY, RLIM_INFINITY};
    unsigned long long pages;
    FILE *file = fopen(path, "r");
    EXPECT(getrlimit(RLIMIT_AS, &most) == 0);
    EXPECT(file && fscanf(file, "%llu", &pages) == 1);
    fclose(file);
    most.rlim_cur = on ? pages * 4096 : most.rlim_max;
    EXPECT(setrlimit(RLIMIT_AS, &most) == 0);
    printf("done\n");
}

static void *of_driver(const char *name)
{
    void *found = dlsym(driver, name);
    EXPECT(found);
    return found;
}

static void refuse(const char *kernel, unsigned long long times)
{
    void (*fail)(const char *, uint64_t, uint64_t, int) =
        (__typeof__(fail))of_driver("simgpu_fail_launches");
    fail(kernel, 0, times, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    printf("done\n");
}

#include "shim_clean_others.h"

/* The number of a piece. */
static unsigned known(unsigned long long which)
{
    if (which >= PIECES) {
        exit(2);
    }
    return (unsigned)which;
}

static void obey(const char *line)
{
    unsigned long long one = 0, two = 0;
    char word[64];
    if (sscanf(line, "write %llu %llu", &one, &two) == 2) {
        one = known(one);
        unsigned char value = (unsigned char)next_random();
        OK(cuMemsetD8_v2(piece[one] + two, value, 8));
        OK(cuCtxSynchronize());
        memset(right[one] + two, value, 8);
        printf("done\n");
    } else if (sscanf(line, "damage %llu", &one) == 1) {
        damage(known(one));
    } else if (sscanf(line, "fail %llu", &one) == 1) {
        fail_copies(one, one == 0 ? 0 : 1);
    } else if (sscanf(line, "new %llu", &one) == 1) {
        allocate(one);
        printf("done\n");
    } else if (sscanf(line, "free %llu", &one) == 1) {
        one = known(one);
        OK(cuMemFree_v2(piece[one]));
        piece[one] = 0;
        printf("done\n");
    } else if (sscanf(line, "refuse %63s %llu", word, &one) == 2) {
        refuse(word, one);
    } else if (!strncmp(line, "context", 7)) {
        own_context();
    } else if (!strncmp(line, "lose", 4)) {
        lose_context();
    } else if (!strncmp(line, "break", 5)) {
        break_contexts();
    } else if (sscanf(line, "export %llu", &one) == 1) {
        CUipcMemHandle handle;
        OK(cuIpcGetMemHandle(&handle, piece[known(one)]));
        printf("done\n");
    } else if (sscanf(line, "handle %llu", &one) == 1) {
        one = known(one);
        CUresult result = cuMemGetHandleForAddressRange(&two, piece[one], bytes[one],
                                                        CU_MEM_RANGE_HANDLE_TYPE_MAX, 0);
        EXPECT(result != CUDA_SUCCESS);
        printf("done\n");
    } else if (sscanf(line, "bind %llu", &one) == 1) {
        bind(one);
    } else if (sscanf(line, "peer %llu %llu", &one, &two) == 2) {
        write_from_peer(known(one), two);
    } else if (!strncmp(line, "check", 5)) {
        check();
    } else if (!strncmp(line, "count", 5)) {
        printf("%llu\n", copied());
    } else {
        EXPECT(!strncmp(line, "limit", 5) || !strncmp(line, "unlimit", 7));
        limit(line[0] == 'l');
    }
    fflush(stdout);
}

int main(int argc, char **argv)
{
    CUcontext context;
    char line[64];
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    back = malloc(64 * MIB);
    for (int i = 1; i < argc; i++) {
        allocate(strtoull(argv[i], NULL, 10));
    }
    OK(cuCtxSynchronize());
    checked_bytes = copied();
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin)) {
        obey(line);
    }
    return 0;
}
