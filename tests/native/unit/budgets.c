/* How much may be allocated without asking (credit), and brought back without asking (restore budget). */
#include <string.h>

#include "fake_driver.h"
#include "shim/agent/client_report.h"
#include "shim/mem/accounting.h"
#include "shim/mem/extent.h"
#include "shim/mem/extent_table.h"
#include "shim/mem/free_cache.h"
#include "shim/pool/decommit.h"
#include "shim/swap/damage.h"
#include "shim/swap/restore.h"
#include "shim/swap/transfer.h"

#include "check.h"

#define MIB (1ull << 20)

bool client_is_pinned(void) { return false; }
uint64_t stream_fence_free(struct stream_fence *fence) { return ++fence->freed; }

static struct device device = {.chunk_bytes = 4 * MIB, .limit_bytes = 64 * MIB};

static struct extent *resident(uint64_t bytes)
{
    struct extent *made = NULL;
    bool whole = false;
    CHECK(extent_make(&made, &device, bytes, CUT_PLAIN) == CUDA_SUCCESS);
    CHECK(extent_map(made, UINT32_MAX, &whole) == CUDA_SUCCESS && whole);
    return made;
}

static void test_credit_is_counted(void)
{
    device.credit_bytes = 16 * MIB;
    device.credit_most_bytes = 32 * MIB;
    CHECK(credit_take(&device, 10 * MIB));
    CHECK(device.credit_bytes == 6 * MIB && device.allocated_bytes == 10 * MIB);
    CHECK(!credit_take(&device, 7 * MIB));
    CHECK(device.credit_bytes == 6 * MIB && device.allocated_bytes == 10 * MIB);
    CHECK(credit_put(&device, 10 * MIB));
    CHECK(device.credit_bytes == 16 * MIB && device.allocated_bytes == 0);
    CHECK(!credit_put(&device, 17 * MIB)); /* more than may be unused */
    CHECK(device.credit_bytes == 16 * MIB);
}

static void test_credit_ends_at_the_limit(void)
{
    device.credit_bytes = 16 * MIB;
    device.allocated_bytes = 60 * MIB;
    CHECK(!credit_take(&device, 5 * MIB));
    CHECK(credit_take(&device, 4 * MIB));
    CHECK(device.allocated_bytes == 64 * MIB);
    device.allocated_bytes = 0;
}

static void test_cached_memory_is_part_of_the_credit(void)
{
    struct extent *freed = resident(8 * MIB);
    bool whole = false;
    device.credit_bytes = 4 * MIB;
    device.allocated_bytes = 8 * MIB;
    CHECK(device.resident_bytes == 8 * MIB);
    CHECK(credit_keep(freed));
    CHECK(device.credit_bytes == 12 * MIB && device.allocated_bytes == 0);
    CHECK(device.resident_bytes == 0); /* it counts as the agent's until it is used again */
    CHECK(credit_reuse(&device, 6 * MIB, 2) == NULL);
    CHECK(credit_reuse(&device, 8 * MIB, freed->chunk_count) == freed);
    CHECK(device.credit_bytes == 4 * MIB && device.allocated_bytes == 8 * MIB);
    CHECK(extent_map(freed, UINT32_MAX, &whole) == CUDA_SUCCESS && whole);
    CHECK(device.resident_bytes == 8 * MIB);
    CHECK(credit_keep(freed));
    unsigned before = fake_released;
    CHECK(credit_take(&device, 8 * MIB)); /* which needs the memory of what is cached */
    CHECK(fake_released > before);
    CHECK(credit_reuse(&device, 8 * MIB, 2) == NULL);
    CHECK(device.credit_bytes == 4 * MIB);
    device.allocated_bytes = 0;
}

static void test_pinned_memory_is_charged_as_such(void)
{
    struct extent *extent = resident(4 * MIB);
    extent->pins = 2;
    CHECK(extent_charge_flags(extent) == MW_ALLOC_PINNED);
    CHECK(extent_destroy(extent) == 4 * MIB && device.resident_bytes == 0);
}

