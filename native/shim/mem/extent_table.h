/* The table of extents, in order of address; those without an address of their own come first. All under
 * extent_lock. */
#ifndef MOIETY_SHIM_MEM_EXTENT_TABLE_H
#define MOIETY_SHIM_MEM_EXTENT_TABLE_H

#include "cuda/cuda_abi.h"
#include <stddef.h>

struct extent;

/* 0, or -ENOMEM. */
int extent_table_insert(struct extent *extent);
void extent_table_remove(struct extent *extent);
/* The extent that `pointer` lies in (before its end); NULL if none, or if it is about to go. */
struct extent *extent_table_find(CUdeviceptr pointer);
size_t extent_table_count(void);
struct extent *extent_table_get(size_t index);
void extent_table_after_fork(void);

#endif
