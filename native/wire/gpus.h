/* The messages about the GPUs that a program may see. The form of the comments is that of wire.h. */
#ifndef MOIETY_WIRE_GPUS_H
#define MOIETY_WIRE_GPUS_H

#include "wire/wire.h"

#define MW_GPU_LIST_BYTES 512u /* MW_GPUS_MAX UUIDs of MW_UUID_BYTES each */

/* Which GPUs is the workload of this connection a share of? */
struct mw_gpus_query {
    struct mw_header header;
    uint64_t reserved;
};

/* The GPUs that a workload is a share of, in the order of their PCI addresses. The client hides all others from
 * its program, which numbers these from 0. */
struct mw_gpus {
    struct mw_header header;
    uint32_t count; /* 0: every GPU; the client hides none */
    uint32_t mig;   /* bit i: the i-th is a MIG instance, whose text form begins with MIG- */
    uint8_t uuids[MW_GPU_LIST_BYTES]; /* one after the other */
};

#endif