static void evict(struct transfer *transfer, struct extent *extent)
{
    static char host[4 * 1024];
    for (uint32_t i = 0; i < extent->chunk_count; i++) {
        chunk_transition(&extent->chunks[i], CHUNK_MOVING);
        transfer_unmap(transfer, extent, i);
        extent->chunks[i].host = host;
    }
}

static void test_no_more_comes_back_than_the_budget(void)
{
    struct transfer transfer = {.device = &device, .restoring = true};
    struct extent *extent = resident(16 * MIB);
    uint64_t chunk = extent->chunks[0].bytes;
    CHECK(extent_table_insert(extent) == 0);
    CHECK(extent->chunk_count * chunk == 16 * MIB);
    evict(&transfer, extent);
    CHECK(device.resident_bytes == 0);
    device.restore_budget = 2 * chunk + chunk / 2;
    CHECK(!restore_begin(&transfer)); /* something is missing */
    while (transfer.in.count) {
        restore_end(&transfer, CUDA_SUCCESS);
        CHECK(!restore_begin(&transfer));
    }
    CHECK(device.resident_bytes == 2 * chunk);
    CHECK(device.restore_budget == chunk / 2);

    fake_memory(false); /* others' memory is still being freed */
    device.restore_budget += 16 * MIB;
    CHECK(!restore_begin(&transfer));
    CHECK(device.resident_bytes == 2 * chunk && device.restore_budget == 16 * MIB + chunk / 2);
    fake_memory(true);
    transfer.retry_ns = 0;
    CHECK(!restore_begin(&transfer) && transfer.in.count);
    restore_end(&transfer,
                CUDA_ERROR_UNKNOWN); /* the copy failed: it is evicted, and counts again */
    CHECK(device.resident_bytes + device.restore_budget == 16 * MIB + 2 * chunk + chunk / 2);
    transfer.retry_ns = 0;
    for (unsigned i = 0; i < 64 && (transfer.in.count || !restore_begin(&transfer)); i++) {
        while (transfer.in.count) {
            restore_end(&transfer, CUDA_SUCCESS);
        }
    }
    CHECK(device.resident_bytes == 16 * MIB);
    CHECK(device.restore_budget == 2 * chunk + chunk / 2);
    for (uint32_t i = 0; i < extent->chunk_count; i++) {
        CHECK(extent->chunks[i].state == CHUNK_RESIDENT && !extent->chunks[i].host);
    }
}

static void test_damaged_memory_is_given_back_once(void)
{
    struct transfer transfer = {.device = &device};
    struct extent *extent = resident(16 * MIB);
    struct decommits unused = {.extents = {extent}, .count = 1};
    uint64_t chunk = extent->chunks[0].bytes;
    device.allocated_bytes = 16 * MIB;
    extent_hold_moves(extent);
    lock_take(&extent_lock);
    for (uint32_t i = 0; i < 2; i++) {
        chunk_transition(&extent->chunks[i], CHUNK_MOVING);
        extent->chunks[i].decommit_wanted = i == 0; /* its pool gave it back while it came, */
        damage_end(&transfer, extent, i);
        extent->chunks[i].decommit_wanted = true; /* or after that */
    }
    lock_drop(&extent_lock);
    decommit_finish(&unused);
    CHECK(extent->decommitted_bytes == 2 * chunk);
    CHECK(device.allocated_bytes == 16 * MIB - 2 * chunk);
    device.allocated_bytes = 0;
}

int main(void)
{
    fake_driver();
    test_credit_is_counted();
    test_credit_ends_at_the_limit();
    test_cached_memory_is_part_of_the_credit();
    test_pinned_memory_is_charged_as_such();
    test_no_more_comes_back_than_the_budget();
    test_damaged_memory_is_given_back_once();
    return check_end();
}
