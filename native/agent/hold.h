/* When Python learns what is in the ring, and the note of a grant that can wait for a moment. The caller holds the
 * reader's lock.
 *
 * Python's work would keep a processor from the programs that go on. So would the thread of a program that hears of
 * its lease: what waits for the lease itself is woken by the lease word. */
#ifndef MOIETY_AGENT_HOLD_H
#define MOIETY_AGENT_HOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/agent_abi.h"
#include "agent/connections.h"
#include "agent/ring.h"

struct hold {
    int timer_fd; /* ends the hold, or tells the note */
    int event_fd; /* readable while the ring has records, unless Python does not know of them yet */
    bool is_on;   /* Python does not know of them yet */
    bool is_late; /* a note waits */
    uint64_t until_ns; /* when the hold ends */
    uint64_t tell_ns;  /* when the note is sent */
    uint64_t timer_ns; /* when the timer comes next; 0: not for now */
    size_t record;     /* where in the ring the record of the note is */
    struct ma_shot shot;
};

bool hold_init(struct hold *hold);
void hold_dispose(struct hold *hold);
bool hold_begin(struct hold *hold, uint64_t now_ns, uint64_t for_ns);
bool hold_end(struct hold *hold, struct connections *connections, struct ring *ring);
bool hold_time(struct hold *hold, uint64_t now_ns, struct connections *connections,
               struct ring *ring);
void hold_clear(struct hold *hold);
void hold_note(struct hold *hold, const struct ma_shot *shot, size_t record, uint64_t tell_ns);
bool hold_tell(struct hold *hold, struct connections *connections, struct ring *ring);
void hold_taken(struct hold *hold, size_t record);

#endif
