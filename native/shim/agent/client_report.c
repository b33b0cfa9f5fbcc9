#include "shim/agent/client_report.h"

#include <stdatomic.h>
#include <stdio.h>

#include "shim/agent/socket.h"

static struct mw_counters *counters;
static _Atomic bool active;
static _Atomic bool pinned;
static _Atomic uint32_t shared; /* MW_SHARED_*: what the agent was told */

void client_report_begin(struct mw_counters *read_by_agent)
{
    counters = read_by_agent;
    active = true;
}

bool client_is_active(void) { return active; }

bool client_is_pinned(void) { return pinned; }

void client_report_shared(uint32_t flags)
{
    struct mw_shared note = {.flags = flags};
    if (flags && active && (atomic_fetch_or(&shared, flags) & flags) != flags) {
        agent_send(&note, sizeof(note), MW_SHARED);
    }
}

void client_report_pinned(const char *call)
{
    struct mw_pinned note = {0};
    if (!active || pinned || atomic_exchange(&pinned, true)) {
        return;
    }
    snprintf(note.reason, sizeof(note.reason), "%s", call);
    agent_send(&note, sizeof(note), MW_PINNED);
}

void client_report_unknown(const char *call)
{
    if (active) {
        __atomic_add_fetch(&counters->unknown_calls, 1, __ATOMIC_RELAXED);
    }
    client_report_pinned(call);
}

void client_report_again(void) { client_report_shared(atomic_exchange(&shared, 0)); }

void client_report_after_fork(void) { active = false; }
