#include "agent/hold.h"

#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "agent/shot.h"

/* A hold that ends within this time is not set anew: on a virtual machine, that takes as long as a message. */
#define SOON_LEAST_NS 50000u
#define SOON_MOST_NS 500000u

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

static bool ends_soon(const struct hold *hold, uint64_t now_ns)
{
    return hold->is_on && hold->until_ns >= now_ns + SOON_LEAST_NS &&
           hold->until_ns <= now_ns + SOON_MOST_NS;
}

/* Lets Python sleep for about this long. */
void hold_begin(struct hold *hold, uint64_t now_ns, uint64_t for_ns)
{
    struct itimerspec after = {.it_value = {.tv_sec = (time_t)(for_ns / 1000000000u),
                                            .tv_nsec = (long)(for_ns % 1000000000u)}};
    if (!ends_soon(hold, now_ns)) {
        hold->is_on = !timerfd_settime(hold->timer_fd, 0, &after, NULL);
        hold->until_ns = now_ns + for_ns;
    }
}

static void tell_late(struct hold *hold, struct connections *connections)
{
    if (hold->late == LATE_WAITS) {
        struct connection *to = connections_find(connections, hold->late_shot.to);
        bool is_told = to && shot_tell(&hold->late_shot, to->fd);
        hold->late = is_told ? LATE_SENT : LATE_NONE;
    }
}

/* Sends the note that waits, and wakes Python. */
void hold_end(struct hold *hold, struct connections *connections)
{
    uint64_t one = 1;
    tell_late(hold, connections);
    hold->is_on = false;
    ssize_t done = write(hold->event_fd, &one, sizeof one);
    (void)done; /* full: it is readable anyway */
}

/* Reads the timer; whether the time of the hold has passed. */
bool hold_is_over(struct hold *hold)
{
    uint64_t times;
    return read(hold->timer_fd, &times, sizeof times) == (ssize_t)sizeof times && hold->is_on;
}

/* The ring is empty: Python knows all. */
void hold_clear(struct hold *hold)
{
    eventfd_t count;
    hold->is_on = false;
    (void)eventfd_read(hold->event_fd, &count); /* empty: it is clear */
}

/* The note of this grant is sent when the hold ends, or by Python, if that takes its record before. The ring has
 * one such record at most: nothing is armed anew before Python has taken it. */
void hold_note(struct hold *hold, const struct ma_shot *shot, size_t record)
{
    hold->late = LATE_WAITS;
    hold->late_shot = *shot;
    hold->late_record = record;
}

/* Python takes this record: whether its note was sent. If not, it is not sent any more. */
bool hold_has_told(struct hold *hold, size_t record)
{
    bool is_it = hold->late != LATE_NONE && hold->late_record == record;
    bool is_told = is_it && hold->late == LATE_SENT;
    if (is_it) {
        hold->late = LATE_NONE;
    }
    return is_told;
}
