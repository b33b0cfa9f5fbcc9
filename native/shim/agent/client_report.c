#include "shim/agent/client_report.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "shim/agent/socket.h"
#include "shim/base/lock.h"
#include "shim/base/message.h"

static struct mw_counters *counters;
static _Atomic bool active;
static _Atomic bool pinned;
static struct lock pin_lock = LOCK_INIT(LOCK_PINS);
/* Under pin_lock. */
static uint32_t pinning;     /* threads between client_pin_begin and client_pin_end */
static bool pinned_for_good; /* a call succeeded, or did not ask */
static char
    told[MW_TEXT_BYTES]; /* the last refusal that was printed: programs try again and again */
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
    LOCK_SCOPE(&pin_lock);
    if (!active || pinned_for_good) {
        return;
    }
    pinned_for_good = true;
    if (!atomic_exchange(&pinned, true)) {
        snprintf(note.reason, sizeof(note.reason), "%s", call);
        agent_send(&note, sizeof(note), MW_PINNED);
    }
}

static void print_refusal(const char *text)
{
    LOCK_SCOPE(&pin_lock);
    if (strncmp(told, text, sizeof(told) - 1) != 0) {
        snprintf(told, sizeof(told), "%s", text);
        message_print(NULL, "%s", told);
    }
}

bool client_ask_pin(uint32_t gpu, uint64_t bytes, const char *call)
{
    struct agent_request request = {.message.pin = {.gpu = gpu, .bytes = bytes}};
    snprintf(request.message.pin.call, sizeof(request.message.pin.call), "%s", call);
    agent_ask(&request, sizeof(request.message.pin), MW_PIN_REQUEST);
    if (request.message.header.type == MW_PIN_REPLY) {
        return true;
    }
    print_refusal(request.message.refused.text);
    return false;
}

/* With pin_lock: what was asked for is given back when no call needs it. */
static void end_pinning(void)
{
    pinning--;
    if (!pinning && !pinned_for_good && atomic_exchange(&pinned, false)) {
        agent_amount(MW_UNPIN, MW_NO_GPU, 0);
    }
}

CUresult client_pin_begin(const char *call)
{
    if (!active) {
        return CUDA_SUCCESS;
    }
    lock_take(&pin_lock);
    bool asks = !pinned_for_good;
    pinning++;
    lock_drop(&pin_lock);
    if (!asks || client_ask_pin(MW_NO_GPU, 0, call)) {
        return CUDA_SUCCESS;
    }
    LOCK_SCOPE(&pin_lock);
    end_pinning();
    return CUDA_ERROR_OUT_OF_MEMORY;
}

void client_pin_end(bool succeeded)
{
    if (!active) {
        return;
    }
    LOCK_SCOPE(&pin_lock);
    pinned_for_good = pinned_for_good || (succeeded && pinning);
    if (pinning) { /* else it began without an agent */
        end_pinning();
    }
}

void client_pin_admitted(void) { pinned = true; }

void client_report_unknown(const char *call)
{
    if (active) {
        __atomic_add_fetch(&counters->unknown_calls, 1, __ATOMIC_RELAXED);
    }
    client_report_pinned(call);
}

void client_report_again(void) { client_report_shared(atomic_exchange(&shared, 0)); }

void client_report_after_fork(void)
{
    active = false;
    pinned = pinned_for_good = false;
    pinning = 0;
    lock_after_fork(&pin_lock);
}
