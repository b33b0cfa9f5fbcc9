/* Many threads make small allocations at the same time, one word for each case:
 *     small_threads WORD THREADS BYTES
 *
 * It says "ready" where the test may do something meanwhile, reads a line, and goes on. At the end it prints how
 * many of the allocations failed. What was allocated is written, read and freed. */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "simgpu_check.h"

#define THREADS_MAX 512

static int thread_count;
static size_t bytes;
static CUcontext context;
static pthread_barrier_t start;
static pthread_t threads[THREADS_MAX];
static CUdeviceptr pointers[THREADS_MAX];
static CUresult results[THREADS_MAX];

static void pause_for_test(void)
{
    char line[16];
    printf("ready\n");
    fflush(stdout);
    CHECK(fgets(line, sizeof(line), stdin));
}

static void *allocate(void *index)
{
    size_t i = (size_t)index;
    CUresult result = cuCtxSetCurrent(context);
    pthread_barrier_wait(&start);
    results[i] = result == CUDA_SUCCESS ? cuMemAlloc_v2(&pointers[i], bytes) : result;
    return NULL;
}

/* The threads begin at the same time, and the caller goes on. */
static void begin_threads(void)
{
    OK(pthread_barrier_init(&start, NULL, (unsigned)thread_count + 1));
    for (int i = 0; i < thread_count; i++) {
        CHECK(pthread_create(&threads[i], NULL, allocate, (void *)(size_t)i) == 0);
    }
    pthread_barrier_wait(&start);
}

static int end_threads(void)
{
    int failed = 0;
    for (int i = 0; i < thread_count; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        failed += results[i] != CUDA_SUCCESS;
    }
    return failed;
}

static void use_and_free(void)
{
    for (int i = 0; i < thread_count; i++) {
        if (results[i] == CUDA_SUCCESS) {
            OK(cuMemsetD32_v2(pointers[i], (unsigned)i + 1, bytes / 4));
        }
    }
    for (int i = 0; i < thread_count; i++) {
        unsigned last = 0;
        if (results[i] == CUDA_SUCCESS) {
            OK(cuMemcpyDtoH_v2(&last, pointers[i] + bytes - 4, 4));
            CHECK(last == (unsigned)i + 1);
            OK(cuMemFree_v2(pointers[i]));
        }
    }
}

static void at_once(void)
{
    pause_for_test();
    begin_threads();
    printf("%d\n", end_threads());
    use_and_free();
}

/* While the threads wait for memory, this one frees some of a slab. */
static void freed_meanwhile(void)
{
    CUdeviceptr first, second;
    OK(cuMemAlloc_v2(&first, 1 << 20));
    OK(cuMemAlloc_v2(&second, 1 << 20));
    begin_threads();
    pause_for_test();
    OK(cuMemFree_v2(first));
    pause_for_test();
    printf("%d\n", end_threads());
    use_and_free();
}

/* While the threads wait for memory, their context goes. */
static void context_destroyed(void)
{
    CUcontext own;
    OK(cuCtxCreate_v2(&own, 0, 0));
    context = own;
    begin_threads();
    pause_for_test();
    OK(cuCtxDestroy_v2(own));
    pause_for_test();
    printf("%d\n", end_threads());
}

/* While the threads wait for memory, a child is forked, which has none of them. */
static void forked(void)
{
    int status;
    begin_threads();
    pause_for_test();
    pid_t child = fork();
    if (child == 0) {
        CUdeviceptr at = 0;
        _exit(cuMemAlloc_v2(&at, bytes) == CUDA_SUCCESS);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    pause_for_test();
    printf("%d\n", end_threads());
    use_and_free();
}

int main(int argc, char **argv)
{
    static const struct {
        const char *word;
        void (*run)(void);
    } words[] = {{"at_once", at_once},
                 {"freed", freed_meanwhile},
                 {"destroyed", context_destroyed},
                 {"forked", forked}};
    thread_count = argc == 4 ? atoi(argv[2]) : 0;
    bytes = argc == 4 ? strtoull(argv[3], NULL, 0) : 0;
    CHECK(thread_count > 0 && thread_count <= THREADS_MAX && bytes >= 4);
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (!strcmp(argv[1], words[i].word)) {
            words[i].run();
            return 0;
        }
    }
    return 2;
}
