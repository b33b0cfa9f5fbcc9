#include "simgpu/exec/occupancy.h"

#include "simgpu/base/devices.h"
#include "simgpu/exec/module.h"

int sg_blocks_per_multiprocessor(unsigned gpu, int threads, size_t shared)
{
    const struct sg_profile *profile = sg_profile_of(gpu);
    uint64_t blocks = threads > 0 ? profile->threads_per_multiprocessor / (unsigned)threads : 0;
    if (shared && profile->shared_per_multiprocessor / shared < blocks) {
        blocks = profile->shared_per_multiprocessor / shared;
    }
    return (int)(blocks > profile->blocks_per_multiprocessor ? profile->blocks_per_multiprocessor
                                                             : blocks);
}

unsigned sg_cluster_most(unsigned gpu, CUfunction function)
{
    return sg_profile_of(gpu)->cc_major < 9 ? 1 : function->has_large_clusters ? 16 : 8;
}
