/* What is known of the streams in which pools' memory was freed, when their threads end. */
#include "shim/pool/stream_fence.h"

#include <pthread.h>

#include "fake_driver.h"
#include "shim/gate/gate.h"

#include "check.h"

#define THREADS 200

bool gate_in_capture(void) { return false; }

static int context;
static bool is_busy; /* whether the work in front of the events is unfinished */
static int events;

static CUresult fake_current(CUcontext *current)
{
    *current = (CUcontext)(void *)&context;
    return CUDA_SUCCESS;
}

static CUresult fake_event(CUevent *event, unsigned flags)
{
    (void)flags;
    *event = (CUevent)(void *)&events;
    events++;
    return CUDA_SUCCESS;
}

static CUresult fake_end_event(CUevent event)
{
    events -= event != NULL;
    return CUDA_SUCCESS;
}

static CUresult fake_query(void) { return is_busy ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS; }

struct piece_of_thread {
    struct stream_fence *fence;
    uint64_t number;
};

/* One thread frees a piece in its own stream. */
static void *free_one(void *piece)
{
    struct piece_of_thread *one = piece;
    LOCK_SCOPE(&pools_lock);
    CHECK(stream_fence_of(CU_STREAM_PER_THREAD, &one->fence) == CUDA_SUCCESS);
    one->fence->pieces++;
    one->number = stream_fence_free(one->fence);
    return NULL;
}

static struct piece_of_thread in_a_thread(void)
{
    struct piece_of_thread one = {NULL, 0};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, free_one, &one) == 0);
    pthread_join(thread, NULL);
    return one;
}

static void test_threads_that_end_leave_nothing_behind(void)
{
    for (int i = 0; i < THREADS; i++) {
        struct piece_of_thread one = in_a_thread();
        LOCK_SCOPE(&pools_lock);
        stream_fences_poll();
        CHECK(stream_fence_is_over(one.fence, one.number));
        one.fence->pieces--; /* the piece is used again */
        CHECK(events <= 2);
    }
}

static void test_what_a_thread_freed_waits_for_its_work(void)
{
    is_busy = true;
    struct piece_of_thread one = in_a_thread();
    struct piece_of_thread other = in_a_thread();
    LOCK_SCOPE(&pools_lock);
    CHECK(one.fence != other.fence);
    stream_fences_poll();
    CHECK(!stream_fence_is_over(one.fence, one.number));
    is_busy = false;
    stream_fences_poll();
    CHECK(stream_fence_is_over(one.fence, one.number));
    CHECK(stream_fence_is_over(other.fence, other.number));
}

int main(void)
{
    fake_driver();
    driver_entries[ENTRY_cuCtxGetCurrent] = (void *)fake_current;
    driver_entries[ENTRY_cuEventCreate] = (void *)fake_event;
    driver_entries[ENTRY_cuEventDestroy_v2] = (void *)fake_end_event;
    driver_entries[ENTRY_cuEventQuery] = (void *)fake_query;
    driver_entries[ENTRY_cuStreamQuery] = (void *)fake_query;
    driver_threads.key_create = (int (*)(unsigned *, void (*)(void *)))pthread_key_create;
    driver_threads.set_specific = (int (*)(unsigned, const void *))pthread_setspecific;
    test_threads_that_end_leave_nothing_behind();
    test_what_a_thread_freed_waits_for_its_work();
    return check_end();
}
