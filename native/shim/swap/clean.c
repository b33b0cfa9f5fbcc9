#include "shim/swap/clean.h"

#include <stdlib.h>
#include <string.h>

#include "shim/agent/client_report.h"
#include "shim/mem/extent_table.h"
#include "shim/swap/host_arena.h"

#define CHANGES_MAX 3u /* in a row: such a chunk is hashed no more, */
#define TRY_AGAIN 16u  /* except once in this many leases */
#define READS_A_COPY \
    4 /* memory that is read less often while it is copied once is not worth hashing */

static enum clean_mode mode; /* changes before the control thread begins only */

void clean_read_mode(void)
{
    const char *text = getenv("MOIETY_CLEAN");
    mode = CLEAN_ON;
    if (text && strcmp(text, "verify") == 0) {
        mode = CLEAN_VERIFY;
    } else if (text && strcmp(text, "off") == 0) {
        mode = CLEAN_OFF;
    }
}

enum clean_mode clean_mode(void) { return mode; }

static void drop_copy(struct chunk *chunk)
{
    if (chunk->host) {
        host_arena_give_back(chunk->host, chunk->bytes);
    }
    chunk->host = NULL;
    if (chunk->content == CHUNK_CLEAN) {
        chunk->content = CHUNK_DATA;
    }
}

bool clean_is_worth_it(double memory_rate, double link_rate)
{
    return memory_rate <= 0 || link_rate <= 0 || memory_rate >= READS_A_COPY * link_rate;
}

bool clean_wants_hash(const struct extent *extent, const struct chunk *chunk)
{
    if (clean_mode() == CLEAN_OFF || extent->pins || extent->was_pinned || extent->exported ||
        extent_is_managed(extent) || client_is_pinned()) {
        return false;
    }
    return chunk->host || chunk->changes < CHANGES_MAX ||
           extent->device->lease_count % TRY_AGAIN == 0;
}

void clean_scanned(struct chunk *chunk, uint32_t turn, bool is_zero,
                   const struct content_hash *hash)
{
    bool same = hash && !is_zero && chunk->host && chunk->is_hashed &&
                memcmp(hash, &chunk->hash, sizeof(*hash)) == 0;
    chunk->scanned_turn = turn;
    chunk->is_hashed = hash && !is_zero;
    if (chunk->is_hashed) {
        chunk->hash = *hash;
    }
    if (same) {
        chunk->content = CHUNK_CLEAN;
        chunk->changes = 0;
        return;
    }
    if (chunk->host) {
        chunk->changes += chunk->changes < CHANGES_MAX;
        chunk->is_hashed = chunk->is_hashed && chunk->changes < CHANGES_MAX;
    }
    drop_copy(chunk);
    chunk->content = is_zero ? CHUNK_ZERO : CHUNK_DATA;
}

void clean_not_scanned(struct chunk *chunk)
{
    drop_copy(chunk);
    chunk->is_hashed = false;
    chunk->content = CHUNK_DATA;
}

void clean_use_copy(struct chunk *chunk) { host_arena_set_spare(chunk->host, chunk->bytes, false); }

void clean_stays(struct chunk *chunk)
{
    if (chunk->host) {
        host_arena_set_spare(chunk->host, chunk->bytes, true);
    }
}

void clean_restored(struct chunk *chunk, bool true_copy)
{
    if (true_copy) {
        host_arena_set_spare(chunk->host, chunk->bytes, true);
    } else {
        drop_copy(chunk);
        chunk->is_hashed = false;
    }
    chunk->content = CHUNK_DATA;
}

void clean_drop_within(const unsigned char *base, uint64_t bytes)
{
    LOCK_SCOPE(&extent_lock);
    for (size_t b = 0; b < extent_table_count(); b++) {
        struct extent *extent = extent_table_get(b);
        for (uint32_t i = 0; i < extent->chunk_count; i++) {
            struct chunk *chunk = &extent->chunks[i];
            const unsigned char *host = chunk->host;
            if (chunk->state == CHUNK_RESIDENT && host && host < base + bytes &&
                host + chunk->bytes > base && host_arena_is_spare(host)) {
                drop_copy(chunk);
            }
        }
    }
}

bool clean_make_room(uint64_t bytes)
{
    const unsigned char *base = host_arena_find_spare(bytes);
    if (base) {
        clean_drop_within(base, bytes);
    }
    return base != NULL;
}
