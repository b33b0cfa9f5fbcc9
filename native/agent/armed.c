#include "agent/armed.h"

#include <string.h>

#include "agent/shot.h"
#include "wire/wire.h"

/* For so long Python leaves the processors to a program that got its lease, and the note of it waits. */
#define GRANTED_NS 100000u
/* For so long Python may sleep while all is at rest and the next request is armed. */
#define AT_REST_NS 10000000u
/* For so long after the first half of a hand-off, time alone changes nothing of the second, nor does a request of who
 * drains: a drain that takes longer may be reopened, or be overdue. */
#define MEANWHILE_NS 50000000
#define NEVER_NS (-1)

static bool is_armed(const struct armed *armed) { return armed->from < armed->to; }

void armed_clear(struct armed *armed) { armed->from = armed->to = 0; }

static uint64_t granted_ns(const struct armed *armed)
{
    return armed->hold_ns < GRANTED_NS ? armed->hold_ns : GRANTED_NS;
}

/* How long Python may sleep after this one fired, while its next one is armed. A drain has to be looked after. */
static uint64_t rest_ns(const struct armed *armed, const struct ma_shot *shot)
{
    bool is_at_rest = shot->note == MW_GRANT && armed->hold_ns && armed->hold_ns < AT_REST_NS;
    return is_at_rest ? AT_REST_NS : armed->hold_ns;
}

/* Changes the lease word, and sends the note, or keeps it for later. False: Python has to go on from here. */
static bool carry_out(struct armed *armed, const struct ma_shot *shot, struct ma_record *record)
{
    struct connection *to = connections_find(armed->connections, shot->to);
    bool is_in_order = hold_tell(armed->hold, armed->connections, armed->ring);
    if (to == NULL || !is_in_order || !shot_fire(shot)) {
        return false;
    }
    armed->fired++;
    record->flags |= MA_FIRED;
    bool is_held = ring_is_empty(armed->ring) || armed->hold->is_on;
    if (shot->note == MW_GRANT && armed->hold_ns && is_held) {
        hold_note(armed->hold, shot, armed->ring->tail, record->at_ns + granted_ns(armed));
        return true;
    }
    bool is_told = shot_tell(shot, to->fd);
    record->flags |= is_told ? MA_SENT : 0;
    return is_told;
}

static int64_t earlier(int64_t one, int64_t other) { return one < other ? one : other; }

/* A drain counts until `drains_until_ns`, and a request before it until `asks_until_ns`. */
static void arm(struct armed *armed, uint32_t i, int64_t asks_until_ns, int64_t drains_until_ns)
{
    struct ma_shot *shot = &armed->shots[i];
    shot->asks_until_ns = earlier(shot->asks_until_ns, asks_until_ns);
    if (shot->type == MW_DRAINED) {
        shot->not_after_ns = earlier(shot->not_after_ns, drains_until_ns);
    }
    armed->from = i;
    armed->to = i + 1;
}

/* Carries out what is armed for this packet. After that only its next one is armed, or none.
 * Returns for how long Python lets the programs go on before it has to know. */
static uint64_t fire(struct armed *armed, struct ma_record *record, const void *packet)
{
    uint32_t i = armed->from, end = armed->to;
    armed_clear(armed);
    for (; i < end; i++) {
        const struct ma_shot *shot = &armed->shots[i];
        if (shot_allows(shot, record, packet)) {
            record->flags |= MA_ASKED;
            armed->asked++;
            armed->shots[i].next = 0;
            arm(armed, i, NEVER_NS, shot->asks_until_ns); /* it may not ask again */
            return armed->hold_ns;
        }
        if (!shot_matches(shot, record, packet)) {
            continue;
        }
        record->shot = i;
        if (!carry_out(armed, shot, record)) {
            return 0;
        }
        if (shot->next) {
            int64_t until_ns = (int64_t)record->at_ns + MEANWHILE_NS;
            arm(armed, shot->next, until_ns, until_ns);
            return rest_ns(armed, shot);
        }
        return shot->note == MW_GRANT ? granted_ns(armed) : 0;
    }
    return 0;
}

static void count(struct armed *armed, const struct ma_record *record, bool was_armed)
{
    struct ma_counts *counts = &armed->counts;
    if (record->flags & MA_FIRED) {
        counts->fired++;
    } else if (record->flags & MA_ASKED) {
        counts->asked++;
    } else if (was_armed) {
        counts->other++;
    } else if (!ring_is_empty(armed->ring)) {
        counts->unread++;
    } else {
        counts->unarmed++;
    }
}

/* Carries out what is armed for this packet, which goes into the ring next; as fire. */
uint64_t armed_fire(struct armed *armed, struct ma_record *record, const void *packet)
{
    bool was_armed = is_armed(armed);
    uint64_t hold_ns = fire(armed, record, packet);
    if (shot_may_fire(record, packet)) {
        count(armed, record, was_armed);
    }
    return hold_ns;
}

/* Python took this record. */
void armed_taken(struct armed *armed, const struct ma_record *record)
{
    armed->fired -= record->flags & MA_FIRED ? 1 : 0;
    armed->asked -= record->flags & MA_ASKED ? 1 : 0;
}

/* Arms the first of these in place of others; the rest follow. False: a message waits in the ring, so none is. */
bool armed_set(struct armed *armed, const struct ma_shot *shots, uint32_t heads, uint32_t count)
{
    bool can = ring_is_empty(armed->ring) && heads <= count && count <= SHOTS_MAX;
    for (uint32_t i = 0; can && i < count; i++) {
        can = shots[i].next < count;
    }
    armed_clear(armed);
    if (can) {
        memcpy(armed->shots, shots, count * sizeof *shots);
        armed->to = heads;
    }
    return can;
}

/* enum ma_armed. */
int armed_state(const struct armed *armed)
{
    int fired = armed->fired > 1 ? MA_SHOTS : MA_SHOT;
    return armed->fired || armed->asked ? fired : is_armed(armed) ? MA_ARMED : MA_IDLE;
}
