/* Small allocations that share a granule. */
#include "shim/mem/slab.h"

#include "fake_driver.h"

#include "check.h"

#define LIVE_MAX 512

static struct device device = {.chunk_bytes = 32ull << 20};
static struct device other_device = {.chunk_bytes = 32ull << 20};

static struct extent *new_slab(CUcontext context)
{
    struct extent *made = NULL;
    CHECK(extent_make(&made, &device, GRANULE, CUT_PLAIN) == CUDA_SUCCESS);
    made->context = context;
    CHECK(slab_adopt(made) == 0);
    CHECK(made->use == EXTENT_OF_SLAB);
    return made;
}

static void end(struct extent *slab)
{
    slab_drop(slab);
    CHECK(slab->use == EXTENT_OF_ONE);
    extent_destroy(slab);
}

static void test_only_its_own_context_uses_it(void)
{
    CUcontext mine = (CUcontext)(uintptr_t)1;
    CUcontext theirs = (CUcontext)(uintptr_t)2;
    CUdeviceptr at = 0;
    struct extent *slab = new_slab(mine);
    CHECK(!slab_take(&device, theirs, false, 100, &at));
    CHECK(!slab_take(&other_device, mine, false, 100, &at));
    CHECK(!slab_take(&device, mine, true, 100, &at));
    CHECK(slab_take(&device, mine, false, 100, &at));
    end(slab);
    CHECK(!slab_take(&device, mine, false, 100, &at));
}

static void test_a_range_is_what_was_asked_for(void)
{
    CUdeviceptr at = 0;
    CUdeviceptr base = 0;
    size_t bytes = 0;
    uint64_t number = 0;
    bool empty = false;
    struct extent *slab = new_slab(NULL);
    CHECK(slab_take(&device, NULL, false, 700, &at));
    CHECK(at % 512 == 0);
    CHECK(slab_range(slab, at + 699, &base, &bytes, &number) && base == at && bytes == 700);
    CHECK(!slab_range(slab, at + 700, &base, &bytes, &number));
    CHECK(!slab_range(slab, at + 1024, &base, &bytes, &number));
    CHECK(!slab_give_back(slab, at + 512, &empty));
    CHECK(slab_give_back(slab, at, &empty) && empty);
    CHECK(!slab_give_back(slab, at, &empty));
    end(slab);
}

static void test_all_of_it_can_be_taken(void)
{
    CUdeviceptr at = 0;
    unsigned taken = 0;
    struct extent *slab = new_slab(NULL);
    while (slab_take(&device, NULL, false, 512, &at)) {
        taken++;
    }
    CHECK(taken == GRANULE / 512);
    end(slab);
}

static void test_nothing_is_made_in_damaged_memory(void)
{
    CUdeviceptr at = 0;
    struct extent *slab = new_slab(NULL);
    CHECK(slab_take(&device, NULL, false, 512, &at));
    slab->decommitted_bytes = GRANULE; /* as swap/damage.c leaves it */
    CHECK(!slab_take(&device, NULL, false, 512, &at));
    end(slab);
}

/* Whatever is taken and given back, no two allocations overlap, and in the end nothing is left. */
static void test_any_order(void)
{
    static uint8_t owned[GRANULE / 512];
    CUdeviceptr live[LIVE_MAX] = {0};
    uint32_t sizes[LIVE_MAX] = {0};
    bool empty = false;
    bool overlaps = false;
    unsigned count = 0;
    struct extent *slab = new_slab(NULL);
    for (unsigned round = 0; round < 50000; round++) {
        uint32_t i = check_random(LIVE_MAX);
        bool gives = live[i] != 0;
        if (gives) {
            CHECK(slab_give_back(slab, live[i], &empty));
            count--;
        } else {
            sizes[i] = 1 + check_random(20000);
            if (!slab_take(&device, NULL, false, sizes[i], &live[i])) {
                continue;
            }
            count++;
        }
        uint64_t first = (live[i] - slab->base) / 512;
        for (uint64_t unit = first; unit < first + (sizes[i] + 511) / 512; unit++) {
            bool is_outside = unit >= GRANULE / 512;
            overlaps |= is_outside || owned[unit] != gives;
            if (!is_outside) {
                owned[unit] = !gives;
            }
        }
        live[i] = gives ? 0 : live[i];
        CHECK(!gives || empty == (count == 0));
    }
    CHECK(!overlaps);
    end(slab);
}

int main(void)
{
    fake_driver();
    test_only_its_own_context_uses_it();
    test_a_range_is_what_was_asked_for();
    test_all_of_it_can_be_taken();
    test_nothing_is_made_in_damaged_memory();
    test_any_order();
    return check_end();
}
