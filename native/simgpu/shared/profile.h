/* What a simulated GPU is like. */
#ifndef SIMGPU_PROFILE_H
#define SIMGPU_PROFILE_H

#include <stdint.h>

#define SG_DEVICES_MAX 16
#define SG_PROHIBITED 2 /* compute modes */
#define SG_EXCLUSIVE 3

/* It has no pointers, because it lies in shared memory, and no padding, because machines are compared as
 * bytes. */
struct sg_profile {
    char model[32]; /* as in MOIETY_SIMGPU */
    char name[96];  /* as cuDeviceGetName says */
    uint64_t memory_bytes;
    uint64_t residue_bytes; /* what a process's first context takes */
    uint64_t module_bytes;  /* what each loaded module takes */
    uint64_t keep_bytes;    /* host memory that processes may keep after they freed device memory */
    uint64_t h2d_bytes_per_s; /* each direction of the link on its own */
    uint64_t d2h_bytes_per_s;
    uint64_t duplex_bytes_per_s; /* both directions together; 0: they do not slow each other down */
    uint64_t pageable_bytes_per_s;
    uint64_t p2p_bytes_per_s;
    uint64_t memory_bytes_per_s; /* inside the GPU */
    uint64_t register_bytes_per_s;
    uint64_t reserve_ns; /* the costs of single calls */
    uint64_t create_ns;
    uint64_t map_ns;
    uint64_t access_ns; /* for each chunk in the range */
    uint64_t unmap_ns;
    uint64_t release_ns;
    uint64_t alloc_ns;
    uint64_t free_ns;
    uint64_t launch_ns; /* GPU time that any kernel takes at least */
    uint64_t fault_ns;  /* managed memory: one fault, without the move */
    uint64_t slice_ns;  /* a process's turn on the compute units; 0: first come, first served */
    uint64_t switch_ns; /* what it costs to switch to another process */
    uint32_t multiprocessors;
    uint32_t copy_engines; /* with one, a copy in one direction waits for one in the other */
    uint32_t cc_major, cc_minor;
    uint32_t clock_mhz, memory_clock_mhz;
    uint32_t bus_width_bits;
    uint32_t l2_bytes;
    uint32_t shared_per_block_optin, shared_per_multiprocessor;
    uint32_t threads_per_multiprocessor, blocks_per_multiprocessor;
    uint32_t power_limit_w, idle_w;
    uint32_t pci_device_id; /* device << 16 | vendor, as NVML has it */
    uint32_t pcie_generation;
    uint32_t nvml_architecture;
    /* Settings of an administrator. */
    uint32_t compute_mode; /* as NVML and the driver count: 0 is the default */
    uint32_t mig, mps, no_persistence;
    uint32_t rdma;    /* 1: other devices can read and write its memory (GPUDirect) */
    uint32_t nvlink;  /* how many neighbours by number are linked with each other; 0: none */
    uint32_t nvlinks; /* the links of one GPU, which its peers divide */
    uint32_t
        charged; /* 1: simulated time stands still while the processor does what has a charge */
    uint32_t reserved;
    /* no padding: profiles are compared as bytes */
};

struct sg_machine {
    uint32_t count;
    uint32_t driver_version; /* as cuDriverGetVersion says: 13000 */
    struct sg_profile profile[SG_DEVICES_MAX];
};

#endif
