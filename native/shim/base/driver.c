#include "shim/base/driver.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "shim/base/entrypoints.h"
#include "shim/base/lock.h"
#include "shim/base/real_libc.h"

static CUresult not_initialized(void) { return CUDA_ERROR_NOT_INITIALIZED; }
static CUresult not_supported(void) { return CUDA_ERROR_NOT_SUPPORTED; }

/* From the first moment on: constructors of other libraries may call the driver before ours ran. */
void *driver_entries[ENTRY_COUNT] = {[0 ... ENTRY_COUNT - 1] = (void *)not_initialized};
struct driver_threads driver_threads;

// NOLINTBEGIN(bugprone-suspicious-missing-comma) a name and its suffix are one string
static const char *const names[ENTRY_COUNT] = {
#define CUDA_CALL(name, parameters, arguments) #name,
#define CUDA_CALL_DS(name, parameters, arguments) #name, #name "_ptds",
#define CUDA_CALL_SZ(name, parameters, arguments) #name, #name "_ptsz",
#include "cuda/cuda_calls.def"
#define PLAIN(class, name, symbol, since) #symbol,
#define PLAIN_DS(class, name, symbol, since, since_ptds) #symbol, #symbol "_ptds",
#define PLAIN_SZ(class, name, symbol, since, since_ptsz) #symbol, #symbol "_ptsz",
#include "cuda/plain_calls.def"
};
// NOLINTEND(bugprone-suspicious-missing-comma)

/* Our functions, NULL where the driver's own is handed out. */
#define OURS_OWN(name) (void *)name,
#define OURS_GATED(name) (void *)name,
#define OURS_LAUNCH(name) (void *)name,
#define OURS_LAUNCH_EX(name) (void *)name,
#define OURS_GRAPH(name) (void *)name,
#define OURS_COPY(name) (void *)name,
#define OURS_DEFAULT(name) (void *)name,
#define OURS_AWAIT(name) (void *)name,
#define OURS_PIN(name) (void *)name,
#define OURS_GROWS(name) (void *)name,
#define OURS_MAKES(name) (void *)name,
#define OURS_STREAM(name) (void *)name,
#define OURS_SYNC(name) (void *)name,
#define OURS_QUERY(name) (void *)name,
#define OURS_PASS(name) NULL,
#define OURS__(class, name) OURS_##class(name)
#define OURS_(class, name) OURS__(class, name)
static void *const ours[ENTRY_COUNT] = {
#define CUDA_CALL(name, parameters, arguments) OURS_(CLASS_##name, name)
#define CUDA_CALL_DS(name, parameters, arguments) \
    OURS_(CLASS_##name, name) OURS_(CLASS_##name, name##_ptds)
#define CUDA_CALL_SZ(name, parameters, arguments) \
    OURS_(CLASS_##name, name) OURS_(CLASS_##name, name##_ptsz)
#include "cuda/cuda_calls.def"
#define PLAIN(class, name, symbol, since) OURS_##class(symbol)
#define PLAIN_DS(class, name, symbol, since, since_ptds) \
    OURS_##class(symbol) OURS_##class(symbol##_ptds)
#define PLAIN_SZ(class, name, symbol, since, since_ptsz) \
    OURS_##class(symbol) OURS_##class(symbol##_ptsz)
#include "cuda/plain_calls.def"
};

struct pair {
    void *theirs;
    void *ours;
};

struct driver {
    const char *path;
    uintptr_t begin, end;
    void *entries[ENTRY_COUNT];
    struct driver_threads threads;
    struct pair pairs[ENTRY_COUNT]; /* sorted by theirs */
    size_t pair_count;
};

static struct driver driver;
static bool loaded;
static struct lock load_lock = LOCK_INIT(LOCK_LOAD);

/* ---- libc ---- */

dlsym_fn *real_dlsym(void)
{
    static dlsym_fn *found;
    if (!found) {
        found = (dlsym_fn *)real_libc_find("dlsym");
    }
    return found;
}

dlvsym_fn *real_dlvsym(void)
{
    static dlvsym_fn *found;
    if (!found) {
        found = (dlvsym_fn *)real_libc_find("dlvsym");
    }
    return found;
}

dlopen_fn *real_dlopen(void)
{
    static dlopen_fn *found;
    if (!found) {
        found = (dlopen_fn *)real_libc_find("dlopen");
    }
    return found;
}

/* ---- the driver ---- */

static int find_driver(struct dl_phdr_info *info, size_t size, void *data)
{
    struct driver *found = data;
    const char *base = strrchr(info->dlpi_name, '/');
    base = base ? base + 1 : info->dlpi_name;
    (void)size;
    if (strncmp(base, "libcuda.so", 10) != 0) {
        return 0;
    }
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_LOAD) {
            uintptr_t begin = info->dlpi_addr + p->p_vaddr;
            if (!found->begin || begin < found->begin) {
                found->begin = begin;
            }
            if (begin + p->p_memsz > found->end) {
                found->end = begin + p->p_memsz;
            }
        }
    }
    found->path = info->dlpi_name;
    return 1;
}

