#include "agent/hold.h"

#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "agent/shot.h"

bool hold_init(struct hold *hold)
{
    hold->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    hold->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return hold->timer_fd >= 0 && hold->event_fd >= 0;
}

void hold_dispose(struct hold *hold)
{
    if (hold->timer_fd >= 0) {
        close(hold->timer_fd);
    }
    if (hold->event_fd >= 0) {
        close(hold->event_fd);
    }
}

/* Sees to it that the timer comes for what is due first. It may come before, and is set anew then, or take up to twice
 * as long: on a virtual machine, to set it takes as long as a message. */
static bool set_timer(struct hold *hold, uint64_t now_ns)
{
    uint64_t due_ns = hold->until_ns;
    if (hold->is_late && hold->tell_ns < due_ns) {
        due_ns = hold->tell_ns;
    }
    uint64_t after_ns = due_ns > now_ns ? due_ns - now_ns : 1;
    if (hold->timer_ns > now_ns && hold->timer_ns - now_ns <= 2 * after_ns) {
        return true;
    }
    struct itimerspec after = {.it_value = {.tv_sec = (time_t)(after_ns / 1000000000u),
                                            .tv_nsec = (long)(after_ns % 1000000000u)}};
    hold->timer_ns = now_ns + after_ns;
    return !timerfd_settime(hold->timer_fd, 0, &after, NULL);
}

/* Lets Python sleep for about this long; false: it cannot. */
bool hold_begin(struct hold *hold, uint64_t now_ns, uint64_t for_ns)
{
    hold->until_ns = now_ns + for_ns;
    hold->is_on = set_timer(hold, now_ns);
    return hold->is_on;
}

/* Sends the note that waits; false: it finds no room, so Python sends it, and nothing may be sent before. */
bool hold_tell(struct hold *hold, struct connections *connections, struct ring *ring)
{
    if (!hold->is_late) {
        return true;
    }
    struct connection *to = connections_find(connections, hold->shot.to);
    bool is_told = to && shot_tell(&hold->shot, to->fd);
    hold->is_late = false;
    if (is_told) {
        ring_flag(ring, hold->record, MA_SENT);
    }
    return is_told;
}

/* Sends the note that waits, and wakes Python; false as hold_tell. */
bool hold_end(struct hold *hold, struct connections *connections, struct ring *ring)
{
    uint64_t one = 1;
    bool is_told = hold_tell(hold, connections, ring);
    hold->is_on = false;
    ssize_t done = write(hold->event_fd, &one, sizeof one);
    (void)done; /* full: it is readable anyway */
    return is_told;
}

/* Reads the timer, and does what is due; false as hold_tell. */
bool hold_time(struct hold *hold, uint64_t now_ns, struct connections *connections,
               struct ring *ring)
{
    uint64_t times;
    if (read(hold->timer_fd, &times, sizeof times) != (ssize_t)sizeof times) {
        return true; /* it was set anew */
    }
    hold->timer_ns = 0;
    if (!hold->is_on) {
        return true;
    }
    bool is_told = now_ns < hold->tell_ns || hold_tell(hold, connections, ring);
    if (!is_told || now_ns >= hold->until_ns || !set_timer(hold, now_ns)) {
        is_told = hold_end(hold, connections, ring) && is_told;
    }
    return is_told;
}

/* The ring is empty: Python knows all. */
void hold_clear(struct hold *hold)
{
    eventfd_t count;
    hold->is_on = false;
    (void)eventfd_read(hold->event_fd, &count); /* empty: it is clear */
}

/* The note of this grant is sent then, or before the next one, or when the hold ends; or by Python, if that takes its
 * record before. */
void hold_note(struct hold *hold, const struct ma_shot *shot, size_t record, uint64_t tell_ns)
{
    hold->is_late = true;
    hold->shot = *shot;
    hold->record = record;
    hold->tell_ns = tell_ns;
}

/* Python takes this record: if its note waits, Python sends it. */
void hold_taken(struct hold *hold, size_t record)
{
    if (hold->is_late && hold->record == record) {
        hold->is_late = false;
    }
}
