/* What Python calls; ctypes finds these functions by their names (src/moiety/agent/core/native_reader.py). */
#ifndef MOIETY_AGENT_READER_H
#define MOIETY_AGENT_READER_H

#include <stdint.h>

#include "agent/agent_abi.h"

#define MA_EXPORT __attribute__((visibility("default")))

struct ma_reader;

MA_EXPORT struct ma_reader *moiety_agent_start(uint64_t ring_bytes, uint64_t hold_ns,
                                               int *event_fd);
MA_EXPORT void moiety_agent_stop(struct ma_reader *reader);
MA_EXPORT uint64_t moiety_agent_add(struct ma_reader *reader, int fd, uint32_t account);
MA_EXPORT void moiety_agent_remove(struct ma_reader *reader, uint64_t key);
MA_EXPORT void moiety_agent_resume(struct ma_reader *reader, uint64_t key);
MA_EXPORT int moiety_agent_take(struct ma_reader *reader, struct ma_record *to);
MA_EXPORT int moiety_agent_arm(struct ma_reader *reader, const struct ma_shot *shots,
                               uint32_t heads, uint32_t count);
MA_EXPORT int moiety_agent_disarm(struct ma_reader *reader);
MA_EXPORT void moiety_agent_counts(struct ma_reader *reader, struct ma_counts *to);

#endif
