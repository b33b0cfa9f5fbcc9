#include "simgpu/exec/conditional_value.h"

#include <pthread.h>

#include "simgpu/base/resize.h"

/* A handle is this number plus an index. */
#define HANDLE_BASE (0x51ull << 32)
#define NO_GRAPH ((CUgraph)(uintptr_t)1) /* whose values it was is gone */

struct value {
    CUgraph graph; /* NULL: gone */
    unsigned now, initial;
    int assigns, used;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct value *values;
static size_t value_count;

/* With the lock held. */
static struct value *value_of(uint64_t handle)
{
    uint64_t at = handle - HANDLE_BASE;
    return at < value_count && values[at].graph ? &values[at] : NULL;
}

CUgraphConditionalHandle sg_conditional_value_new(CUgraph graph, unsigned initial, int assigns)
{
    pthread_mutex_lock(&lock);
    values = sg_resize(values, (value_count + 1) * sizeof *values);
    values[value_count] = (struct value){graph, initial, initial, assigns, 0};
    CUgraphConditionalHandle handle = HANDLE_BASE + value_count++;
    pthread_mutex_unlock(&lock);
    return handle;
}

void sg_conditional_value_set(uint64_t handle, unsigned value)
{
    pthread_mutex_lock(&lock);
    struct value *known = value_of(handle);
    if (known) {
        known->now = value;
    }
    pthread_mutex_unlock(&lock);
}

unsigned sg_conditional_value_get(uint64_t handle)
{
    pthread_mutex_lock(&lock);
    const struct value *value = value_of(handle);
    unsigned now = value ? value->now : 0;
    pthread_mutex_unlock(&lock);
    return now;
}

void sg_conditional_value_begin(uint64_t handle)
{
    pthread_mutex_lock(&lock);
    struct value *value = value_of(handle);
    if (value && value->assigns) {
        value->now = value->initial;
    }
    pthread_mutex_unlock(&lock);
}

int sg_conditional_value_use(uint64_t handle)
{
    pthread_mutex_lock(&lock);
    struct value *value = value_of(handle);
    if (value) {
        value->used = 1;
    }
    pthread_mutex_unlock(&lock);
    return value != NULL;
}

int sg_conditionals_are_used(CUgraph graph)
{
    int used = 1;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < value_count; i++) {
        used &= values[i].graph != graph || values[i].used;
    }
    pthread_mutex_unlock(&lock);
    return used;
}

/* An executable copy may outlive the graph and goes on using the handles. Only the link to the graph is
 * cut, because another graph may get its address. */
void sg_conditionals_release(CUgraph graph)
{
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < value_count; i++) {
        if (values[i].graph == graph) {
            values[i].graph = NO_GRAPH;
        }
    }
    pthread_mutex_unlock(&lock);
}
