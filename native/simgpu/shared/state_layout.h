/* The layout of the file of shared memory that all processes with the same GPUs map.
 *
 * A process may be killed at any instruction. So nothing here is a running total: the use of a device is
 * the sum of what the living processes hold.
 */
#ifndef SIMGPU_STATE_LAYOUT_H
#define SIMGPU_STATE_LAYOUT_H

#include <pthread.h>
#include <stdint.h>

#include "simgpu/shared/fault.h"
#include "simgpu/shared/profile.h"
#include "simgpu/shared/work_counters.h"

#define SG_PROCESSES_MAX 256
#define SG_EXPORTS_MAX 4096
#define SG_GRANULES_MAX 131072
#define SG_GRANULE_BYTES (2ull << 20)
#define SG_BUCKETS 40
#define SG_BUCKET_NS (50 * 1000000ull)

enum sg_role {
    SG_DRIVER = 1,  /* a program with libcuda */
    SG_WATCHER = 2, /* NVML: sees the GPUs, uses nothing */
};

/* The last two seconds of work, in slots that are reused round and round. */
struct sg_busy {
    struct {
        uint64_t number; /* time / SG_BUCKET_NS */
        uint64_t ns;
    } bucket[SG_BUCKETS];
    uint64_t total_ns;
};

struct sg_process {
    uint32_t pid; /* 0: free slot */
    uint32_t role;
    uint64_t start_time; /* of /proc/PID/stat, so that a reused pid is not taken for this one */
    uint32_t evicted; /* granules that other processes evicted and this one has not handled yet */
    uint32_t reserved;
    uint64_t namespace; /* the inode of the pid namespace of `pid` */
    struct simgpu_counters counters;
    struct sg_device_usage {
        uint64_t context_bytes;
        uint64_t allocated_bytes;
        uint64_t managed_bytes; /* managed memory that is on the device now */
        uint64_t kept_bytes;    /* host memory that is free and kept for the next allocation */
        struct sg_busy busy;
    } on[SG_DEVICES_MAX];
};

/* Memory that several processes hold. The process that made it may end first. */
struct sg_export {
    uint64_t inode, offset; /* of its bytes in the exporter's file: both sides know them */
    uint64_t bytes;         /* 0: free entry */
    uint32_t serial;        /* a later export at the same place has another serial */
    uint32_t unused;
    uint32_t device, reserved;
    uint64_t holders[SG_PROCESSES_MAX / 64];
};

/* A piece of managed memory on a device. The device's list begins with the least recently moved in. */
struct sg_granule {
    uint32_t next, previous; /* 0: none (entry 0 is the list's head) */
    uint32_t process;        /* slot of the owner + 1; 0: free entry */
    uint32_t evicted; /* another process evicted it, and the owner has not handled that yet */
    uint64_t address; /* in the owner */
};

/* Whose turn it is on the compute units (time_slice.c). A slot is a process's index in the table. */
struct sg_turns {
    uint32_t owner; /* the slot that has the turn */
    uint32_t last;  /* the slot that booked last, + 1; 0: none did */
    uint32_t begun; /* the owner has booked in this turn */
    uint32_t unused;
    uint64_t slice_end_ns;                   /* of the owner, once it has booked */
    uint64_t seen_ns;                        /* when the owner got the turn or booked last */
    uint64_t busy[SG_PROCESSES_MAX / 64];    /* slots with work for the compute units */
    uint64_t waiting[SG_PROCESSES_MAX / 64]; /* slots that wait for a turn */
    uint64_t
        credit_ns[SG_PROCESSES_MAX]; /* what a slot was passed over while the host delayed it */
    uint64_t switches;               /* so far */
    uint32_t call[SG_PROCESSES_MAX]; /* futexes: a slot got the turn */
};

struct sg_device {
    uint8_t uuid[16];
    uint64_t compute_until_ns; /* taken until then */
    uint64_t link_until_ns[2]; /* 0: to the device, 1: from it */
    uint64_t duplex_until_ns;  /* what both directions have in common */
    struct sg_busy busy, link_busy[2];
    struct sg_turns turns;
    struct sg_granule granules[SG_GRANULES_MAX];
};

/* The clock of a machine with `charged` (clock_hold.c). */
struct sg_clock {
    /* One word, so that it is read at once. Even: the clock is half of it behind CLOCK_MONOTONIC. Odd: it stands at half
     * of it. */
    uint64_t word;
    uint64_t holders[SG_PROCESSES_MAX / 64]; /* slots for whose computing it stands still */
};

struct sg_state {
    uint64_t magic;
    uint64_t bytes;
    struct sg_clock clock;
    /* Entries above these were never used; they keep sums over the tables short. */
    uint32_t processes_high, exports_high, granules_high[SG_DEVICES_MAX];
    pthread_mutex_t lock; /* guards everything but the time that is booked */
    pthread_mutex_t time_lock[SG_DEVICES_MAX];
    pthread_mutex_t clock_lock;
    struct sg_machine machine;
    struct sg_process process[SG_PROCESSES_MAX];
    struct sg_faults faults;
    uint32_t exports_made, unused;
    struct sg_export export[SG_EXPORTS_MAX];
    struct sg_device device[SG_DEVICES_MAX];
};

extern struct sg_state *sg_state;     /* NULL until opened */
extern struct sg_process *sg_process; /* the calling process's slot */

#endif
