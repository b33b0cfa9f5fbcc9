#include "shim/control/resume.h"

#include "shim/agent/handshake.h"
#include "shim/agent/socket.h"
#include "shim/gate/gate.h"
#include "shim/ipc/export.h"
#include "shim/ipc/import.h"
#include "shim/mem/accounting.h"
#include "shim/mem/alloc.h"
#include "shim/mem/device.h"
#include "shim/mem/zero_fill.h"
#include "shim/swap/host_memory.h"
#include "shim/swap/host_segments.h"

int resume_welcomed(struct session *session, const struct mw_welcome *welcome, int lease)
{
    host_memory_set_agent(welcome->flags);
    alloc_set_mode(welcome->mode);
    zero_fill_set(welcome->flags);
    if (!session->was_welcomed) {
        gate_init(session->counters);
    }
    return gate_map_lease(lease);
}

/* What is freed before this is in the totals, what is freed after it has a message of its own. */
void resume_tell_state(int socket)
{
    struct mw_attach states[MW_GPUS_MAX];
    uint32_t count = 0;
    alloc_freeze();
    credits_forget();
    for (struct device *d = device_next(NULL); d; d = device_next(d)) {
        device_tell(d, &states[count++]);
    }
    agent_begin(socket, states, count);
    host_segments_tell();
    ipc_export_tell();
    ipc_import_tell();
    alloc_thaw();
}

void resume_tell_drained(uint32_t epoch)
{
    struct mw_drained note = {.epoch = epoch, .gpu = MW_NO_GPU};
    struct device *device = device_next(NULL);
    struct device *next = device ? device_next(device) : NULL;
    alloc_freeze();
    for (; next; next = device_next(device)) {
        agent_amount(MW_RESIDENT, device->gpu, device->resident_bytes);
        device = next;
    }
    if (device) {
        note.gpu = device->gpu;
        note.resident_bytes = device->resident_bytes;
    }
    agent_send(&note, sizeof(note), MW_DRAINED);
    alloc_thaw();
}
