#include "shim/mem/extent_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shim/mem/extent.h"

static struct extent **table;
static size_t count;
static size_t room;

/* Index of the first extent whose base is above `pointer`. */
static size_t above(CUdeviceptr pointer)
{
    size_t low = 0;
    size_t high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (table[middle]->base <= pointer) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

int extent_table_insert(struct extent *extent)
{
    if (count == room) {
        size_t more = room ? room * 2 : 64;
        struct extent **grown = realloc(table, more * sizeof(struct extent *));
        if (!grown) {
            return -ENOMEM;
        }
        table = grown;
        room = more;
    }
    size_t at = above(extent->base);
    memmove(table + at + 1, table + at, (count - at) * sizeof(struct extent *));
    table[at] = extent;
    count++;
    extents_changed();
    return 0;
}

void extent_table_remove(struct extent *extent)
{
    size_t at = above(extent->base);
    while (at > 0 && table[at - 1] != extent && table[at - 1]->base == extent->base) {
        at--; /* those without an address of their own come first, in any order */
    }
    if (at > 0 && table[at - 1] == extent) {
        memmove(table + at - 1, table + at, (count - at) * sizeof(struct extent *));
        count--;
        extents_changed();
    }
}

struct extent *extent_table_find(CUdeviceptr pointer)
{
    size_t at = above(pointer);
    struct extent *extent = at ? table[at - 1] : NULL;
    bool inside = extent && extent->base && pointer < extent_end(extent) && !extent->retiring;
    return inside ? extent : NULL;
}

size_t extent_table_count(void) { return count; }

struct extent *extent_table_get(size_t index) { return table[index]; }

void extent_table_after_fork(void)
{
    count = 0;
    extents_changed();
}
