#include "simgpu/event_share.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE_BYTES 4096u
#define MAGIC 0x746e657665756d73ull
#define POLL_NS (20 * SG_US)

struct page {
    uint64_t magic;
    uint64_t recorded, done; /* how many were submitted; the latest that is done */
};

struct sg_shared_event {
    int refs; /* its handle, and work in streams that touches the page */
    struct page *page;
    int file; /* others find it through /proc */
};

struct token {
    uint64_t magic, inode;
    int32_t process, file;
};
_Static_assert(sizeof(struct token) <= sizeof(CUipcEventHandle), "a token fits into a handle");

static struct sg_shared_event *map(int file)
{
    struct sg_shared_event *event = calloc(1, sizeof *event);
    void *page =
        file < 0 ? MAP_FAILED : mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (!event || page == MAP_FAILED) {
        if (file >= 0) {
            close(file);
        }
        free(event);
        return NULL;
    }
    event->refs = 1;
    event->page = page;
    event->file = file;
    return event;
}

struct sg_shared_event *sg_shared_event_new(void)
{
    int file = (int)syscall(SYS_memfd_create, "simgpu-event", 1u /* MFD_CLOEXEC */);
    if (file >= 0 && ftruncate(file, PAGE_BYTES) < 0) {
        close(file);
        file = -1;
    }
    struct sg_shared_event *event = map(file);
    if (event) {
        event->page->magic = MAGIC;
    }
    return event;
}

void sg_shared_event_unref(struct sg_shared_event *event)
{
    if (event && __atomic_sub_fetch(&event->refs, 1, __ATOMIC_ACQ_REL) == 0) {
        munmap(event->page, PAGE_BYTES);
        close(event->file);
        free(event);
    }
}

static CUresult submit(struct sg_shared_event *event, CUstream stream, unsigned operation,
                       uint64_t value)
{
    struct sg_op *op = sg_op_new(SG_OP_MEMOPS);
    op->memops.items = calloc(1, sizeof *op->memops.items);
    if (!op->memops.items) {
        abort(); /* a few hundred bytes of host memory: there is no way on */
    }
    __atomic_add_fetch(&event->refs, 1, __ATOMIC_ACQ_REL);
    op->memops.event = event;
    op->memops.count = 1;
    op->memops.items->operation = operation;
    op->memops.items->waitValue.address = (uintptr_t)&event->page->done;
    op->memops.items->waitValue.value64 = value;
    op->memops.items->waitValue.flags =
        operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ? CU_STREAM_WAIT_VALUE_GEQ : 0;
    return sg_submit(stream, op);
}

CUresult sg_shared_event_record(struct sg_shared_event *event, CUstream stream)
{
    uint64_t number = __atomic_add_fetch(&event->page->recorded, 1, __ATOMIC_ACQ_REL);
    return submit(event, stream, CU_STREAM_MEM_OP_WRITE_VALUE_64, number);
}

static uint64_t recorded(struct sg_shared_event *event)
{
    return __atomic_load_n(&event->page->recorded, __ATOMIC_ACQUIRE);
}

static int is_done(struct sg_shared_event *event, uint64_t number)
{
    return __atomic_load_n(&event->page->done, __ATOMIC_ACQUIRE) >= number;
}

CUresult sg_shared_event_hold(struct sg_shared_event *event, CUstream stream)
{
    uint64_t number = recorded(event);
    return is_done(event, number) ? CUDA_SUCCESS
                                  : submit(event, stream, CU_STREAM_MEM_OP_WAIT_VALUE_64, number);
}

int sg_shared_event_done(struct sg_shared_event *event) { return is_done(event, recorded(event)); }

void sg_shared_event_wait(struct sg_shared_event *event)
{
    uint64_t number = recorded(event);
    while (!is_done(event, number)) {
        sg_sleep_until(sg_now_ns() + POLL_NS);
    }
}

void sg_shared_event_handle(const struct sg_shared_event *event, CUipcEventHandle *handle)
{
    struct stat status = {0};
    fstat(event->file, &status);
    struct token token = {MAGIC, status.st_ino, getpid(), event->file};
    memset(handle, 0, sizeof *handle);
    memcpy(handle, &token, sizeof token);
}

struct sg_shared_event *sg_shared_event_open(const CUipcEventHandle *handle)
{
    struct token token;
    struct stat status;
    char path[64];
    memcpy(&token, handle, sizeof token);
    if (token.magic != MAGIC || token.process == getpid()) {
        return NULL;
    }
    snprintf(path, sizeof path, "/proc/%d/fd/%d", token.process, token.file);
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0 || fstat(file, &status) < 0 || status.st_ino != token.inode ||
        status.st_size != PAGE_BYTES) {
        if (file >= 0) {
            close(file);
        }
        return NULL;
    }
    struct sg_shared_event *event = map(file);
    if (event && event->page->magic != MAGIC) {
        sg_shared_event_unref(event);
        return NULL;
    }
    return event;
}
