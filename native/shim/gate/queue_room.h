/* When a thread may submit more, and how it waits for that.
 *
 * The GPU should have its next work when one piece ends, and soon be free when another program asks
 * for it. So of long kernels one waits beside the one that runs, and while it waits there, the
 * thread may be late: it need not poll.
 */
#ifndef MOIETY_SHIM_GATE_QUEUE_ROOM_H
#define MOIETY_SHIM_GATE_QUEUE_ROOM_H

#include <stdint.h>

#include "shim/gate/queue_markers.h"

struct queue_room {
    uint64_t missing_ns; /* until more may be submitted; 0: it may be now */
    uint64_t sure_ns;    /* what the GPU surely has to do until it runs dry */
};

/* Of `next_ns` more under the thread's part `bound_ns` of the bound `whole_ns`; something is marked. */
struct queue_room queue_room_until(const struct queue_markers *markers, uint64_t next_ns,
                                   uint64_t bound_ns, uint64_t whole_ns, uint64_t now);
/* How long a thread may sleep that waits for this, and has polled for so long; 0: it polls. */
uint64_t queue_room_nap_ns(struct queue_room room, uint64_t polled_ns, uint64_t bound_ns);

#endif