static int by_theirs(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)((const struct pair *)a)->theirs;
    uintptr_t y = (uintptr_t)((const struct pair *)b)->theirs;
    return x < y ? -1 : x > y;
}

/* Of a program's own libpthread, or the one that only the driver brought along. */
static void *find_thread_call(void *library, const char *name)
{
    void *found = real_dlsym()(RTLD_DEFAULT, name);
    return found ? found : real_dlsym()(library, name);
}

static bool look_up_driver(struct driver *found)
{
    dl_iterate_phdr(find_driver, found);
    if (!found->path || !real_dlsym() || !real_dlopen()) {
        return false;
    }
    /* kept open: the driver never goes away */
    void *library = real_dlopen()(found->path, RTLD_LAZY | RTLD_NOLOAD);
    if (!library) {
        return false;
    }
    for (int i = 0; i < ENTRY_COUNT; i++) {
        void *theirs = real_dlsym()(library, names[i]);
        found->entries[i] = theirs ? theirs : (void *)not_supported;
        if (theirs) {
            found->pairs[found->pair_count++] = (struct pair){theirs, ours[i] ? ours[i] : theirs};
        }
    }
    qsort(found->pairs, found->pair_count, sizeof(found->pairs[0]), by_theirs);
    found->threads.create = find_thread_call(library, "pthread_create");
    found->threads.key_create = find_thread_call(library, "pthread_key_create");
    found->threads.set_specific = find_thread_call(library, "pthread_setspecific");
    return true;
}

bool driver_load(void)
{
    if (__atomic_load_n(&loaded, __ATOMIC_ACQUIRE)) {
        return true;
    }
    /* Without our lock: the loader has one of its own, which a thread that comes here out of a
     * library's constructor holds already. */
    struct driver found = {0};
    if (!look_up_driver(&found)) {
        return false;
    }
    LOCK_SCOPE(&load_lock);
    if (!loaded) {
        driver = found;
        memcpy(driver_entries, found.entries, sizeof(driver_entries));
        driver_threads = found.threads;
        __atomic_store_n(&loaded, true, __ATOMIC_RELEASE);
    }
    return true;
}

bool driver_is_complete(const char **missing)
{
    static const enum entry needed[] = {
        ENTRY_cuMemAddressReserve,
        ENTRY_cuMemAddressFree,
        ENTRY_cuMemCreate,
        ENTRY_cuMemRelease,
        ENTRY_cuMemMap,
        ENTRY_cuMemUnmap,
        ENTRY_cuMemSetAccess,
        ENTRY_cuMemcpyDtoHAsync_v2,
        ENTRY_cuMemcpyHtoDAsync_v2,
        ENTRY_cuCtxPushCurrent_v2,
        ENTRY_cuCtxPopCurrent_v2,
        ENTRY_cuCtxGetDevice,
        ENTRY_cuDeviceGetUuid,
        ENTRY_cuStreamSynchronize,
    };
    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
        if (driver_entries[needed[i]] == (void *)not_supported) {
            *missing = names[needed[i]];
            return false;
        }
    }
    return driver_threads.create && driver_threads.key_create && driver_threads.set_specific;
}

void *driver_wrapper_of(void *function)
{
    size_t low = 0;
    size_t high = driver.pair_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (driver.pairs[middle].theirs == function) {
            return driver.pairs[middle].ours;
        }
        if ((uintptr_t)driver.pairs[middle].theirs < (uintptr_t)function) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return NULL;
}

void *driver_wrapper_of_entry(enum entry entry, void *function)
{
    if (driver_entries[entry] == (void *)not_supported) {
        driver_entries[entry] = function;
    }
    return ours[entry] ? ours[entry] : function;
}

bool driver_is_ours(const void *function)
{
    for (int i = 0; i < ENTRY_COUNT; i++) {
        if (ours[i] && ours[i] == function) {
            return true;
        }
    }
    return false;
}

bool driver_has(const void *function)
{
    return loaded && (uintptr_t)function >= driver.begin && (uintptr_t)function < driver.end;
}

/* A program linked with the driver calls it without any lookup that we would see. */
__attribute__((constructor)) static void driver_begin(void) { driver_load(); }
