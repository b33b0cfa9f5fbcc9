/* Which GPUs the workload of this process is a share of. */
#ifndef MOIETY_SHIM_AGENT_OWN_GPUS_H
#define MOIETY_SHIM_AGENT_OWN_GPUS_H

#include "shim/base/visible_list.h"

/* Asks the agent, once in the life of the process: from then on they do not change. NULL: no GPU is hidden, because
 * the workload is one of every GPU, or there is no agent, or an older one. Waits for an agent that is being
 * replaced. */
const struct visible_gpus *own_gpus(void);
void own_gpus_after_fork(void);

#endif
