/* Work on the GPU that waits for what another thread of the program submits: dependent WORD BYTES SECONDS
 *
 * callback  a callback in a stream waits until a thread has launched a kernel after it
 * value     a stream waits for a word that a thread writes with a copy through another stream
 * copy      a copy that blocks its thread stands behind such a wait
 * never     a stream waits for a word that nobody writes
 * plain     nothing waits for anything
 * idle      takes its memory and uses it once
 *
 * Each allocates so many bytes, says "ready", and goes on for so long. Exit code 0: all was right. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include "simgpu_check.h"

static _Atomic uint32_t asked, answered;
static _Atomic int over;
static CUdeviceptr word;
static CUcontext context;
static CUfunction spin;
static const char *what;

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Does what the work that is under way waits for, a little later. */
static void *answer(void *unused)
{
    CUstream stream;
    uint64_t us = 10;
    OK(cuCtxSetCurrent(context));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    while (!over) {
        if (asked == answered) {
            usleep(100);
            continue;
        }
        uint32_t now = asked;
        usleep(2000);
        if (!strcmp(what, "callback")) {
            LAUNCH(spin, stream, &us);
        } else {
            OK(cuMemcpyHtoDAsync_v2(word, &now, sizeof(now), stream));
        }
        OK(cuStreamSynchronize(stream));
        answered = now;
    }
    return unused;
}

static void await_answer(void *data)
{
    while (answered != (uint32_t)(uintptr_t)data && !over) {
        usleep(100);
    }
}

static void ask(CUstream stream, uint32_t number)
{
    uint32_t copied = 0;
    asked = number;
    if (!strcmp(what, "callback")) {
        OK(cuLaunchHostFunc(stream, await_answer, (void *)(uintptr_t)number));
        OK(cuStreamSynchronize(stream));
        return;
    }
    OK(cuStreamWaitValue32_v2(stream, word, number, CU_STREAM_WAIT_VALUE_GEQ));
    if (!strcmp(what, "copy")) {
        OK(cuMemcpyDtoHAsync_v2(&copied, word, sizeof(copied), stream));
        OK(cuMemcpyDtoH_v2(&copied, word, sizeof(copied))); /* inside the gate until all is done */
    }
    OK(cuStreamSynchronize(stream));
}

int main(int argc, char **argv)
{
    CUdeviceptr memory;
    CUstream stream;
    pthread_t thread;
    uint64_t us = 10;
    CHECK(argc == 4);
    what = argv[1];
    context = begin();
    spin = kernel("spin_us");
    OK(cuMemAlloc_v2(&memory, strtoull(argv[2], NULL, 10)));
    OK(cuMemAlloc_v2(&word, 4096));
    OK(cuMemsetD32_v2(word, 0, 1024));
    OK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    OK(cuCtxSynchronize());
    puts("ready");
    fflush(stdout);
    double ends = now_s() + atof(argv[3]);
    if (!strcmp(what, "never")) {
        OK(cuStreamWaitValue32_v2(stream, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
        OK(cuStreamSynchronize(stream));
    }
    if (!strcmp(what, "idle")) {
        usleep((useconds_t)(atof(argv[3]) * 1e6));
    } else if (!strcmp(what, "plain")) {
        while (now_s() < ends) {
            LAUNCH(spin, stream, &us);
            OK(cuStreamSynchronize(stream));
        }
    } else {
        OK(pthread_create(&thread, NULL, answer, NULL) ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS);
        for (uint32_t number = 1; now_s() < ends; number++) {
            ask(stream, number);
        }
        over = 1;
        pthread_join(thread, NULL);
        printf("%u\n", asked);
    }
    return 0;
}
