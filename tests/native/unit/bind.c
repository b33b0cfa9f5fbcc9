/* Memory of several chunks that is bound to multicast objects and endpoints. */
#include "shim/mem/vmm_bind.h"

#include "fake_driver.h"
#include "shim/mem/extent.h"

#include "check.h"

#define TEAM 77u
#define MOST 16

static struct device device = {.chunk_bytes = 32ull << 20, .ordinal = 3};
static struct extent *memory;

static struct call {
    bool unbinds;
    CUdevice dev;
    uint64_t offset, chunk, memory_offset, bytes;
} calls[MOST];
static unsigned call_count, fails_at;

static void note(struct call call)
{
    CHECK(call_count < MOST);
    calls[call_count++ % MOST] = call;
}

static CUresult fake_bind_v2(CUmemGenericAllocationHandle team, CUdevice dev, size_t offset,
                             CUmemGenericAllocationHandle chunk, size_t memory_offset, size_t bytes,
                             unsigned long long flags)
{
    CHECK(team == TEAM && flags == 5);
    note((struct call){false, dev, offset, chunk, memory_offset, bytes});
    return call_count == fails_at ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static CUresult fake_bind(CUmemGenericAllocationHandle team, size_t offset,
                          CUmemGenericAllocationHandle chunk, size_t memory_offset, size_t bytes,
                          unsigned long long flags)
{
    return fake_bind_v2(team, -1, offset, chunk, memory_offset, bytes, flags);
}

static CUresult fake_bind_endpoint(CUlogicalEndpointId endpoint, CUdevice dev, cuuint64_t offset,
                                   CUmemGenericAllocationHandle chunk, cuuint64_t memory_offset,
                                   cuuint64_t bytes, unsigned long long flags)
{
    return fake_bind_v2(endpoint, dev, offset, chunk, memory_offset, bytes, flags);
}

static CUresult fake_unbind(CUmemGenericAllocationHandle team, CUdevice dev, size_t offset,
                            size_t bytes)
{
    CHECK(team == TEAM);
    note((struct call){true, dev, offset, 0, 0, bytes});
    return CUDA_SUCCESS;
}

static CUresult fake_unbind_endpoint(CUlogicalEndpointId endpoint, CUdevice dev, cuuint64_t offset,
                                     cuuint64_t bytes)
{
    return fake_unbind(endpoint, dev, offset, bytes);
}

/* Chunks of one granule each, whose handles are 100, 101, ... */
static void make_memory(uint32_t chunks)
{
    struct extent *made = NULL;
    CHECK(extent_make(&made, &device, chunks * GRANULE, CUT_FINE) == CUDA_SUCCESS);
    CHECK(made->chunk_count == 1 || made->chunks[0].bytes % GRANULE == 0);
    for (uint32_t i = 0; i < made->chunk_count; i++) {
        made->chunks[i].handle = 100 + i;
        chunk_transition(&made->chunks[i], CHUNK_RESIDENT);
    }
    memory = made;
    call_count = fails_at = 0;
}

static struct vmm_binding binding(enum vmm_bind_call call, uint64_t memory_offset, uint64_t bytes)
{
    return (struct vmm_binding){.call = call,
                                .device = 3,
                                .object = TEAM,
                                .offset = 64 * GRANULE,
                                .memory_offset = memory_offset,
                                .bytes = bytes,
                                .flags = 5};
}

static bool is_call(unsigned at, bool unbinds, uint64_t offset, uint64_t chunk,
                    uint64_t memory_offset, uint64_t bytes)
{
    const struct call *c = &calls[at];
    return at < call_count && c->unbinds == unbinds && c->offset == 64 * GRANULE + offset &&
           c->chunk == chunk && c->memory_offset == memory_offset && c->bytes == bytes;
}

static void test_one_chunk_is_bound_as_asked(void)
{
    make_memory(1);
    struct vmm_binding asked = binding(VMM_BIND_MULTICAST_V2, 4096, 8192);
    CUresult result = CUDA_SUCCESS;
    CHECK(vmm_bind(memory, &asked) == CUDA_SUCCESS && call_count == 1);
    CHECK(is_call(0, false, 0, 100, 4096, 8192) && calls[0].dev == 3);
    CHECK(!vmm_unbind(false, TEAM, 3, 64 * GRANULE, &result)); /* the driver's, as it was bound */
}

static void test_several_chunks_are_bound_and_unbound_one_by_one(enum vmm_bind_call call)
{
    bool endpoint = call == VMM_BIND_ENDPOINT;
    make_memory(4);
    uint64_t chunk = memory->chunks[0].bytes;
    CHECK(memory->chunk_count >= 2);
    struct vmm_binding asked = binding(call, chunk - 4096, 4096 + chunk);
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    CHECK(vmm_bind(memory, &asked) == CUDA_SUCCESS && call_count == 2);
    CHECK(is_call(0, false, 0, 100, chunk - 4096, 4096));
    CHECK(is_call(1, false, 4096, 101, 0, chunk));
    CHECK(!vmm_unbind(endpoint, TEAM, 2, 64 * GRANULE, &result));
    CHECK(!vmm_unbind(!endpoint, TEAM, 3, 64 * GRANULE, &result));
    CHECK(vmm_unbind(endpoint, TEAM, 3, 64 * GRANULE, &result) && result == CUDA_SUCCESS);
    CHECK(call_count == 4 && calls[2].dev == 3);
    CHECK(is_call(2, true, 0, 0, 0, 4096) && is_call(3, true, 4096, 0, 0, chunk));
    CHECK(!vmm_unbind(endpoint, TEAM, 3, 64 * GRANULE, &result));
}

static void test_after_an_error_nothing_is_bound(void)
{
    make_memory(4);
    uint64_t chunk = memory->chunks[0].bytes;
    struct vmm_binding asked = binding(VMM_BIND_MULTICAST_V2, 0, 2 * chunk);
    CUresult result = CUDA_SUCCESS;
    fails_at = 2;
    CHECK(vmm_bind(memory, &asked) == CUDA_ERROR_INVALID_VALUE);
    CHECK(call_count == 3 && is_call(2, true, 0, 0, 0, chunk));
    CHECK(!vmm_unbind(false, TEAM, 3, 64 * GRANULE, &result));
}

static void test_no_more_than_the_memory_is_bound(void)
{
    make_memory(4);
    uint64_t span = memory->span;
    struct vmm_binding wrong[] = {
        binding(VMM_BIND_MULTICAST_V2, 0, span + 1), binding(VMM_BIND_MULTICAST_V2, span, 1),
        binding(VMM_BIND_MULTICAST_V2, GRANULE, UINT64_MAX), binding(VMM_BIND_MULTICAST_V2, 0, 0)};
    for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        CHECK(vmm_bind(memory, &wrong[i]) == CUDA_ERROR_INVALID_VALUE && call_count == 0);
    }
}

int main(void)
{
    fake_driver();
    driver_entries[ENTRY_cuMulticastBindMem] = (void *)fake_bind;
    driver_entries[ENTRY_cuMulticastBindMem_v2] = (void *)fake_bind_v2;
    driver_entries[ENTRY_cuLogicalEndpointBindMem] = (void *)fake_bind_endpoint;
    driver_entries[ENTRY_cuMulticastUnbind] = (void *)fake_unbind;
    driver_entries[ENTRY_cuLogicalEndpointUnbind] = (void *)fake_unbind_endpoint;
    test_one_chunk_is_bound_as_asked();
    test_several_chunks_are_bound_and_unbound_one_by_one(VMM_BIND_MULTICAST);
    test_several_chunks_are_bound_and_unbound_one_by_one(VMM_BIND_MULTICAST_V2);
    test_several_chunks_are_bound_and_unbound_one_by_one(VMM_BIND_ENDPOINT);
    test_after_an_error_nothing_is_bound();
    test_no_more_than_the_memory_is_bound();
    return check_end();
}
