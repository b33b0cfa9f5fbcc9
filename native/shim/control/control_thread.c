#include "shim/control/control_thread.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "shim/agent/client_report.h"
#include "shim/agent/handshake.h"
#include "shim/agent/socket.h"
#include "shim/agent/terminal_notice.h"
#include "shim/base/disable.h"
#include "shim/base/driver.h"
#include "shim/base/lock.h"
#include "shim/base/message.h"
#include "shim/control/debugger_check.h"
#include "shim/control/drain.h"
#include "shim/control/idle_watch.h"
#include "shim/control/resume.h"
#include "shim/control/wiring.h"
#include "shim/gate/gate.h"
#include "shim/gate/queue_depth.h"
#include "shim/gate/unknown_calls.h"
#include "shim/ipc/export.h"
#include "shim/ipc/import.h"
#include "shim/mem/accounting.h"
#include "shim/mem/alloc.h"
#include "shim/mem/device.h"
#include "shim/mem/device_contexts.h"
#include "shim/swap/clean.h"
#include "shim/swap/host_arena.h"
#include "shim/swap/host_segments.h"
#include "shim/swap/swap.h"

static struct session session = {.welcomed = resume_welcomed, .tell_state = resume_tell_state};
static struct lock begin_lock = LOCK_INIT(LOCK_BEGIN);

static void carry_out(const union agent_message *message);
static void come_back_holding(void);

static void grant(uint32_t epoch)
{
    session.epoch = epoch;
    drain_note_grant();
    session.counters->handoffs++;
    gate_forget_want();
    gate_wake();
}

static void report_evicted(struct device *device, uint64_t bytes, bool last, bool failed)
{
    struct mw_evicted note = {
        .gpu = device->gpu,
        .flags = (last ? MW_EVICTED_LAST : 0) | (failed ? MW_EVICTED_FAILED : 0),
        .bytes = bytes,
        .resident_bytes = device->resident_bytes,
    };
    if (last) {
        drain_count_moves(); /* the agent reads the counters when the message comes */
    }
    agent_send(&note, sizeof(note), MW_EVICTED);
}

static void tell_content(struct device *device, struct content content)
{
    struct mw_content note = {
        .gpu = device->gpu, .zero_bytes = content.zero_bytes, .host_bytes = content.host_bytes};
    agent_send(&note, sizeof(note), MW_CONTENT_REPLY);
}

/* Moves what can be moved now; returns in how many ns to call it again. */
static uint64_t move_on(void)
{
    bool restored;
    uint64_t wait_ns = swap_step(&restored);
    if (restored) {
        drain_count_moves();
        agent_note(MW_RESTORED, session.epoch);
    }
    return wait_ns;
}

/* A refusal that answers no request, as of memory that this process had before: the agent says it
 * each time that it hangs up on us, and the program's user reads it once. */
static void print_refusal(const struct mw_refused *refused)
{
    static char last[MW_TEXT_BYTES];
    if (memcmp(last, refused->text, sizeof(last)) != 0) {
        memcpy(last, refused->text, sizeof(last));
        message_print(NULL, "%.*s", (int)MW_TEXT_BYTES, refused->text);
    }
}

static void pinned(const struct mw_pin *asked)
{
    if (asked->gpu == MW_NO_GPU) {
        client_pin_admitted();
    } else {
        accounting_pinned(asked->gpu, asked->bytes);
    }
}

static void answer(const union agent_message *message)
{
    struct agent_request *request = agent_take(message->header.serial);
    if (!request) {
        if (message->header.type == MW_REFUSED) {
            print_refusal(&message->refused);
        } else if (message->header.type == MW_ATTACHED) { /* answers resume_tell_state */
            device_set_limit(message->attached.gpu, message->attached.limit_bytes,
                             message->attached.together != 0);
        }
        return;
    }
    struct device *device = NULL;
    if (message->header.type == MW_ALLOC_REPLY &&
        request->message.header.type == MW_ALLOC_REQUEST) {
        const struct mw_alloc *asked = &request->message.alloc;
        accounting_admitted(asked->gpu, asked->bytes, asked->flags);
        device = device_of_gpu(asked->gpu);
    } else if (message->header.type == MW_PIN_REPLY &&
               request->message.header.type == MW_PIN_REQUEST) {
        pinned(&request->message.pin);
    }
    agent_answer(request, message);
    if (device) {
        swap_prepare(device); /* it has memory now that may have to leave */
    }
}

