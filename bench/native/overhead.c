/* How long one driver call takes, by the thread's own CPU time:  overhead CALL THREADS SAMPLES
 *
 * CALL is launch (cuLaunchKernel), graph (cuGraphLaunch) or copy (cuMemcpyHtoD of 64 bytes). Prints one
 * number a line: the mean nanoseconds of a call in one sample of one thread. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cuda/cuda_calls.h"

#define CALLS 200000

static __typeof__(&cuLaunchKernel) launch;
static __typeof__(&cuGraphLaunch) launch_graph;
static __typeof__(&cuMemcpyHtoD_v2) copy;
static int samples;
static enum { KERNEL, GRAPH, COPY } call;
static pthread_mutex_t print_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;

static double cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static double one_sample(void)
{
    char from[64] = {0};
    char to[64];
    void *params[1] = {NULL};
    double began = cpu_ns();
    for (int i = 0; i < CALLS; i++) {
        if (call == COPY) {
            copy((CUdeviceptr)(size_t)to, from, sizeof(from));
        } else if (call == GRAPH) {
            launch_graph((CUgraphExec)(void *)from, NULL); /* one that nobody looks into */
        } else {
            launch(NULL, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL);
        }
    }
    return (cpu_ns() - began) / CALLS;
}

static void *measure(void *unused)
{
    pthread_barrier_wait(&barrier);
    one_sample(); /* warm */
    for (int i = 0; i < samples; i++) {
        double ns = one_sample();
        pthread_mutex_lock(&print_lock);
        printf("%.3f\n", ns);
        pthread_mutex_unlock(&print_lock);
    }
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t threads[64];
    int count = argc == 4 ? atoi(argv[2]) : 0;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (count < 1 || count > 64 || !driver) {
        fprintf(stderr, "usage: overhead launch|graph|copy THREADS SAMPLES (and a driver)\n");
        return 2;
    }
    call = !strcmp(argv[1], "copy") ? COPY : !strcmp(argv[1], "graph") ? GRAPH : KERNEL;
    samples = atoi(argv[3]);
    __typeof__(&cuInit) init = (__typeof__(init))dlsym(driver, "cuInit");
    launch = (__typeof__(launch))dlsym(driver, "cuLaunchKernel");
    launch_graph = (__typeof__(launch_graph))dlsym(driver, "cuGraphLaunch");
    copy = (__typeof__(copy))dlsym(driver, "cuMemcpyHtoD_v2");
    if (init(0) != CUDA_SUCCESS) {
        return 1;
    }
    pthread_barrier_init(&barrier, NULL, (unsigned)count);
    for (int i = 0; i < count; i++) {
        pthread_create(&threads[i], NULL, measure, NULL);
    }
    for (int i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
    }
    return 0;
}
