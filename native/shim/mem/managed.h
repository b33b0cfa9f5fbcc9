/* Extents of managed memory: the driver moves their pages when they are touched, we move nothing. */
#ifndef MOIETY_SHIM_MEM_MANAGED_H
#define MOIETY_SHIM_MEM_MANAGED_H

#include "shim/mem/extent.h"

#define MANAGED_PAGE (64ull << 10) /* what it is charged in */

/* An extent of `bytes` as managed memory of the current context, with the driver's own flag; not in
 * the table yet. It is used through the open gate like any other. */
CUresult managed_make(struct extent **extent, struct device *device, uint64_t bytes,
                      unsigned attach);

#endif
