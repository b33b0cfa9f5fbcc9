/* A context that one thread destroys while another finds it current. */
#include <string.h>

#include "fake_driver.h"
#include "shim/agent/client_report.h"
#include "shim/agent/socket.h"
#include "shim/gate/streams.h"
#include "shim/mem/device_contexts.h"

#include "check.h"

#define NEVER 99u
#define CALLS_MAX 8u

static struct device the_device = {.attached = true};
static unsigned handles[2];
#define OURS ((CUcontext) & handles[0])
#define OTHER ((CUcontext) & handles[1])

static CUcontext current;
static bool is_destroyed;
static unsigned call_count, begins_at, ends_at, reports;

struct lock device_lock = LOCK_INIT(LOCK_DEVICES);
struct device *device_next(const struct device *device) { return device ? NULL : &the_device; }
CUresult device_of_ordinal(CUdevice ordinal, struct device **device)
{
    *device = ordinal == 0 ? &the_device : NULL;
    return CUDA_SUCCESS;
}
void agent_amount(enum mw_type type, uint32_t gpu, uint64_t bytes)
{
    CHECK(type == MW_CONTEXT && gpu == 0 && bytes == 0);
    reports++;
}
void client_report_pinned(const char *call) { CHECK(call == NULL); }
void streams_drain(CUcontext context) { CHECK(context == NULL); }

/* Before its n-th call of the driver a thread is interrupted, and another begins or ends to destroy the context. */
static void interrupt(void)
{
    struct device *found = NULL;
    if (call_count == begins_at) {
        device_begin_destroy(OURS, &found); /* also if no device lists it */
    }
    if (call_count == ends_at) {
        is_destroyed = true;
        device_end_destroy();
    }
    call_count++;
}

static CUresult state(void)
{
    return current == OURS && is_destroyed ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_SUCCESS;
}

static CUresult fake_get_device(CUdevice *ordinal)
{
    interrupt();
    *ordinal = 0;
    return state();
}

static CUresult fake_range(int *least, int *greatest)
{
    interrupt();
    *least = *greatest = 0;
    return state();
}

static CUresult fake_get_current(CUcontext *context)
{
    interrupt();
    *context = current;
    return CUDA_SUCCESS;
}

static void begin(bool is_listed)
{
    memset(&the_device, 0, sizeof(the_device));
    the_device.attached = true;
    current = OURS;
    is_destroyed = false;
    begins_at = ends_at = NEVER;
    if (is_listed) {
        device_add_context(&the_device, OURS);
    }
    call_count = reports = 0;
}

static void test_a_context_that_was_made_unseen_is_added_once(void)
{
    struct device *found = NULL;
    begin(false);
    CHECK(device_current(&found) == CUDA_SUCCESS && found == &the_device);
    CHECK(device_has_context(&the_device, OURS) && reports == 1);
    CHECK(device_current(&found) == CUDA_SUCCESS && the_device.context_count == 1 && reports == 1);
}

static void test_a_destroyed_context_is_never_added_again(void)
{
    struct device *found = NULL;
    for (unsigned start = 0; start < CALLS_MAX; start++) {
        for (unsigned is_listed = 0; is_listed < 2; is_listed++) {
            begin(is_listed);
            begins_at = ends_at = start;
            CUresult result = device_current(&found);
            CHECK(is_destroyed == (call_count > start));
            CHECK(is_destroyed || result == CUDA_SUCCESS);
            CHECK(device_has_context(&the_device, OURS) == !is_destroyed);
        }
    }
}

static void test_another_end_meanwhile_keeps_no_context_out(void)
{
    struct device *found = NULL;
    begin(true);
    current = OTHER;
    begins_at = ends_at = 3; /* between the look at the driver and the list */
    CHECK(device_current(&found) == CUDA_SUCCESS);
    CHECK(device_has_context(&the_device, OTHER) && !device_has_context(&the_device, OURS));
}

int main(void)
{
    fake_driver();
    driver_entries[ENTRY_cuCtxGetDevice] = (void *)fake_get_device;
    driver_entries[ENTRY_cuCtxGetStreamPriorityRange] = (void *)fake_range;
    driver_entries[ENTRY_cuCtxGetCurrent] = (void *)fake_get_current;
    test_a_context_that_was_made_unseen_is_added_once();
    test_a_destroyed_context_is_never_added_again();
    test_another_end_meanwhile_keeps_no_context_out();
    return check_end();
}