static void carry_out(const union agent_message *message)
{
    struct device *device;
    switch (message->header.type) {
    case MW_GRANT:
        grant(message->note.epoch);
        break;
    case MW_REVOKE:
        drain_revoke(message->note.epoch);
        break;
    case MW_ALLOW_ONE:
        drain_step(message->note.epoch);
        break;
    case MW_RESTORE_BUDGET:
        device = device_of_gpu(message->amount.gpu);
        swap_grant_budget(device, message->amount.bytes);
        break;
    case MW_EVICT:
        device = device_of_gpu(message->amount.gpu);
        if (device) {
            swap_order(device, message->amount.bytes, report_evicted);
        }
        break;
    case MW_CONTENT_QUERY:
        device = device_of_gpu(message->amount.gpu);
        if (device) {
            swap_count_content(device, tell_content);
        }
        break;
    case MW_SET_IDLE_TIMEOUT:
        idle_watch_set(message->watch.idle_us);
        break;
    case MW_MODE:
        alloc_set_mode(message->mode.mode);
        break;
    case MW_ARENA:
        host_segments_offer(&message->arena, agent_take_fd());
        break;
    case MW_ARENA_BACK:
        host_segments_back(message->arena.bytes);
        break;
    case MW_CREDIT_GRANT:
        credit_grant(message->allowance.gpu, message->allowance.bytes,
                     message->allowance.most_bytes);
        break;
    case MW_CREDIT_REVOKE:
        credit_revoke(message->amount.gpu);
        break;
    case MW_LIMIT:
        device_set_limit(message->amount.gpu, message->amount.bytes, true);
        break;
    case MW_SET_QUEUE_DEPTH:
        queue_depth_set(message->pace.queue_us);
        break;
    case MW_WARNING:
        message_print(NULL, "%.*s", (int)MW_TEXT_BYTES, message->warning.text);
        break;
    case MW_EXPORT:
        if (message->share.flags & MW_SHARE_ASKED) {
            ipc_export_asked(&message->share);
        } else {
            answer(message);
        }
        break;
    case MW_UNSHARE:
        ipc_export_closed(&message->share);
        break;
    case MW_IMPORT:
        ipc_import_pieces(&message->share);
        break;
    case MW_TERMINAL_LINE:
        terminal_notice_print(message->say.text, sizeof(message->say.text));
        break;
    case MW_ATTACHED:
    case MW_ALLOC_REPLY:
    case MW_PIN_REPLY:
    case MW_REFUSED:
        answer(message);
        break;
    default:
        break; /* a newer agent sends it, and the client can do without it */
    }
}

static void reopen(bool holding)
{
    queue_depth_set(0); /* a new agent believes that there is no bound */
    handshake_reopen(&session, holding);
    client_report_again();
    unknown_calls_tell();
    gate_forget_want();
    gate_wake();
}

/* Drain listener: the agent is gone, and the drain is not over. Running work may wait for a thread
 * at the gate, and all memory is still resident, so to the next agent this process still holds its
 * lease. */
static void come_back_holding(void)
{
    reopen(true);
    drain_note_reopened();
}

/* The agent is gone: connects to the next one. Drains first if the lease was lost with the old one,
 * so that the next agent is told either "holding" or "nothing runs". */
static void come_back(void)
{
    bool holding = gate_is_open();
    swap_settle();
    swap_forget_orders();
    if (!holding && !drain_for_new_agent(&holding)) {
        return; /* the drain listener has connected to another agent meanwhile */
    }
    reopen(holding);
}

static void *control_main(void *unused)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    union agent_message message;
    prctl(PR_SET_NAME, "moiety");
    prctl(PR_SET_TIMERSLACK, 1ul);
    DRIVER(cuThreadExchangeStreamCaptureMode)(&mode);
    for (;;) {
        uint64_t wait_ns = move_on();
        uint64_t look_ns = credits_expire();
        wait_ns = look_ns < wait_ns ? look_ns : wait_ns;
        uint64_t watch_ns = idle_watch_step_ns();
        wait_ns = watch_ns < wait_ns ? watch_ns : wait_ns;
        int got = agent_receive(&message, wait_ns);
        if (got < 0) {
            come_back();
        } else if (got > 0) {
            carry_out(&message);
        }
        idle_watch_look(session.epoch);
    }
    return unused;
}

static void in_forked_child(void)
{
    wiring_after_fork();
    handshake_after_fork(&session);
    lock_after_fork(&begin_lock);
}

/* What pthread_atfork is made of: that one is not in libc before glibc 2.34. */
// NOLINTNEXTLINE(bugprone-reserved-identifier) glibc's name
extern int __register_atfork(void (*)(void), void (*)(void), void (*)(void), void *);

static int start_thread(void)
{
    sigset_t all;
    sigset_t before;
    unsigned long thread;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before); /* of this thread: the program keeps its signals */
    int error = driver_threads.create(&thread, NULL, control_main, NULL);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return -error;
}

CUresult control_begin(void)
{
    const char *missing = "pthread_create";
    const char *path = getenv("MOIETY_SOCKET");
    if (client_is_active() || gate_is_alone()) {
        return CUDA_SUCCESS;
    }
    if (shim_is_disabled()) {
        gate_leave_alone();
        return CUDA_SUCCESS;
    }
    if (!path || !*path) {
        message_print("start it with moiety run", "this program shares no GPU: MOIETY_SOCKET %s",
                      path ? "is empty" : "is not set");
        gate_leave_alone();
        return CUDA_SUCCESS;
    }
    LOCK_SCOPE(&begin_lock);
    if (client_is_active()) {
        return CUDA_SUCCESS;
    }
    const char *tool = debugger_check_refused();
    if (tool) {
        message_print("MOIETY_DISABLE=1 on a GPU of its own; or moiety run --no-check",
                      "%s cannot do its work on a shared GPU", tool);
        return CUDA_ERROR_NOT_PERMITTED;
    }
    if (!driver_is_complete(&missing)) {
        message_print("moiety doctor says which driver is needed",
                      "this driver cannot share memory: it has no %s", missing);
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    clean_read_mode();
    wiring_connect();
    drain_connect(&session, carry_out, come_back_holding);
    int error = handshake_open(&session, path);
    if (error) {
        return CUDA_ERROR_SYSTEM_NOT_READY;
    }
    __register_atfork(NULL, NULL, in_forked_child, NULL);
    error = start_thread();
    if (error) {
        message_print("check the limit of processes and threads (ulimit -u)",
                      "could not start the control thread: %s", strerror(-error));
        agent_close();
        return CUDA_ERROR_SYSTEM_NOT_READY;
    }
    session.counters->unknown_calls = unknown_calls_count();
    host_arena_publish(&session.counters->host_bytes);
    session.counters->host_counted = 1;
    client_report_begin(session.counters);
    unknown_calls_tell();
    return CUDA_SUCCESS;
}
