#include "simgpu/shared/link_bandwidth.h"

#include <errno.h>
#include <pthread.h>

#include "simgpu/shared/clock.h"
#include "simgpu/shared/state_layout.h"

static void note(struct sg_busy *busy, uint64_t start_ns, uint64_t duration_ns)
{
    uint64_t number = start_ns / SG_BUCKET_NS;
    unsigned i = number % SG_BUCKETS;
    if (busy->bucket[i].number != number) {
        busy->bucket[i].number = number;
        busy->bucket[i].ns = 0;
    }
    busy->bucket[i].ns += duration_ns;
    busy->total_ns += duration_ns;
}

void sg_note_compute(unsigned device, uint64_t start_ns, uint64_t duration_ns)
{
    note(&sg_state->device[device].busy, start_ns, duration_ns);
    if (sg_process) {
        note(&sg_process->on[device].busy, start_ns, duration_ns);
        sg_process->counters.busy_ns += duration_ns;
    }
}

/* Books what both directions of a link share: one copy engine, or the rate that both reach together.
 * Returns the end of a piece that one direction booked from `start` to `end`. */
static uint64_t share_link(struct sg_device *gpu, const struct sg_profile *profile,
                           enum sg_resource resource, uint64_t end, uint64_t start,
                           uint64_t duration_ns)
{
    uint64_t own = resource == SG_LINK_H2D ? profile->h2d_bytes_per_s : profile->d2h_bytes_per_s;
    uint64_t both = profile->duplex_bytes_per_s;
    if (profile->copy_engines != 1 && (!both || !own)) {
        return end;
    }
    double part = profile->copy_engines == 1 ? 1.0 : (double)own / (double)both;
    uint64_t from = gpu->duplex_until_ns > start ? gpu->duplex_until_ns : start;
    gpu->duplex_until_ns = from + (uint64_t)((double)duration_ns * (part < 1.0 ? part : 1.0));
    return gpu->duplex_until_ns > end ? gpu->duplex_until_ns : end;
}

uint64_t sg_book(unsigned device, enum sg_resource resource, uint64_t ready_ns,
                 uint64_t duration_ns)
{
    struct sg_device *gpu = &sg_state->device[device];
    uint64_t *until =
        resource == SG_COMPUTE ? &gpu->compute_until_ns : &gpu->link_until_ns[resource];
    pthread_mutex_t *lock = &sg_state->time_lock[device];
    if (pthread_mutex_lock(lock) == EOWNERDEAD) {
        pthread_mutex_consistent(lock);
    }
    uint64_t start = *until > ready_ns ? *until : ready_ns;
    *until = start + duration_ns;
    if (resource == SG_COMPUTE) {
        sg_note_compute(device, start, duration_ns);
    } else {
        note(&gpu->link_busy[resource], start, duration_ns);
        *until = share_link(gpu, &sg_state->machine.profile[device], resource, *until, start,
                            duration_ns);
    }
    uint64_t end = *until;
    pthread_mutex_unlock(lock);
    return end;
}

static unsigned percent(const struct sg_busy *busy)
{
    uint64_t now = sg_now_ns() / SG_BUCKET_NS, sum = 0, window = SG_S / SG_BUCKET_NS;
    for (unsigned i = 0; i < SG_BUCKETS;
         i++) { /* skips the current bucket, which is not full yet */
        if (busy->bucket[i].number < now && busy->bucket[i].number + window >= now) {
            sum += busy->bucket[i].ns;
        }
    }
    unsigned share = (unsigned)((sum * 100 + SG_S / 2) / SG_S);
    return share > 100 ? 100 : share;
}

unsigned sg_utilisation(unsigned device, enum sg_resource resource)
{
    const struct sg_device *gpu = &sg_state->device[device];
    return percent(resource == SG_COMPUTE ? &gpu->busy : &gpu->link_busy[resource]);
}

unsigned sg_process_utilisation(unsigned device, const struct sg_process *process)
{
    return percent(&process->on[device].busy);
}
