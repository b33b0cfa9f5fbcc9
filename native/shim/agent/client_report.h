/* What this process tells the agent of itself once it is connected: that it shares memory, that its
 * memory cannot leave, and how often it calls what the shim does not know. */
#ifndef MOIETY_SHIM_AGENT_CLIENT_REPORT_H
#define MOIETY_SHIM_AGENT_CLIENT_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/cuda_abi.h"
#include "wire/wire.h"

/* An agent decides about this process from now on. */
void client_report_begin(struct mw_counters *read_by_agent);
/* True while an agent decides about this process. */
bool client_is_active(void);
/* True if nothing of this process can leave the GPU. */
bool client_is_pinned(void);

/* Memory of this process was exported, or another's was imported (MW_SHARED_*): processes that share
 * memory may wait for each other's work. */
void client_report_shared(uint32_t flags);
/* From now on nothing of this process can leave the GPU; `call` is the entry point that did it, without having
 * asked. */
void client_report_pinned(const char *call);

/* Asks whether bytes may stay on a GPU from now on (MW_NO_GPU: all of this process). False: others could never
 * hold again; the program's terminal says so. The caller is outside the gate and holds no lock. */
bool client_ask_pin(uint32_t gpu, uint64_t bytes, const char *call);
/* Nothing of this process leaves the GPU between the two, and for ever if the call `succeeded`. Outside the gate.
 * CUDA_ERROR_OUT_OF_MEMORY: it is refused; client_pin_end is not called then. */
CUresult client_pin_begin(const char *call);
void client_pin_end(bool succeeded);
/* Control thread: the agent agreed that nothing of this process leaves. */
void client_pin_admitted(void);

/* The same for a call that the shim does not know; it is counted. */
void client_report_unknown(const char *call);
/* Tells a new agent what the last one knew of shared memory. */
void client_report_again(void);
void client_report_after_fork(void);

#endif
