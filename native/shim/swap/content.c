#include "shim/swap/content.h"

#include "shim/mem/extent.h"
#include "shim/mem/extent_table.h"

static void add(struct content *content, const struct extent *extent)
{
    for (uint32_t i = 0; i < extent->chunk_count; i++) {
        const struct chunk *chunk = &extent->chunks[i];
        bool scanned = chunk->scanned_turn == extent->device->lease_count;
        bool leaves = chunk->state == CHUNK_RESIDENT && !chunk->busy && !extent->pins;
        if (leaves && scanned && chunk->content == CHUNK_ZERO) {
            content->zero_bytes += chunk->bytes;
        }
        /* the copy of a resident chunk is spare (clean.h) */
        content->host_bytes += chunk->host && chunk->state != CHUNK_RESIDENT ? chunk->bytes : 0;
    }
}

struct content content_count(const struct device *device)
{
    struct content content = {0};
    for (size_t i = 0; i < extent_table_count(); i++) {
        const struct extent *extent = extent_table_get(i);
        if (extent->device == device && !extent->retiring) {
            add(&content, extent);
        }
    }
    return content;
}
