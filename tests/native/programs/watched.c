/* A program for the watch to look at.
 *
 *   watched BYTES ESCAPED KERNELS
 *
 * It takes BYTES of GPU memory, says `ready`, and then does what the lines of its input say:
 *   work      clears that memory on the GPU, and says `worked`
 *   memory    takes ESCAPED bytes more, past whatever is preloaded
 *   busy      keeps the GPU busy past it, until the next line comes
 *   end       ends
 * When its input ends it sleeps, with what it has. Exit code 1: a call failed.
 *
 * To get past, it looks the driver's functions up by itself, in the tables of the loaded library. */
#include <elf.h>
#include <link.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda/cuda_calls.h"

#define SPIN_US 2000ull

struct wanted {
    const char *name;
    void *found;
};

static void must(CUresult result, const char *what)
{
    if (result != CUDA_SUCCESS) {
        fprintf(stderr, "watched: %s failed with error %d\n", what, (int)result);
        exit(1);
    }
}
#define MUST(call) must(call, #call)

/* How many symbols a table has, by its hash table: buckets of the first symbol, and chains whose last
 * is odd (the GNU form, which every linker writes). */
static size_t symbols_of(const unsigned *hash)
{
    unsigned buckets = hash[0], first = hash[1], words = hash[2], last = 0;
    const unsigned *bucket = (const unsigned *)((const ElfW(Addr) *)(hash + 4) + words);
    const unsigned *chain = bucket + buckets;
    for (unsigned i = 0; i < buckets; i++) {
        last = bucket[i] > last ? bucket[i] : last;
    }
    if (last < first) {
        return first;
    }
    while (!(chain[last - first] & 1)) {
        last++;
    }
    return (size_t)last + 1;
}

static int look(struct dl_phdr_info *library, size_t size, void *data)
{
    struct wanted *wanted = data;
    const ElfW(Dyn) *entry = NULL;
    const ElfW(Sym) *symbols = NULL;
    const char *names = NULL;
    const unsigned *hash = NULL;
    (void)size;
    if (!strstr(library->dlpi_name, "libcuda.so.1")) {
        return 0;
    }
    for (int i = 0; i < library->dlpi_phnum; i++) {
        if (library->dlpi_phdr[i].p_type == PT_DYNAMIC) {
            entry = (const ElfW(Dyn) *)(library->dlpi_addr + library->dlpi_phdr[i].p_vaddr);
        }
    }
    for (; entry && entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_SYMTAB) {
            symbols = (const ElfW(Sym) *)entry->d_un.d_ptr;
        } else if (entry->d_tag == DT_STRTAB) {
            names = (const char *)entry->d_un.d_ptr;
        } else if (entry->d_tag == DT_GNU_HASH) {
            hash = (const unsigned *)entry->d_un.d_ptr;
        }
    }
    if (!symbols || !names || !hash) {
        return 0;
    }
    const ElfW(Sym) *end = symbols + symbols_of(hash);
    for (const ElfW(Sym) *s = symbols; s < end; s++) {
        if (s->st_value && strcmp(names + s->st_name, wanted->name) == 0) {
            wanted->found = (void *)(library->dlpi_addr + s->st_value);
        }
    }
    return wanted->found != NULL;
}

static void *beside(const char *name)
{
    struct wanted wanted = {name, NULL};
    dl_iterate_phdr(look, &wanted);
    if (!wanted.found) {
        fprintf(stderr, "watched: the driver has no %s\n", name);
        exit(1);
    }
    return wanted.found;
}

static void keep_busy(CUfunction spin)
{
    __typeof__(&cuLaunchKernel) launch = (__typeof__(launch))beside("cuLaunchKernel");
    __typeof__(&cuCtxSynchronize) await = (__typeof__(await))beside("cuCtxSynchronize");
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    unsigned long long us = SPIN_US;
    void *params[] = {&us};
    while (poll(&input, 1, 0) == 0) {
        MUST(launch(spin, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
        MUST(await());
    }
}

int main(int argc, char **argv)
{
    char line[32];
    CUcontext context;
    CUmodule module;
    CUfunction spin;
    CUdeviceptr own, more;
    if (argc != 4) {
        return 2;
    }
    size_t bytes = strtoull(argv[1], NULL, 10);
    setvbuf(stdin, NULL, _IONBF, 0); /* poll must see what was not read */
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    MUST(cuModuleLoad(&module, argv[3]));
    MUST(cuModuleGetFunction(&spin, module, "spin_us"));
    MUST(cuMemAlloc_v2(&own, bytes));
    MUST(cuMemsetD8_v2(own, 1, bytes));
    MUST(cuCtxSynchronize());
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin)) {
        if (strcmp(line, "work\n") == 0) {
            MUST(cuMemsetD8_v2(own, 2, bytes));
            MUST(cuCtxSynchronize());
            puts("worked");
            fflush(stdout);
        } else if (strcmp(line, "memory\n") == 0) {
            __typeof__(&cuMemAlloc_v2) take = (__typeof__(take))beside("cuMemAlloc_v2");
            MUST(take(&more, strtoull(argv[2], NULL, 10)));
        } else if (strcmp(line, "busy\n") == 0) {
            keep_busy(spin);
        } else if (strcmp(line, "end\n") == 0) {
            return 0;
        }
    }
    for (;;) {
        pause();
    }
}
