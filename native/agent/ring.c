#include "agent/ring.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* `size` is at least one largest record. */
bool ring_init(struct ring *ring, size_t size)
{
    ring->size = size < RECORD_BYTES_MAX ? RECORD_BYTES_MAX : size;
    ring->head = ring->tail = 0;
    ring->bytes = malloc(ring->size);
    return ring->bytes != NULL;
}

void ring_dispose(struct ring *ring) { free(ring->bytes); }

bool ring_is_empty(const struct ring *ring) { return ring->head == ring->tail; }

/* Whether the largest record fits. */
bool ring_has_room(const struct ring *ring)
{
    return ring->size - (ring->tail - ring->head) >= RECORD_BYTES_MAX;
}

static void put(struct ring *ring, const void *from, size_t bytes)
{
    size_t at = ring->tail % ring->size;
    size_t first = bytes < ring->size - at ? bytes : ring->size - at;
    memcpy(ring->bytes + at, from, first);
    memcpy(ring->bytes, (const unsigned char *)from + first, bytes - first);
    ring->tail += bytes;
}

static void get(struct ring *ring, void *to, size_t bytes)
{
    size_t at = ring->head % ring->size;
    size_t first = bytes < ring->size - at ? bytes : ring->size - at;
    memcpy(to, ring->bytes + at, first);
    memcpy((unsigned char *)to + first, ring->bytes, bytes - first);
    ring->head += bytes;
}

void ring_push(struct ring *ring, const struct ma_record *record, const void *packet,
               const int *fds)
{
    put(ring, record, sizeof *record);
    put(ring, packet, record->bytes);
    put(ring, fds, record->fds * sizeof *fds);
}

/* Gives flags to a record that was not taken yet; `record` is where it begins. */
void ring_flag(struct ring *ring, size_t record, uint32_t flags)
{
    unsigned char *bytes = (unsigned char *)&flags;
    size_t at = record + offsetof(struct ma_record, flags);
    for (size_t i = 0; i < sizeof flags; i++) {
        ring->bytes[(at + i) % ring->size] |= bytes[i];
    }
}

/* Copies the oldest record, with packet and descriptors behind it; `to` has RECORD_BYTES_MAX. */
bool ring_take(struct ring *ring, struct ma_record *to)
{
    if (ring_is_empty(ring)) {
        return false;
    }
    get(ring, to, sizeof *to);
    get(ring, to + 1, to->bytes + to->fds * sizeof(int));
    return true;
}
