/* A bounded ring of records of any size, first in, first out. The caller holds the reader's lock. */
#ifndef MOIETY_AGENT_RING_H
#define MOIETY_AGENT_RING_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/agent_abi.h"

#define RECORD_BYTES_MAX (sizeof(struct ma_record) + MA_PACKET_BYTES + MA_FDS_MAX * sizeof(int32_t))

struct ring {
    unsigned char *bytes;
    size_t size;
    size_t head; /* taken so far */
    size_t tail; /* pushed so far */
};

bool ring_init(struct ring *ring, size_t size);
void ring_dispose(struct ring *ring);
bool ring_is_empty(const struct ring *ring);
bool ring_has_room(const struct ring *ring);
void ring_push(struct ring *ring, const struct ma_record *record, const void *packet,
               const int *fds);
void ring_flag(struct ring *ring, size_t record, uint32_t flags);
bool ring_take(struct ring *ring, struct ma_record *to);

#endif
