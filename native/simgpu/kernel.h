/* How to write kernels for the stand-in driver.
 *
 *   #include "simgpu/kernel.h"
 *
 *   SIMGPU_KERNEL(scale, sizeof(float *), sizeof(uint64_t), sizeof(float))
 *   {
 *       float *data = SIMGPU_PARAM(float *, 0);
 *       uint64_t count = SIMGPU_PARAM(uint64_t, 1);
 *       for (uint64_t i = 0; i < count; i++)
 *           data[i] *= SIMGPU_PARAM(float, 2);
 *   }
 *
 * Built as a shared object (cc -shared -fPIC), the file is a module image: cuModuleLoad loads it and
 * cuModuleGetFunction finds "scale". A body runs once for a launch, on the CPU, and loops over
 * launch->grid and launch->block itself where they matter. Device addresses are ordinary addresses.
 */
#ifndef SIMGPU_KERNEL_H
#define SIMGPU_KERNEL_H

#include <stdint.h>

#define SIMGPU_KERNEL_ABI 3u
#define SIMGPU_PARAMS_MAX 32u

struct simgpu_launch {
    uint32_t grid[3], block[3];
    uint32_t shared_bytes;
    void *shared; /* dynamic shared memory, the same for all blocks of the launch */
    /* Inside a graph: what its conditional nodes look at (CUgraphConditionalHandle). */
    void (*set_conditional)(uint64_t handle, unsigned value);
    /* At addresses of multicast objects, which nothing else may read or write: as multimem.st and
     * multimem.ld_reduce. */
    void (*multimem_store)(uint64_t *at, const uint64_t *words, uint64_t count);
    void (*multimem_sum)(uint64_t *sums, const uint64_t *at, uint64_t count);
    uint64_t memory_bytes_per_s; /* of the GPU's own memory */
};

struct simgpu_kernel {
    uint32_t abi;
    uint32_t params;
    void (*body)(const struct simgpu_launch *launch, void **params); /* NULL: takes time only */
    uint64_t (*time_ns)(const struct simgpu_launch *launch,
                        void **params); /* NULL: as long as the body */
    uint32_t size[SIMGPU_PARAMS_MAX];
    int (*poll)(const struct simgpu_launch *launch, void **params,
                uint64_t spun_ns); /* not NULL: it spins, and nothing else */
};

#define SIMGPU_PARAM(type, index) (*(type *)params[index])

#define SIMGPU_SIZES_(...) \
    .params = sizeof((uint32_t[]){0, ##__VA_ARGS__}) / sizeof(uint32_t) - 1, .size = {__VA_ARGS__}

/* SIMGPU_KERNEL(name, size of each parameter ...) { body } */
#define SIMGPU_KERNEL(name, ...)                                                               \
    static void name##_body(const struct simgpu_launch *launch, void **params);                \
    extern const struct simgpu_kernel simgpu_kernel_##name;                                    \
    __attribute__((visibility("default"))) const struct simgpu_kernel simgpu_kernel_##name = { \
        .abi = SIMGPU_KERNEL_ABI, .body = name##_body, SIMGPU_SIZES_(__VA_ARGS__)};            \
    static void name##_body(const struct simgpu_launch *launch __attribute__((unused)),        \
                            void **params __attribute__((unused)))

/* The same for a kernel that computes nothing: the block returns how many ns of GPU time it takes. */
#define SIMGPU_TIMED_KERNEL(name, ...)                                                         \
    static uint64_t name##_time(const struct simgpu_launch *launch, void **params);            \
    extern const struct simgpu_kernel simgpu_kernel_##name;                                    \
    __attribute__((visibility("default"))) const struct simgpu_kernel simgpu_kernel_##name = { \
        .abi = SIMGPU_KERNEL_ABI, .time_ns = name##_time, SIMGPU_SIZES_(__VA_ARGS__)};         \
    static uint64_t name##_time(const struct simgpu_launch *launch __attribute__((unused)),    \
                                void **params __attribute__((unused)))

/* SIMGPU_KERNEL for one that takes as long on the GPU as time(launch, params) says once the block has run, in ns. */
#define SIMGPU_KERNEL_TAKING(time, name, ...)                                           \
    static void name##_body(const struct simgpu_launch *launch, void **params);         \
    extern const struct simgpu_kernel simgpu_kernel_##name;                             \
    __attribute__((visibility("default")))                                              \
    const struct simgpu_kernel simgpu_kernel_##name = {.abi = SIMGPU_KERNEL_ABI,        \
                                                       .body = name##_body,             \
                                                       .time_ns = (time),               \
                                                       SIMGPU_SIZES_(__VA_ARGS__)};     \
    static void name##_body(const struct simgpu_launch *launch __attribute__((unused)), \
                            void **params __attribute__((unused)))

/* A kernel that spins, as those do that wait for another GPU or process: the block is run again and
 * again, takes the GPU's time in between, and returns whether it has ended. spun_ns: for how long it
 * has run; 0 the first time. */
#define SIMGPU_SPINNING_KERNEL(name, ...)                                                        \
    static int name##_poll(const struct simgpu_launch *launch, void **params, uint64_t spun_ns); \
    extern const struct simgpu_kernel simgpu_kernel_##name;                                      \
    __attribute__((visibility("default"))) const struct simgpu_kernel simgpu_kernel_##name = {   \
        .abi = SIMGPU_KERNEL_ABI, .poll = name##_poll, SIMGPU_SIZES_(__VA_ARGS__)};              \
    static int name##_poll(const struct simgpu_launch *launch __attribute__((unused)),           \
                           void **params __attribute__((unused)),                                \
                           uint64_t spun_ns __attribute__((unused)))

#endif
