#include "shim/swap/host_memory.h"

#include <sys/mman.h>

#include "shim/base/driver.h"
#include "shim/swap/host_arena.h"
#include "shim/swap/host_segments.h"

#define OWN_BYTES (256ull << 20)

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

void *host_memory_take(uint64_t bytes)
{
    void *at = host_arena_take(bytes);
    while (!at && bytes <= HOST_PIECE_BYTES &&
           (host_segments_register_one() || host_segments_ask(bytes))) {
        at = host_arena_take(bytes);
    }
    if (!at && add_own(bytes)) {
        at = host_arena_take(bytes);
    }
    return at;
}
