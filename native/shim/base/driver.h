/* The real driver: its library, its functions, and which function of ours stands for which. */
#ifndef MOIETY_SHIM_BASE_DRIVER_H
#define MOIETY_SHIM_BASE_DRIVER_H

#include <stdbool.h>
#include <stddef.h>

#include "cuda/cuda_calls.h"

#define CUDA_CALL(name, parameters, arguments) ENTRY_##name,
#define CUDA_CALL_DS(name, parameters, arguments) ENTRY_##name, ENTRY_##name##_ptds,
#define CUDA_CALL_SZ(name, parameters, arguments) ENTRY_##name, ENTRY_##name##_ptsz,
enum entry {
#include "cuda/cuda_calls.def"
#define PLAIN(class, name, symbol, since) ENTRY_##symbol,
#define PLAIN_DS(class, name, symbol, since, since_ptds) ENTRY_##symbol, ENTRY_##symbol##_ptds,
#define PLAIN_SZ(class, name, symbol, since, since_ptsz) ENTRY_##symbol, ENTRY_##symbol##_ptsz,
#include "cuda/plain_calls.def"
    ENTRY_COUNT
};

/* The driver's function, for calling it: DRIVER(cuMemCreate)(...). Before the driver is loaded
 * every one of them returns CUDA_ERROR_NOT_INITIALIZED, and one that the driver lacks
 * CUDA_ERROR_NOT_SUPPORTED. */
extern void *driver_entries[ENTRY_COUNT];
#define DRIVER(name) ((__typeof__(&name))driver_entries[ENTRY_##name])

/* What the shim needs of libpthread, looked up at run time: before glibc 2.34 it is a library
 * of its own, which every program that loads the driver has loaded as well. */
struct driver_threads {
    int (*create)(unsigned long *thread, const void *attributes, void *(*body)(void *), void *arg);
    int (*key_create)(unsigned *key, void (*destructor)(void *));
    int (*set_specific)(unsigned key, const void *value);
};
extern struct driver_threads driver_threads;

typedef void *dlsym_fn(void *handle, const char *name);
typedef void *dlvsym_fn(void *handle, const char *name, const char *version);
typedef void *dlopen_fn(const char *file, int mode);
/* libc's own lookups, which ours stand in front of. */
dlsym_fn *real_dlsym(void);
dlvsym_fn *real_dlvsym(void);
dlopen_fn *real_dlopen(void);

/* Finds the driver among the libraries of this process: one that exports cuInit and says its version. A stub, which
 * exports everything and says nothing, is used until there is one. False: neither is loaded. */
bool driver_load(void);
/* Whether the driver has everything that eviction needs; names the first that is missing. */
bool driver_is_complete(const char **missing);
/* Our function for a function of the driver; the same pointer when it is passed through, NULL
 * when the tables do not know it. */
void *driver_wrapper_of(void *function);
/* The same by entry, for an address that the driver does not export: `function` is called from
 * then on where the driver exports nothing for the entry. */
void *driver_wrapper_of_entry(enum entry entry, void *function);
/* Whether `function` is one of ours. */
bool driver_is_ours(const void *function);
/* Whether `function` is in the driver's library, known or not. */
bool driver_has(const void *function);

#endif
