#include "shim/base/driver.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdatomic.h>
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
#define OURS_KERNEL(name) (void *)name,
#define OURS_KERNEL_EX(name) (void *)name,
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

/* A library of this process that has the driver's name. */
struct library {
    const char *path;
    uintptr_t begin, end;
};

struct driver {
    struct library library;
    bool answers; /* it says its version; a stub says only that it is one */
    void *entries[ENTRY_COUNT];
    struct driver_threads threads;
    struct pair pairs[ENTRY_COUNT]; /* sorted by theirs */
    size_t pair_count;
};

#define LIBRARIES_MAX 16

struct libraries {
    struct library of[LIBRARIES_MAX];
    size_t count;
};

/* The driver is at first the best that is loaded. A library that does not answer gives way to one that does. */
static struct driver drivers[2];
static struct driver *_Atomic driver; /* NULL: none is loaded yet */
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

/* Nothing is opened here: dl_iterate_phdr holds a lock of the loader. */
static int add_library(struct dl_phdr_info *info, size_t size, void *data)
{
    struct libraries *libraries = data;
    struct library *found = &libraries->of[libraries->count];
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
    return ++libraries->count == LIBRARIES_MAX;
}

/* What the library itself exports: dlsym looks in the libraries that it needs as well. */
static void *find_own(void *opened, const struct library *library, const char *name)
{
    void *found = real_dlsym()(opened, name);
    uintptr_t at = (uintptr_t)found;
    return at >= library->begin && at < library->end ? found : NULL;
}

/* Opens a library that exports what a driver does; NULL: it is none. `may_ask`: it may be called. */
static void *open_library(const struct library *library, bool may_ask, bool *answers)
{
    int version = 0;
    void *opened = real_dlopen()(library->path, RTLD_LAZY | RTLD_NOLOAD);
    CUresult (*ask)(int *) =
        opened && find_own(opened, library, "cuInit")
            ? (CUresult (*)(int *))find_own(opened, library, "cuDriverGetVersion")
            : NULL;
    if (ask) {
        *answers = may_ask && ask(&version) == CUDA_SUCCESS && version > 0;
        return opened;
    }
    if (opened) {
        dlclose(opened);
    }
    return NULL;
}

/* The first library that answers, else the first that exports what a driver does. It is kept open: the driver
 * never goes away. */
static void *choose_library(struct driver *found, bool may_ask)
{
    struct libraries libraries = {0};
    void *chosen = NULL;
    dl_iterate_phdr(add_library, &libraries);
    for (size_t i = 0; i < libraries.count && !found->answers; i++) {
        bool answers = false;
        void *opened = open_library(&libraries.of[i], may_ask, &answers);
        if (opened && (!chosen || answers)) {
            void *worse = chosen;
            chosen = opened;
            opened = worse;
            found->library = libraries.of[i];
            found->answers = answers;
        }
        if (opened) {
            dlclose(opened);
        }
    }
    return chosen;
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

static void look_up_entries(void *library, struct driver *found)
{
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
}

/* With load_lock. */
static void use_driver(const struct driver *found)
{
    struct driver *before = atomic_load(&driver);
    if (before && (before->answers || !found->answers)) {
        return;
    }
    struct driver *made = &drivers[before != NULL];
    *made = *found;
    memcpy(driver_entries, found->entries, sizeof(driver_entries));
    driver_threads = found->threads;
    atomic_store(&driver, made);
}

static bool load(bool may_ask)
{
    const struct driver *before = atomic_load_explicit(&driver, memory_order_acquire);
    if (before && before->answers) {
        return true;
    }
    /* Without our lock: the loader has one of its own, which a thread that comes here out of a
     * library's constructor holds already. */
    struct driver found = {0};
    void *library = real_dlsym() && real_dlopen() ? choose_library(&found, may_ask) : NULL;
    if (!library || (before && !found.answers)) {
        if (library) {
            dlclose(library); /* it is in use already, or no better */
        }
        return before != NULL;
    }
    look_up_entries(library, &found);
    LOCK_SCOPE(&load_lock);
    use_driver(&found);
    return true;
}

bool driver_load(void) { return load(true); }

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
    const struct driver *now = atomic_load_explicit(&driver, memory_order_acquire);
    size_t low = 0;
    size_t high = now ? now->pair_count : 0;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (now->pairs[middle].theirs == function) {
            return now->pairs[middle].ours;
        }
        if ((uintptr_t)now->pairs[middle].theirs < (uintptr_t)function) {
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
    const struct driver *now = atomic_load_explicit(&driver, memory_order_acquire);
    uintptr_t at = (uintptr_t)function;
    return now && at >= now->library.begin && at < now->library.end;
}

/* A program linked with the driver calls it without any lookup that we would see. The driver may not have run
 * its own constructors yet, so it is asked for its version later. */
__attribute__((constructor)) static void driver_begin(void) { load(false); }
