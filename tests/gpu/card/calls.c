/* Times single calls of the driver: ctypes alone costs as much as many of them take.
 * All arguments of these calls are integers or pointers, so that one type of function serves them all.
 */
#include <stdint.h>
#include <time.h>

#define ARGUMENTS 11

typedef int (*call)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                    uint64_t, uint64_t, uint64_t);

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int make(call function, const uint64_t *a)
{
    return function(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10]);
}

/* Each row of the table is a call (with `step` 0 the first row each time); `inner` times each. ns[i]: one call
 * of row i. Ends at the first error and returns it. */
int time_calls(call function, const uint64_t *table, uint64_t step, uint64_t rows, uint64_t inner,
               double *ns)
{
    for (uint64_t i = 0; i < rows; i++) {
        double began = now_ns();
        for (uint64_t j = 0; j < inner; j++) {
            int error = make(function, table + i * step);
            if (error) {
                return error;
            }
        }
        ns[i] = (now_ns() - began) / (double)inner;
    }
    return 0;
}

/* `count` launches with a mark (an event) after each `every` of them, and never more than `depth` marks
 * unfinished. ns: of one launch, marks and waits included, until the last mark is done. */
int time_bounded(call launch, const uint64_t *launching, call record, call wait,
                 const uint64_t *events, uint64_t depth, uint64_t stream, uint64_t every,
                 uint64_t count, double *ns)
{
    uint64_t marks = 0;
    double began = now_ns();
    for (uint64_t i = 1; i <= count; i++) {
        int error = make(launch, launching);
        if (!error && depth && i % every == 0) {
            uint64_t event[ARGUMENTS] = {events[marks % depth], stream};
            if (marks >= depth) {
                error = make(wait, event);
            }
            if (!error) {
                error = make(record, event);
            }
            marks++;
        }
        if (error) {
            return error;
        }
    }
    *ns = (now_ns() - began) / (double)count;
    return 0;
}
