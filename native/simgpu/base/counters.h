/* Counts of the work that reached the driver from this process; simgpu_counters() reads them. */
#ifndef SIMGPU_COUNTERS_H
#define SIMGPU_COUNTERS_H

#include <stdint.h>

enum sg_counted { SG_LAUNCHED, SG_GRAPH_LAUNCHED, SG_COPIED, SG_MEMSET_DONE, SG_HOST_CALLED };
void sg_count(enum sg_counted what, uint64_t bytes);

#endif
