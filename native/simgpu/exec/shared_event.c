#include "simgpu/exec/shared_event.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "simgpu/shared/clock.h"
#include "simgpu/shared/sleep.h"

#define PAGE_BYTES 4096u
#define MAGIC 0x746e657665756d73ull
#define POLL_NS (20 * SG_US)

struct page {
    uint64_t magic;
    uint64_t recorded, done; /* the number submitted; the number of the latest that is done */
};

struct sg_shared_event {
    int refs; /* of its handle, and of work in streams */
    struct page *page;
    int file; /* other processes open it through /proc */
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

void sg_shared_event_ref(struct sg_shared_event *event)
{
    __atomic_add_fetch(&event->refs, 1, __ATOMIC_ACQ_REL);
}

void sg_shared_event_unref(struct sg_shared_event *event)
{
    if (event && __atomic_sub_fetch(&event->refs, 1, __ATOMIC_ACQ_REL) == 0) {
        munmap(event->page, PAGE_BYTES);
        close(event->file);
        free(event);
    }
}

uint64_t sg_shared_event_next(struct sg_shared_event *event)
{
    return __atomic_add_fetch(&event->page->recorded, 1, __ATOMIC_ACQ_REL);
}

uint64_t sg_shared_event_word(const struct sg_shared_event *event)
{
    return (uintptr_t)&event->page->done;
}

uint64_t sg_shared_event_recorded(const struct sg_shared_event *event)
{
    return __atomic_load_n(&event->page->recorded, __ATOMIC_ACQUIRE);
}

static int is_done(struct sg_shared_event *event, uint64_t number)
{
    return __atomic_load_n(&event->page->done, __ATOMIC_ACQUIRE) >= number;
}

int sg_shared_event_done(struct sg_shared_event *event)
{
    return is_done(event, sg_shared_event_recorded(event));
}

void sg_shared_event_wait(struct sg_shared_event *event)
{
    uint64_t number = sg_shared_event_recorded(event);
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
