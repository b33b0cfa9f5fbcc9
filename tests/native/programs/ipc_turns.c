/* Two processes that share GPU memory as a data loader's do: one fills it, the other works on it.
 *
 *   ipc_turns KERNELS ROUNDS SEED
 *
 * Forks before it uses the GPU. In each round the producer fills an allocation and sends its handle
 * through a pipe; the consumer opens it, changes every word, closes it (each third time later) and says
 * so; the producer checks every word. Both have memory of their own, which they change in each round and
 * check at the end. SIGUSR1 has the producer stop. When it is gone while the consumer has memory of it
 * open, the consumer checks that once more. Each says how many words were wrong. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda/cuda_calls.h"

typedef unsigned long long u64;

#define MIB (1ull << 20)
#define SHARED (6 * MIB)
#define OWN (26 * MIB)

static pid_t owner; /* the producer */

static void must(CUresult result, int line, const char *what)
{
    if (result != CUDA_SUCCESS) {
        fprintf(stderr, "ipc_turns.c:%d: %s failed with error %d\n", line, what, (int)result);
        exit(1);
    }
}
#define OK(call) must(call, __LINE__, #call)

struct parcel {
    CUipcMemHandle handle;
    u64 seed;
};

static CUfunction fill, step, check;
static CUdeviceptr own, wrong_at;
static u64 seed, rounds_done;
static volatile sig_atomic_t enough;

static void stop(int number)
{
    (void)number;
    enough = 1;
}

static void launch(CUfunction kernel, void **params)
{
    OK(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    OK(cuCtxSynchronize());
}

static void change(CUdeviceptr at, u64 bytes, u64 k)
{
    u64 words = bytes / 8;
    launch(step, (void *[]){&at, &words, &k});
}

/* Words of `made` that are not what so many changes must have left. */
static u64 count_wrong(CUdeviceptr at, u64 bytes, u64 made, u64 changes)
{
    u64 words = bytes / 8, wrong = 0;
    u64 *ks = malloc((changes + 1) * 8);
    CUdeviceptr ks_at;
    for (u64 k = 0; k < changes; k++) {
        ks[k] = k;
    }
    OK(cuMemAlloc_v2(&ks_at, (changes + 1) * 8));
    OK(cuMemcpyHtoD_v2(ks_at, ks, (changes + 1) * 8));
    OK(cuMemcpyHtoD_v2(wrong_at, &wrong, 8));
    launch(check, (void *[]){&at, &words, &made, &ks_at, &changes, &wrong_at});
    OK(cuMemcpyDtoH_v2(&wrong, wrong_at, 8));
    OK(cuMemFree_v2(ks_at));
    free(ks);
    return wrong;
}

static void begin(const char *kernels)
{
    CUcontext context;
    CUmodule module;
    u64 words = OWN / 8;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuModuleLoad(&module, kernels));
    OK(cuModuleGetFunction(&fill, module, "fill_u64"));
    OK(cuModuleGetFunction(&step, module, "step_u64"));
    OK(cuModuleGetFunction(&check, module, "check_u64"));
    OK(cuMemAlloc_v2(&wrong_at, 8));
    OK(cuMemAlloc_v2(&own, OWN));
    launch(fill, (void *[]){&own, &words, &seed});
}

static int end(const char *who, u64 wrong)
{
    wrong += count_wrong(own, OWN, seed, rounds_done);
    OK(cuMemFree_v2(own));
    OK(cuDevicePrimaryCtxRelease_v2(0));
    printf("%s: %llu words wrong\n", who, wrong);
    return wrong ? 3 : 0;
}

/* Killed between saying what there is and its being opened; its parent's place is taken a moment
 * after what it had is gone. */
static int owner_is_gone(void)
{
    for (int i = 0; i < 1000 && getppid() == owner; i++) {
        usleep(1000);
    }
    return getppid() != owner;
}

static int consume(int from, int to)
{
    struct parcel parcel;
    CUdeviceptr at = 0;
    u64 wrong = 0, open_seed = 0;
    while (read(from, &parcel, sizeof(parcel)) == sizeof(parcel)) {
        if (at) { /* kept since the last round; its owner has freed it, or not */
            wrong += count_wrong(at, SHARED, open_seed, 1);
            OK(cuIpcCloseMemHandle(at));
        }
        CUresult opened =
            cuIpcOpenMemHandle_v2(&at, parcel.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
        if (opened != CUDA_SUCCESS && owner_is_gone()) {
            at = 0;
            break;
        }
        OK(opened);
        wrong += count_wrong(at, SHARED, parcel.seed, 0);
        change(at, SHARED, 0);
        change(own, OWN, rounds_done++);
        open_seed = parcel.seed;
        if (rounds_done % 3) {
            OK(cuIpcCloseMemHandle(at));
            at = 0;
        }
        if (write(to, "d", 1) != 1) {
            break;
        }
    }
    if (at) {
        wrong += count_wrong(at, SHARED, open_seed, 1);
        OK(cuIpcCloseMemHandle(at));
    }
    return end("consumer", wrong);
}

static int produce(int to, int from, u64 rounds)
{
    u64 wrong = 0, words = SHARED / 8;
    char done;
    for (; rounds_done < rounds && !enough; rounds_done++) {
        struct parcel parcel = {.seed = seed + rounds_done};
        CUdeviceptr at;
        OK(cuMemAlloc_v2(&at, SHARED));
        launch(fill, (void *[]){&at, &words, &parcel.seed});
        OK(cuIpcGetMemHandle(&parcel.handle, at));
        if (write(to, &parcel, sizeof(parcel)) != sizeof(parcel) || read(from, &done, 1) != 1) {
            fprintf(stderr, "the consumer is gone\n");
            break;
        }
        wrong += count_wrong(at, SHARED, parcel.seed, 1);
        OK(cuMemFree_v2(at));
        change(own, OWN, rounds_done);
    }
    close(to);
    return end("producer", wrong);
}

int main(int argc, char **argv)
{
    int to[2], from[2], status = 0;
    if (argc != 4) {
        fprintf(stderr, "usage: ipc_turns KERNELS ROUNDS SEED\n");
        return 2;
    }
    seed = strtoull(argv[3], NULL, 10);
    signal(SIGPIPE, SIG_IGN);
    if (pipe(to) != 0 || pipe(from) != 0) {
        return 1;
    }
    owner = getpid();
    pid_t child = fork();
    if (child == 0) {
        close(to[1]);
        close(from[0]);
        seed += 500;
        begin(argv[1]);
        int code = consume(to[0], from[1]);
        fflush(stdout);
        _exit(code);
    }
    close(to[0]);
    close(from[1]);
    signal(SIGUSR1, stop);
    begin(argv[1]);
    int code = produce(to[1], from[0], strtoull(argv[2], NULL, 10));
    fflush(stdout);
    waitpid(child, &status, 0);
    return code;
}
