#include "shim/control/idle_watch.h"

#include "shim/agent/socket.h"
#include "shim/base/message.h"
#include "shim/gate/gate.h"

/* The finest step of an idle watch; one for a longer silence looks as often in it. */
#define WATCH_STEP_NS 250000ull
#define WATCH_LOOKS 8

static uint64_t watched_us; /* 0: the agent does not want to know */
static uint64_t seen_passes;
static uint64_t since_ns;
static bool told_idle; /* and the watch goes on until something is submitted */

void idle_watch_set(uint64_t idle_us)
{
    watched_us = idle_us;
    seen_passes = UINT64_MAX;
    told_idle = false;
}

uint64_t idle_watch_step_ns(void)
{
    uint64_t step_ns = watched_us * 1000 / WATCH_LOOKS;
    if (!watched_us) {
        return UINT64_MAX;
    }
    return step_ns > WATCH_STEP_NS ? step_ns : WATCH_STEP_NS;
}

void idle_watch_look(uint32_t epoch)
{
    uint32_t inside;
    if (!watched_us) {
        return;
    }
    uint64_t passes = gate_passes(&inside);
    uint64_t now = now_ns();
    if (passes != seen_passes || inside) {
        seen_passes = passes;
        since_ns = now;
        if (told_idle) {
            watched_us = 0;
            agent_note(MW_BUSY, epoch);
        }
    } else if (!told_idle && now - since_ns >= watched_us * 1000) {
        told_idle = true;
        agent_note(MW_IDLE, epoch);
    }
}
