/* Host memory that was registered in a context which is gone. */
#include "shim/swap/host_memory.h"

#include <string.h>

#include "fake_driver.h"
#include "shim/agent/socket.h"
#include "shim/mem/device.h"
#include "shim/swap/clean.h"
#include "shim/swap/host_arena.h"
#include "shim/swap/host_segments.h"

#include "check.h"

#define BYTES (2ull << 20)

static uint32_t destroyed;
static unsigned registrations;
static void *registered;

uint32_t device_contexts_destroyed(void) { return destroyed; }
bool agent_is_heard_here(void) { return false; }
void agent_send(void *message, size_t bytes, enum mw_type type)
{
    CHECK(!message && bytes && type);
}
int agent_fetch(enum mw_type type, union agent_message *message, uint64_t timeout_ns)
{
    CHECK(!message && type && timeout_ns);
    return 0;
}
int agent_take_fd(void) { return -1; }
bool host_segments_offer(const struct mw_arena *note, int fd) { return note && fd >= 0; }
bool host_segments_register_one(void) { return false; }
void host_segments_new_agent(void) {}
bool clean_make_room(uint64_t bytes) { return !bytes; }

static CUresult fake_register(void *base, size_t bytes, unsigned flags)
{
    CHECK(bytes && flags == CU_MEMHOSTREGISTER_PORTABLE);
    registrations++;
    registered = base;
    return CUDA_SUCCESS;
}

int main(void)
{
    fake_driver();
    driver_entries[ENTRY_cuMemHostRegister_v2] = (void *)fake_register;
    void *one = host_memory_take(BYTES);
    void *base = registered;
    CHECK(one && registrations == 1);
    void *two = host_memory_take(BYTES);
    CHECK(two && registrations == 1); /* of the same piece */
    host_arena_give_back(two, BYTES);
    destroyed = 1;
    two = host_memory_take(BYTES);
    CHECK(two && registrations == 2 && registered == base);
    CHECK(host_memory_take(BYTES) && registrations == 2);
    return check_end();
}
