/* What is armed: transitions that the arbiter decided ahead, and what became of the messages that they wait for. The
 * caller holds the reader's lock. */
#ifndef MOIETY_AGENT_ARMED_H
#define MOIETY_AGENT_ARMED_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/agent_abi.h"
#include "agent/connections.h"
#include "agent/hold.h"
#include "agent/ring.h"

#define SHOTS_MAX 128u /* one for each GPU, and those that follow it */

struct armed {
    struct connections *connections;
    struct ring *ring;
    struct hold *hold;
    struct ma_shot shots[SHOTS_MAX];
    /* The armed ones: from, and up to. While there are any, the ring has nothing but what they allow. */
    uint32_t from, to;
    uint32_t fired, asked; /* numbers of records in the ring that have these flags */
    struct ma_counts counts;
    uint64_t
        hold_ns; /* for so long Python sleeps at most, while the drain is armed that comes next */
};

bool armed_set(struct armed *armed, const struct ma_shot *shots, uint32_t heads, uint32_t count);
void armed_clear(struct armed *armed);
int armed_state(const struct armed *armed);
uint64_t armed_fire(struct armed *armed, struct ma_record *record, const void *packet);
void armed_taken(struct armed *armed, const struct ma_record *record);

#endif
