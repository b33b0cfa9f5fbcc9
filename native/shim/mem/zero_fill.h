/* New memory is set to zeros, where programs may ask for more than there is: what they never write is zeros then,
 * and needs no host memory when it leaves (swap/zero_scan.h). */
#ifndef MOIETY_SHIM_MEM_ZERO_FILL_H
#define MOIETY_SHIM_MEM_ZERO_FILL_H

#include <stdint.h>

struct extent;

/* Whether the agent wants it: mw_welcome.flags. */
void zero_fill_set(uint32_t welcome_flags);
/* Sets an extent, which no thread uses yet, to zeros, and waits for that. The caller is in the gate and holds no
 * lock. Where it does not work the extent counts as data, and so does memory that has no addresses of its own. */
void zero_fill(struct extent *extent);

#endif
