/* Questions about addresses: which of them wait for a lease. */
#include <string.h>

#include "fake_driver.h"
#include "shim/agent/client_report.h"
#include "shim/gate/gate.h"
#include "shim/mem/address_info.h"
#include "shim/mem/extent.h"
#include "shim/mem/pin.h"

#include "check.h"

enum { NOTHING, OURS, MAPPED, MANAGED };

static const uint32_t closed = 0;
struct gate gate = {.word = &closed};
__thread struct mw_slot *gate_slot __attribute__((tls_model("initial-exec")));
struct lock extent_lock = LOCK_INIT(LOCK_EXTENTS);
static unsigned waited, asked, pinned, unpinned;
static int what = NOTHING;

struct mw_slot *gate_enter_slow(void)
{
    waited++;
    return NULL;
}

void gate_wait(struct mw_slot *slot) { CHECK(!slot); }

void gate_overflow_leave(struct mw_slot *slot) { CHECK(!slot); }

bool client_is_active(void) { return true; }

bool address_info_get(CUdeviceptr pointer, struct address_info *info)
{
    *info = (struct address_info){.base = pointer,
                                  .bytes = 64,
                                  .number = 5,
                                  .mapping = what == MAPPED,
                                  .managed = what == MANAGED};
    return what != NOTHING;
}

CUdeviceptr address_info_as_seen(CUdeviceptr pointer) { return pointer; }

CUresult pin_range(CUdeviceptr address, size_t size, const char *call)
{
    CHECK(address && size == 1 && call);
    pinned++;
    return CUDA_SUCCESS;
}

void unpin_range(CUdeviceptr address, size_t size)
{
    CHECK(address && size == 1);
    unpinned++;
}

static CUresult answer_one(void *data, CUpointer_attribute attribute, CUdeviceptr pointer)
{
    CHECK(data && pointer && attribute);
    asked++;
    return CUDA_SUCCESS;
}

static CUresult answer_many(unsigned count, CUpointer_attribute *attributes, void **data,
                            CUdeviceptr pointer)
{
    CHECK(attributes && data && pointer);
    asked++;
    return count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Asks for both attributes at once; how often the lease was waited for and (in the tens) the driver asked. */
static unsigned ask(int of, CUpointer_attribute one, CUpointer_attribute other, uint64_t answers[2])
{
    CUpointer_attribute attributes[] = {one, other};
    void *data[] = {&answers[0], &answers[1]};
    what = of;
    waited = asked = 0;
    answers[0] = answers[1] = UINT64_MAX;
    CHECK(cuPointerGetAttributes(2, attributes, data, 4096) == CUDA_SUCCESS);
    return waited + 10 * asked;
}

static void test_what_is_known_needs_neither_lease_nor_driver(void)
{
    uint64_t told[2];
    CHECK(ask(OURS, CU_POINTER_ATTRIBUTE_BUFFER_ID, CU_POINTER_ATTRIBUTE_HOST_POINTER, told) == 0);
    CHECK(told[0] == 5 && told[1] == 0);
    CHECK(ask(MAPPED, CU_POINTER_ATTRIBUTE_BUFFER_ID, CU_POINTER_ATTRIBUTE_RANGE_SIZE, told) == 0);
    CHECK(told[0] == 5 && told[1] == 64);
    CHECK(cuPointerGetAttribute(told, CU_POINTER_ATTRIBUTE_BUFFER_ID, 4096) == CUDA_SUCCESS);
    CHECK(waited == 0 && asked == 0 && told[0] == 5);
}

static void test_what_the_driver_knows_of_memory_that_moves_needs_the_lease(void)
{
    uint64_t told[2];
    CHECK(ask(OURS, CU_POINTER_ATTRIBUTE_BUFFER_ID, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, told) == 11);
    CHECK(told[0] == 5);
    CHECK(ask(MAPPED, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, CU_POINTER_ATTRIBUTE_BUFFER_ID, told) ==
          11);
    CHECK(told[1] == 5);
    CHECK(cuPointerGetAttribute(told, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, 4096) == CUDA_SUCCESS);
    CHECK(waited == 2 && asked == 2);
}

static void test_memory_that_never_moves_needs_no_lease(void)
{
    uint64_t told[2];
    CHECK(ask(NOTHING, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_CONTEXT, told) == 10);
    CHECK(ask(MANAGED, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_CONTEXT, told) == 10);
    CHECK(cuPointerGetAttribute(told, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 4096) == CUDA_SUCCESS);
    CHECK(waited == 0 && asked == 2);
}

static void test_tokens_pin_and_need_the_lease_wherever_they_are_asked_for(void)
{
    CUDA_POINTER_ATTRIBUTE_P2P_TOKENS tokens = {0};
    CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_P2P_TOKENS;
    void *data[] = {&tokens};
    what = NOTHING;
    waited = 0;
    CHECK(cuPointerGetAttribute(&tokens, attribute, 4096) == CUDA_SUCCESS);
    CHECK(cuPointerGetAttributes(1, &attribute, data, 4096) == CUDA_SUCCESS);
    CHECK(waited == 2 && pinned == 2 && unpinned == 2); /* there were none */
}

static void test_what_is_wrong_is_for_the_driver(void)
{
    CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_BUFFER_ID;
    void *data[] = {NULL};
    CHECK(cuPointerGetAttributes(1, NULL, data, 4096) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuPointerGetAttributes(1, &attribute, NULL, 4096) == CUDA_ERROR_INVALID_VALUE);
    what = OURS;
    CHECK(cuPointerGetAttributes(0, &attribute, data, 4096) == CUDA_ERROR_INVALID_VALUE);
}

int main(void)
{
    fake_driver();
    driver_entries[ENTRY_cuPointerGetAttribute] = (void *)answer_one;
    driver_entries[ENTRY_cuPointerGetAttributes] = (void *)answer_many;
    test_what_is_known_needs_neither_lease_nor_driver();
    test_what_the_driver_knows_of_memory_that_moves_needs_the_lease();
    test_memory_that_never_moves_needs_no_lease();
    test_tokens_pin_and_need_the_lease_wherever_they_are_asked_for();
    test_what_is_wrong_is_for_the_driver();
    return check_end();
}
