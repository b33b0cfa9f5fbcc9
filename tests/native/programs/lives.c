/* How programs begin and end processes and threads while they share a GPU: lives HOW
 *
 * early    a child from before cuInit uses the GPU as its parent does
 * late     a child from after cuInit does without it and ends, its parent goes on
 * orphan   the same child, and says its process id; its parent ends and leaves it behind
 * exec     a child replaces itself with a program that uses the GPU
 * replace  a program that uses the GPU replaces itself
 * threads  a hundred threads end while work of theirs is under way
 * cancel   forty threads are cancelled while they are in calls
 * leave    main ends the program while other threads are in calls
 * capture  the program ends while a stream is captured
 * hang     a kernel runs for an hour; says so once it does
 * plain    nothing of all that
 *
 * Each uses 36 MiB in many turns and checks them. Exit code 0: all was right. */
#include <pthread.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include "simgpu_check.h"

#define BYTES (36ull << 20)
#define TURNS 6

static CUcontext context;
static CUdeviceptr data;
static const char *how;

static int is(const char *name) { return !strcmp(how, name); }

static void use(void)
{
    static const uint64_t places[] = {0, BYTES / 2 + 1, BYTES - 1};
    for (unsigned turn = 1; turn <= TURNS; turn++) {
        OK(cuMemsetD8_v2(data, (unsigned char)turn, BYTES));
        OK(cuCtxSynchronize());
        usleep(3000);
        for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
            unsigned char found = 0;
            OK(cuMemcpyDtoH_v2(&found, data + places[i], 1));
            CHECK(found == turn);
        }
    }
}

static void take(void)
{
    context = begin();
    OK(cuMemAlloc_v2(&data, BYTES));
    use();
}

static void ends_well(pid_t child)
{
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void *submit(void *rounds)
{
    CUstream stream;
    OK(cuCtxSetCurrent(context));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (long i = 0; i != (long)(intptr_t)rounds; i++) {
        OK(cuStreamSynchronize(stream));
        OK(cuMemsetD8Async(data + (1 << 20), 1, 1 << 20, stream));
    }
    pthread_exit(NULL);
}

static void end_threads(void)
{
    for (int round = 0; round < 25; round++) {
        pthread_t threads[4];
        for (int i = 0; i < 4; i++) {
            CHECK(!pthread_create(&threads[i], NULL, submit, (void *)2));
        }
        for (int i = 0; i < 4; i++) {
            CHECK(!pthread_join(threads[i], NULL));
        }
    }
    OK(cuCtxSynchronize());
}

static void *submit_until_cancelled(void *ready)
{
    CUstream stream;
    OK(cuCtxSetCurrent(context));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (;;) {
        OK(cuMemsetD8Async(data + (1 << 20), 1, 1 << 20, stream));
        OK(cuStreamSynchronize(stream));
        __atomic_store_n((int *)ready, 1, __ATOMIC_RELEASE);
        pthread_testcancel();
    }
}

static void cancel_threads(void)
{
    for (int round = 0; round < 10; round++) {
        pthread_t threads[4];
        int ready[4] = {0};
        for (int i = 0; i < 4; i++) {
            CHECK(!pthread_create(&threads[i], NULL, submit_until_cancelled, &ready[i]));
        }
        for (int i = 0; i < 4; i++) {
            void *end = NULL;
            while (!__atomic_load_n(&ready[i], __ATOMIC_ACQUIRE)) {
                usleep(100);
            }
            CHECK(!pthread_cancel(threads[i]));
            CHECK(!pthread_join(threads[i], &end));
            CHECK(end == PTHREAD_CANCELED);
        }
    }
    OK(cuCtxSynchronize());
}

static void leave_while_others_submit(void)
{
    for (int i = 0; i < 4; i++) {
        pthread_t thread;
        CHECK(!pthread_create(&thread, NULL, submit, (void *)-1));
    }
    usleep(20000);
    exit(0);
}

static void leave_in_capture(void)
{
    CUstream stream;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuMemsetD8Async(data, 1, 1 << 20, stream));
    exit(0);
}

static void hang(void)
{
    uint64_t us = 3600ull * 1000 * 1000;
    CUfunction spin = kernel("spin_us");
    LAUNCH(spin, NULL, &us);
    puts("hangs");
    fflush(stdout);
    OK(cuCtxSynchronize());
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    how = argv[1];
    pid_t child = is("early") ? fork() : -1;
    take();
    if (child == 0) {
        return 0;
    }
    if (is("late") || is("orphan") || is("exec")) {
        child = fork();
        if (child == 0 && is("exec")) {
            execl("/proc/self/exe", "lives", "plain", NULL);
        } else if (child == 0 && is("orphan")) {
            close(STDOUT_FILENO);
            close(STDERR_FILENO);
            sleep(3600);
        } else if (child == 0) {
            CUdeviceptr none;
            CHECK(cuMemAlloc_v2(&none, 8) != CUDA_SUCCESS);
            exit(0); /* with whatever runs at the end of a program */
        }
    }
    if (is("orphan")) {
        printf("%d\n", (int)child);
        return 0;
    }
    if (is("replace")) {
        execl("/proc/self/exe", "lives", "plain", NULL);
    } else if (is("threads")) {
        end_threads();
    } else if (is("cancel")) {
        cancel_threads();
    } else if (is("leave")) {
        leave_while_others_submit();
    } else if (is("capture")) {
        leave_in_capture();
    } else if (is("hang")) {
        hang();
    }
    use();
    if (child > 0) {
        ends_well(child);
        use();
    }
    return 0;
}
