/* The GPUs that a simulated machine can have, with their default numbers. */
#ifndef SIMGPU_CARDS_H
#define SIMGPU_CARDS_H

#include <stddef.h>

#include "simgpu/shared/profile.h"

extern const struct sg_profile sg_cards[];
extern const size_t sg_card_count;

#endif
