#include "simgpu/shared/slot_set.h"

#include "simgpu/shared/state_layout.h"

static uint64_t bit_of(unsigned slot) { return 1ull << (slot % 64); }

int sg_slots_have(const uint64_t *set, unsigned slot)
{
    return (__atomic_load_n(&set[slot / 64], __ATOMIC_SEQ_CST) & bit_of(slot)) != 0;
}

void sg_slots_add(uint64_t *set, unsigned slot)
{
    __atomic_fetch_or(&set[slot / 64], bit_of(slot), __ATOMIC_SEQ_CST);
}

void sg_slots_remove(uint64_t *set, unsigned slot)
{
    __atomic_fetch_and(&set[slot / 64], ~bit_of(slot), __ATOMIC_SEQ_CST);
}

unsigned sg_slots_next(const uint64_t *set, unsigned slot)
{
    for (unsigned step = 1; step <= SG_PROCESSES_MAX;) {
        unsigned at = (slot + step) % SG_PROCESSES_MAX;
        uint64_t rest = __atomic_load_n(&set[at / 64], __ATOMIC_SEQ_CST) >> (at % 64);
        if (rest) {
            return at + (unsigned)__builtin_ctzll(rest);
        }
        step += 64 - at % 64;
    }
    return SG_NO_SLOT;
}

unsigned sg_slots_between(const uint64_t *set, unsigned from, unsigned to)
{
    unsigned count = 0;
    for (unsigned at = sg_slots_next(set, from); at != SG_NO_SLOT && at != to && at != from;
         at = sg_slots_next(set, at)) {
        count++;
    }
    return count;
}

int sg_slots_empty(const uint64_t *set) { return sg_slots_next(set, 0) == SG_NO_SLOT; }
