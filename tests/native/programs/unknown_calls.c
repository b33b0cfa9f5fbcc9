/* Entry points that no table has: found by dlsym, called with more arguments than there are registers.
 *
 *   unknown_calls          calls them and checks what comes back
 *   unknown_calls wait     says ready, reads a line, calls one, says done, and reads another line
 *   unknown_calls lookup   only looks them up
 *   unknown_calls table    asks for export tables, one of which is harmless
 */
#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>

#include "simgpu/api/fake_entrypoints.h"
#include "simgpu_check.h"

static __typeof__(&cuSimgpuSum) sum;
static __typeof__(&cuSimgpuCall) call_back;

static void adds_up(void)
{
    double got = 0;
    OK((CUresult)sum(&got, 1, 20, 300, 4000, 50000, 600000, 7000000, 0.5, 0.25));
    CHECK(got == 7654321.75);
}

struct nest {
    int depth, deepest;
};

static int nested(void *argument)
{
    struct nest *nest = argument;
    adds_up();
    if (++nest->depth < nest->deepest) {
        CHECK(call_back(nested, nest) == 42);
    }
    adds_up();
    return 42;
}

/* Whoever looks at the stack from inside the driver finds the way back. */
static int sees_main(void *argument)
{
    void *addresses[32];
    int count = backtrace(addresses, 32);
    const char *begin = argument;
    int found = 0;
    for (int i = 0; i < count; i++) {
        found |= (const char *)addresses[i] > begin && (const char *)addresses[i] < begin + 4096;
    }
    return found;
}

static void *in_thread(void *unused)
{
    for (int i = 0; i < 10000; i++) {
        adds_up();
    }
    return unused;
}

static void pause_here(const char *word)
{
    puts(word);
    fflush(stdout);
    if (getchar() == EOF) {
        exit(3);
    }
}

static void ask_for_tables(void)
{
    CUuuid harmless = {{0x6b, (char)0xd5, (char)0xfb, 0x6c}};
    CUuuid strange = {SIMGPU_EXPORT_TABLE};
    const void *table;
    EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuGetExportTable(&table, &harmless));
    pause_here("ready");
    OK(cuGetExportTable(&table, &strange));
    CHECK(((const uintptr_t *)table)[0] == 2 * sizeof(uintptr_t)); /* its size comes first */
    pause_here("done");
}

int main(int count, char **arguments)
{
    pthread_t threads[4];
    const char *what = count > 1 ? arguments[1] : "";
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    CHECK(driver);
    sum = (__typeof__(sum))dlsym(driver, "cuSimgpuSum");
    call_back = (__typeof__(call_back))dlsym(driver, "cuSimgpuCall");
    CHECK(sum && call_back);
    begin();
    if (!strcmp(what, "lookup")) {
        pause_here("ready");
    } else if (!strcmp(what, "wait")) {
        pause_here("ready");
        adds_up();
        pause_here("done");
    } else if (!strcmp(what, "table")) {
        ask_for_tables();
    } else {
        CUresult (*unmap)(unsigned, void *, CUstream) = NULL;
        struct nest nest = {0, 12};
        adds_up();
        CHECK(call_back(nested, &nest) == 42 && nest.depth == 12);
        CHECK(call_back(sees_main, (void *)main) == 1);
        for (int i = 0; i < 4; i++) {
            CHECK(!pthread_create(&threads[i], NULL, in_thread, NULL));
        }
        for (int i = 0; i < 4; i++) {
            pthread_join(threads[i], NULL);
        }
        unmap = (__typeof__(unmap))dlsym(driver, "cuGraphicsUnmapResources_ptsz");
        EXPECT(CUDA_ERROR_NOT_SUPPORTED, unmap(0, NULL, NULL));
        puts("ok");
    }
    return 0;
}
