#include "agent/shot.h"

#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "wire/wire.h"

static bool is_drained(const struct ma_shot *shot, const void *packet, uint32_t bytes)
{
    struct mw_drained message;
    if (bytes != sizeof message) {
        return false;
    }
    memcpy(&message, packet, sizeof message);
    bool knows_gpu =
        message.gpu == MW_NO_GPU || (message.gpu < MW_GPUS_MAX && (shot->gpus >> message.gpu & 1));
    return message.header.bytes == sizeof message && message.epoch == shot->epoch && knows_gpu;
}

/* Whether it is such a note; `epoch`: of this lease, NULL: the lease does not matter. */
static bool is_note(const void *packet, uint32_t bytes, const uint32_t *epoch)
{
    struct mw_lease_note message;
    if (bytes != sizeof message) {
        return false;
    }
    memcpy(&message, packet, sizeof message);
    return message.header.bytes == sizeof message && (epoch == NULL || message.epoch == *epoch);
}

static bool is_of(const struct ma_shot *shot, const struct ma_record *record, uint32_t type,
                  const void *packet)
{
    struct mw_header header;
    if (record->key != shot->from || record->kind != MA_PACKET || record->fds ||
        record->bytes < sizeof header) {
        return false;
    }
    memcpy(&header, packet, sizeof header);
    return header.type == type;
}

/* Whether it is a message that something can be armed for. */
bool shot_may_fire(const struct ma_record *record, const void *packet)
{
    struct mw_header header = {0};
    if (record->kind == MA_PACKET && record->bytes >= sizeof header) {
        memcpy(&header, packet, sizeof header);
    }
    return header.type == MW_DRAINED || header.type == MW_LEASE_REQUEST || header.type == MW_IDLE;
}

/* Whether a packet is the message that the transition waits for, and in time. */
bool shot_matches(const struct ma_shot *shot, const struct ma_record *record, const void *packet)
{
    int64_t at_ns = (int64_t)record->at_ns;
    if (at_ns < shot->not_before_ns || at_ns > shot->not_after_ns ||
        !is_of(shot, record, shot->type, packet)) {
        return false;
    }
    if (shot->type == MW_DRAINED) {
        return is_drained(shot, packet, record->bytes);
    }
    return is_note(packet, record->bytes, shot->type == MW_IDLE ? &shot->epoch : NULL);
}

/* Whether a packet changes nothing of the transition: who has to drain asks for its next lease. */
bool shot_allows(const struct ma_shot *shot, const struct ma_record *record, const void *packet)
{
    return shot->type == MW_DRAINED && (int64_t)record->at_ns <= shot->asks_until_ns &&
           is_of(shot, record, MW_LEASE_REQUEST, packet) && is_note(packet, record->bytes, NULL);
}

/* Changes the lease word, and wakes who waits for that; false: it was another one meanwhile. */
bool shot_fire(const struct ma_shot *shot)
{
    uint32_t expected = shot->expected;
    if (!__atomic_compare_exchange_n(shot->word, &expected, shot->wanted, false, __ATOMIC_SEQ_CST,
                                     __ATOMIC_SEQ_CST)) {
        return false;
    }
    if (shot->wanted & MW_LEASE_OPEN) {
        syscall(SYS_futex, shot->word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    }
    return true;
}

/* Sends the note about it; false: there is no room, so Python sends it. */
bool shot_tell(const struct ma_shot *shot, int fd)
{
    struct mw_lease_note note = {
        .header = {.type = (uint16_t)shot->note, .bytes = sizeof note},
        .epoch = shot->note_epoch,
    };
    return send(fd, &note, sizeof note, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof note;
}
