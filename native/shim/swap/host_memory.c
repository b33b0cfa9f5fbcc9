#include "shim/swap/host_memory.h"

#include <sys/mman.h>

#include "shim/agent/socket.h"
#include "shim/base/driver.h"
#include "shim/base/message.h"
#include "shim/mem/device.h"
#include "shim/swap/clean.h"
#include "shim/swap/host_arena.h"
#include "shim/swap/host_segment.h"
#include "shim/swap/host_segments.h"

#define OWN_BYTES (256ull << 20)
/* How long an eviction waits for the agent, and for how long one that did not answer is left alone:
 * memory of our own is always to be had. */
#define PATIENCE_NS 2000000000ull
#define SULK_NS 10000000000ull

static bool agent_prepares;
static uint64_t sulk_until_ns;
static uint32_t contexts_destroyed; /* when memory was taken last */
static uint64_t offered_bytes;      /* the last one: all segments of an agent are alike */

void host_memory_set_agent(uint32_t flags)
{
    agent_prepares = flags & MW_WELCOME_ARENA;
    sulk_until_ns = 0;
    offered_bytes = 0;
    host_segments_new_agent();
}

/* A segment of the agent with so much room, after a while. False: there is none. */
static bool ask(uint64_t bytes)
{
    uint64_t began = now_ns();
    if (!agent_prepares || began < sulk_until_ns || !agent_is_heard_here()) {
        return false;
    }
    if (offered_bytes && bytes > offered_bytes) {
        return false; /* a chunk as the program made it, larger than any segment */
    }
    struct mw_arena need = {.bytes = bytes};
    agent_send(&need, sizeof(need), MW_ARENA_NEED);
    for (;;) {
        union agent_message message;
        uint64_t passed = now_ns() - began;
        uint64_t left = passed < PATIENCE_NS ? PATIENCE_NS - passed : 0;
        int got = agent_fetch(MW_ARENA, &message, left);
        if (got > 0) {
            offered_bytes = message.arena.bytes;
            return host_segments_offer(&message.arena, agent_take_fd()) && bytes <= offered_bytes;
        }
        if (got < 0 || left == 0) {
            sulk_until_ns = got < 0 ? 0 : now_ns() + SULK_NS;
            return false;
        }
    }
}

/* Memory of this process, where the agent has none for us: slow to come by, and charged here. */
static bool add_own(uint64_t bytes)
{
    uint64_t span = bytes > OWN_BYTES ? bytes : OWN_BYTES;
    void *base = MAP_FAILED;
    for (; base == MAP_FAILED && span >= bytes; span /= 2) {
        base = mmap(NULL, span, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (base != MAP_FAILED) {
            break;
        }
    }
    if (base == MAP_FAILED) {
        return false;
    }
    madvise(base, span, MADV_HUGEPAGE);
    madvise(base, span, MADV_DONTFORK);
    /* Not registered (a locked-memory limit, say) means slow copies, not wrong ones. */
    DRIVER(cuMemHostRegister_v2)(base, span, CU_MEMHOSTREGISTER_PORTABLE);
    if (host_arena_add(base, span, 0) != 0) {
        DRIVER(cuMemHostUnregister)(base);
        munmap(base, span);
        return false;
    }
    return true;
}

/* A registration ends with the context that it was made in. Where it has not, the driver refuses another one. */
static void register_again(void *at)
{
    uint32_t destroyed = device_contexts_destroyed();
    uint64_t bytes;
    if (destroyed != contexts_destroyed) {
        contexts_destroyed = destroyed;
        host_arena_lose_registrations();
    }
    void *base = host_arena_take_lost(at, &bytes);
    if (base) {
        DRIVER(cuMemHostRegister_v2)(base, bytes, CU_MEMHOSTREGISTER_PORTABLE);
    }
}

static void *take(uint64_t bytes)
{
    void *at = host_arena_take(bytes);
    if (!at && clean_make_room(bytes)) { /* copies that are not needed go first: they are here */
        at = host_arena_take(bytes);
    }
    while (!at && bytes <= HOST_PIECE_BYTES && (host_segments_register_one() || ask(bytes))) {
        at = host_arena_take(bytes);
    }
    if (!at && add_own(bytes)) {
        at = host_arena_take(bytes);
    }
    return at;
}

void *host_memory_take(uint64_t bytes)
{
    void *at = take(bytes);
    if (at) {
        register_again(at);
    }
    return at;
}
