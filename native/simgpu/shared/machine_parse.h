/* How a user says which GPUs a simulated machine has.
 *
 * MOIETY_SIMGPU = part [+ part ...]
 * part          = [COUNTx]MODEL[:key=value[,key=value ...]]   or the path of a file of `key = value` lines
 *
 * Sizes are written in B, KiB, MiB, GiB, TiB, KB, MB, GB, TB; rates in the same units followed by /s;
 * times in ns, us, ms or s. native/simgpu/README.md lists the keys.
 */
#ifndef SIMGPU_MACHINE_PARSE_H
#define SIMGPU_MACHINE_PARSE_H

#include <stddef.h>

#include "simgpu/shared/profile.h"

/* Reads a description. Returns 0, or -EINVAL with a message for the user in `why`. */
int sg_machine_parse(struct sg_machine *machine, const char *text, char *why, size_t why_bytes);

#endif
