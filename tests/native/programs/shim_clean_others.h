/* What shim_clean.c does with contexts, with memory that others may write, and from another GPU. */
#ifndef SHIM_CLEAN_OTHERS_H
#define SHIM_CLEAN_OTHERS_H

static void break_contexts(void)
{
    int (*fault)(unsigned, unsigned, unsigned) = (__typeof__(fault))of_driver("simgpu_fault");
    EXPECT(fault(0, 31, (unsigned)getpid()) == 0);
    printf("done\n");
}

static void own_context(void)
{
    CUcontext own;
    OK(cuCtxCreate_v2(&own, 0, 0));
    first_of_own = count;
    printf("done\n");
}

static void lose_context(void)
{
    OK(cuDevicePrimaryCtxReset_v2(0));
    memset(piece, 0, first_of_own * sizeof(piece[0]));
    printf("done\n");
}

/* Mapped memory that was bound to a multicast object, so that others may write it, and is bound no more. */
static void bind(unsigned long long mib)
{
    CUmemGenericAllocationHandle team, memory;
    CUmulticastObjectProp team_prop = {.numDevices = 1, .size = mib * MIB};
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr at;
    OK(cuMemCreate(&memory, mib * MIB, &prop, 0));
    OK(cuMemAddressReserve(&at, mib * MIB, 0, 0, 0));
    OK(cuMemMap(at, mib * MIB, 0, memory, 0));
    OK(cuMemSetAccess(at, mib * MIB, &access, 1));
    OK(cuMulticastCreate(&team, &team_prop));
    OK(cuMulticastAddDevice(team, 0));
    OK(cuMulticastBindMem(team, 0, memory, 0, mib * MIB, 0));
    OK(cuMulticastUnbind(team, 0, 0, mib * MIB));
    fill(at, mib);
    printf("done\n");
}

static void write_from_peer(unsigned which, unsigned long long at)
{
    static CUcontext peer;
    CUcontext own;
    unsigned char value = (unsigned char)next_random();
    OK(cuCtxGetCurrent(&own));
    if (!peer) {
        OK(cuDevicePrimaryCtxRetain(&peer, 1));
        OK(cuCtxSetCurrent(peer));
        OK(cuCtxEnablePeerAccess(own, 0));
    }
    OK(cuCtxSetCurrent(peer));
    OK(cuMemsetD8_v2(piece[which] + at, value, 8));
    OK(cuCtxSynchronize());
    OK(cuCtxSetCurrent(own));
    memset(right[which] + at, value, 8);
    printf("done\n");
}

#endif
