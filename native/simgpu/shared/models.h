/* The GPUs that a simulated machine can have, as they are unless the description says otherwise. */
#ifndef SIMGPU_MODELS_H
#define SIMGPU_MODELS_H

#include <stddef.h>

#include "simgpu/shared/profile.h"

extern const struct sg_profile sg_models[];
extern const size_t sg_model_count;

#endif
