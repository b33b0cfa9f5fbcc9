/* Transitions of leases that the arbiter decided ahead. The caller holds the reader's lock. */
#ifndef MOIETY_AGENT_SHOT_H
#define MOIETY_AGENT_SHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/agent_abi.h"

bool shot_may_fire(const struct ma_record *record, const void *packet);
bool shot_matches(const struct ma_shot *shot, const struct ma_record *record, const void *packet);
bool shot_allows(const struct ma_shot *shot, const struct ma_record *record, const void *packet);
bool shot_fire(const struct ma_shot *shot);
bool shot_tell(const struct ma_shot *shot, int fd);

#endif
