/* When Python learns what is in the ring, and the note of a grant that can wait until then. The caller holds the
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

enum late_state { LATE_NONE, LATE_WAITS, LATE_SENT };

struct hold {
    int timer_fd; /* ends the hold */
    int event_fd; /* readable while the ring has records, unless Python does not know of them yet */
    bool is_on;   /* Python does not know of them yet */
    uint64_t until_ns;
    enum late_state late;
    size_t late_record; /* where in the ring its record is */
    struct ma_shot late_shot;
};

bool hold_init(struct hold *hold);
void hold_dispose(struct hold *hold);
void hold_begin(struct hold *hold, uint64_t now_ns, uint64_t for_ns);
void hold_end(struct hold *hold, struct connections *connections);
bool hold_is_over(struct hold *hold);
void hold_clear(struct hold *hold);
void hold_note(struct hold *hold, const struct ma_shot *shot, size_t record);
bool hold_has_told(struct hold *hold, size_t record);

#endif
