#include "shim/control/wiring.h"

#include "shim/agent/client_report.h"
#include "shim/agent/socket.h"
#include "shim/control/drain_listener.h"
#include "shim/gate/gate.h"
#include "shim/gate/queue_depth.h"
#include "shim/gate/stream_capture.h"
#include "shim/gate/streams.h"
#include "shim/gate/unknown_calls.h"
#include "shim/ipc/export.h"
#include "shim/ipc/import.h"
#include "shim/mem/alloc.h"
#include "shim/mem/device.h"
#include "shim/mem/device_contexts.h"
#include "shim/mem/upcalls.h"
#include "shim/pool/pool.h"
#include "shim/pool/trim.h"
#include "shim/swap/host_arena.h"
#include "shim/swap/host_segments.h"
#include "shim/swap/swap.h"

static bool pool_free_at_once(CUdeviceptr pointer, CUresult *result)
{
    return pool_free(pointer, NULL, true, result);
}

static void *take_exports(const struct extent *extent) { return ipc_export_take(extent); }

static void end_exports(void *exports) { ipc_export_end(exports); }

void wiring_connect(void)
{
    mem_upcalls = (struct mem_upcalls){
        .host_free = host_arena_give_back,
        .reclaim = trim_reclaim,
        .pool_free = pool_free_at_once,
        .pool_info = pool_describe,
        .import_info = ipc_import_describe,
        .freed = ipc_export_freed,
        .ending = take_exports,
        .ended = end_exports,
    };
}

void wiring_after_fork(void)
{
    client_report_after_fork();
    agent_after_fork();
    gate_after_fork();
    stream_capture_after_fork();
    streams_after_fork();
    queue_depth_after_fork();
    alloc_after_fork();
    pools_after_fork();
    ipc_export_after_fork();
    ipc_import_after_fork();
    host_arena_after_fork();
    host_segments_after_fork();
    swap_after_fork();
    drain_listener_after_fork();
    device_after_fork();
    device_contexts_after_fork();
    unknown_calls_after_fork();
}
