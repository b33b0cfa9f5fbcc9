/* What the compiler registers when a library is loaded: images, kernels, variables.
 *
 * Images are machine code for GPUs and are ignored. The address of the program's host function identifies a
 * kernel. PyTorch registers some ten thousand kernels at start.
 */
#include "cudart/registration.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cudart/driver.h"
#include "cudart/runtime.h"
#include "cudart/thread.h"

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct rt_function **table; /* by address; a power of two of places, half of them free */
static size_t places, used;

static size_t place_of(const void *host)
{
    uint64_t mixed = (uint64_t)(uintptr_t)host * 0x9e3779b97f4a7c15ull;
    size_t place = (size_t)(mixed >> 20) & (places - 1);
    while (table[place] && table[place]->host != host) {
        place = (place + 1) & (places - 1);
    }
    return place;
}

static void grow(void)
{
    struct rt_function **old = table;
    size_t count = places;
    places = places ? places * 2 : 4096;
    table = calloc(places, sizeof *table);
    if (!table) {
        abort();
    }
    for (size_t i = 0; i < count; i++) {
        if (old[i]) {
            table[place_of(old[i]->host)] = old[i];
        }
    }
    free(old);
}

struct rt_function *rt_function(const void *host)
{
    pthread_rwlock_rdlock(&lock);
    struct rt_function *found = places ? table[place_of(host)] : NULL;
    pthread_rwlock_unlock(&lock);
    return found;
}

struct rt_function *rt_function_add(const void *host, const char *name, CUkernel kernel)
{
    pthread_rwlock_wrlock(&lock);
    if (2 * used >= places) {
        grow();
    }
    size_t place = place_of(host);
    if (!table[place]) {
        table[place] = calloc(1, sizeof **table);
        used++;
    }
    struct rt_function *function = table[place];
    if (function) {
        *function = (struct rt_function){.host = host, .name = name, .kernel = kernel};
        /* PyTorch's own way to keep a GPU busy (torch.cuda._sleep): its argument is the time. */
        function->spins = name && strstr(name, "spin_kernel") != NULL;
    }
    pthread_rwlock_unlock(&lock);
    return function;
}

/* ---- images ---- */

RT_EXPORT void **__cudaRegisterFatBinary(void *image);
void **__cudaRegisterFatBinary(void *image)
{
    void **handle = malloc(sizeof *handle);
    if (handle) {
        *handle = image;
    }
    return handle;
}

RT_EXPORT void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaRegisterFatBinaryEnd(void **handle) { (void)handle; }

RT_EXPORT void __cudaUnregisterFatBinary(void **handle);
void __cudaUnregisterFatBinary(void **handle) { free(handle); }

RT_EXPORT char __cudaInitModule(void **handle);
char __cudaInitModule(void **handle)
{
    (void)handle;
    return 1;
}

RT_EXPORT void __cudaRegisterFunction(void **handle, const char *host, char *device,
                                      const char *name, int thread_limit, void *tid, void *bid,
                                      dim3 *block, dim3 *grid, int *warp);
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
                            int thread_limit, void *tid, void *bid, dim3 *block, dim3 *grid,
                            int *warp)
{
    (void)handle, (void)device, (void)thread_limit, (void)tid, (void)bid, (void)block, (void)grid,
        (void)warp;
    rt_function_add(host, name, NULL);
}

/* ---- variables ---- */

struct variable {
    struct variable *next;
    const void *host;
    size_t bytes;
    CUdeviceptr address[RT_DEVICES_MAX]; /* 0: not asked for yet */
};

static pthread_mutex_t variables_lock = PTHREAD_MUTEX_INITIALIZER;
static struct variable *variables;

RT_EXPORT void __cudaRegisterVar(void **handle, char *host, char *device, const char *name,
                                 int external, size_t bytes, int constant, int global);
void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external,
                       size_t bytes, int constant, int global)
{
    (void)handle, (void)device, (void)name, (void)external, (void)constant, (void)global;
    struct variable *variable = calloc(1, sizeof *variable);
    if (variable) {
        pthread_mutex_lock(&variables_lock);
        *variable = (struct variable){.next = variables, .host = host, .bytes = bytes};
        variables = variable;
        pthread_mutex_unlock(&variables_lock);
    }
}

RT_EXPORT void __cudaRegisterManagedVar(void **handle, void **host, char *device, const char *name,
                                        int external, size_t bytes, int constant, int global);
void __cudaRegisterManagedVar(void **handle, void **host, char *device, const char *name,
                              int external, size_t bytes, int constant, int global)
{
    __cudaRegisterVar(handle, (char *)host, device, name, external, bytes, constant, global);
}

cudaError_t rt_symbol(const void *host, CUdeviceptr *address, size_t *bytes)
{
    int device = 0;
    cudaError_t result = rt_context();
    result = result ? result : rt_device(&device);
    if (result) {
        return result;
    }
    pthread_mutex_lock(&variables_lock);
    struct variable *variable = variables;
    while (variable && variable->host != host) {
        variable = variable->next;
    }
    result = variable ? cudaSuccess : cudaErrorInvalidSymbol;
    if (variable && !variable->address[device] && variable->bytes) {
        result = (cudaError_t)rt_driver.cuMemAlloc(&variable->address[device], variable->bytes);
    }
    if (!result) {
        *address = variable->address[device];
        *bytes = variable->bytes;
    }
    pthread_mutex_unlock(&variables_lock);
    return result;
}

void rt_symbols_reset(int device)
{
    pthread_mutex_lock(&variables_lock);
    for (struct variable *variable = variables; variable; variable = variable->next) {
        variable->address[device] = 0;
    }
    pthread_mutex_unlock(&variables_lock);
}

RT_CALL(cudaGetSymbolAddress, void **out, const void *symbol)
{
    CUdeviceptr address = 0;
    size_t bytes;
    RT_TRY(rt_symbol(symbol, &address, &bytes));
    *out = (void *)(uintptr_t)address;
    return cudaSuccess;
}

RT_CALL(cudaGetSymbolSize, size_t *bytes, const void *symbol)
{
    CUdeviceptr address;
    RT_TRY(rt_symbol(symbol, &address, bytes));
    return cudaSuccess;
}
