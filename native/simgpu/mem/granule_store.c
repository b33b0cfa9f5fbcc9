#include "simgpu/mem/granule_store.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "simgpu/base/devices.h"
#include "simgpu/mem/interval_set.h"
#include "simgpu/shared/state.h"

#ifndef MREMAP_DONTUNMAP
#    define MREMAP_DONTUNMAP 4
#endif

#define ARENA_BYTES (1ull << 43)
#define PAGE_BYTES 4096u
#define WIPED_BYTES 64
#define HIGHEST_DESCRIPTOR_FIRST 512

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int arena = -1;
static uint64_t inode;
static uint64_t home; /* 0: there is none */
static struct sg_interval_set empty, kept[SG_DEVICES_MAX];

static int open_arena(void)
{
    struct stat status;
    int file = (int)syscall(SYS_memfd_create, "simgpu-memory", 1u /* MFD_CLOEXEC */);
    if (file < 0) {
        return -1;
    }
    if (ftruncate(file, (off_t)ARENA_BYTES) != 0 || fstat(file, &status) != 0) {
        close(file);
        return -1;
    }
    /* A high descriptor, because some programs close low ones that they do not know. */
    int high = fcntl(file, F_DUPFD_CLOEXEC, HIGHEST_DESCRIPTOR_FIRST);
    if (high >= 0) {
        close(file);
        file = high;
    }
    /* mremap moves whole page tables only if both addresses are aligned to the size that a table covers. */
    char *room = mmap(NULL, ARENA_BYTES + SG_BLOCK_BYTES, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room != MAP_FAILED) {
        uint64_t at = ((uint64_t)(uintptr_t)room + SG_BLOCK_BYTES - 1) & ~(SG_BLOCK_BYTES - 1);
        madvise(room, ARENA_BYTES + SG_BLOCK_BYTES, MADV_DONTDUMP);
        if (mmap((void *)(uintptr_t)at, ARENA_BYTES, PROT_NONE,
                 MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file, 0) != MAP_FAILED) {
            madvise((void *)(uintptr_t)at, ARENA_BYTES, MADV_DONTDUMP);
            home = at;
        }
    }
    inode = status.st_ino;
    arena = file;
    sg_interval_set_add(&empty, 0, ARENA_BYTES);
    return 0;
}

/* Gives the pages back to the host. Home is accessible only where there are pages, because mlockall fills
 * all accessible pages. */
static void punch(uint64_t offset, uint64_t bytes)
{
    if (home) {
        mprotect((void *)(uintptr_t)(home + offset), bytes, PROT_NONE);
    }
    fallocate(arena, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)bytes);
    sg_interval_set_add(&empty, offset, bytes);
}

static int may_keep(unsigned gpu, uint64_t bytes)
{
    uint64_t all = bytes;
    sg_lock();
    for (unsigned i = 0; i < sg_state->processes_high; i++) {
        all += sg_state->process[i].on[gpu].kept_bytes;
    }
    int may = sg_process && all <= sg_profile_of(gpu)->keep_bytes;
    if (may) {
        sg_process->on[gpu].kept_bytes += bytes;
    }
    sg_unlock();
    return may;
}

static void keep_less(unsigned gpu, uint64_t bytes)
{
    sg_lock();
    if (sg_process) {
        sg_process->on[gpu].kept_bytes -= bytes;
    }
    sg_unlock();
}

/* Gives up as many kept pages as will be made anew. */
static void make_up_for(unsigned gpu, uint64_t bytes)
{
    struct sg_interval_set *spans = &kept[gpu];
    uint64_t gone = 0;
    while (spans->count && gone < bytes) {
        const struct sg_interval *last = &spans->at[spans->count - 1];
        uint64_t size = last->end - last->base, end = last->end;
        size = size < bytes - gone ? size : bytes - gone;
        sg_interval_set_take_at(spans, end - size, size);
        punch(end - size, size);
        gone += size;
    }
    if (gone) {
        keep_less(gpu, gone);
    }
}

static int is_poisoned(void)
{
    static int wanted = -1;
    if (wanted < 0) {
        const char *text = getenv("MOIETY_SIMGPU_POISON");
        wanted = text && strcmp(text, "1") == 0;
    }
    return wanted;
}

/* Clears only pages that exist. Pages that were never touched cost the host no memory and no time here. */
static void wipe_pages(char *at, uint64_t offset, uint64_t bytes)
{
    unsigned char there[SG_BLOCK_BYTES / PAGE_BYTES];
    off_t first = lseek(arena, (off_t)offset, SEEK_DATA);
    if (first < 0 || (uint64_t)first >= offset + bytes) {
        return;
    }
    for (uint64_t block = 0; block < bytes; block += SG_BLOCK_BYTES) {
        if (mincore(at + block, SG_BLOCK_BYTES, there) != 0) {
            return;
        }
        for (unsigned i = 0; i < sizeof there; i++) {
            if (there[i] & 1) {
                memset(at + block + (uint64_t)i * PAGE_BYTES, 0, WIPED_BYTES);
            }
        }
    }
}

/* Old bytes must not look like a correct copy. */
static void make_new(uint64_t offset, uint64_t bytes, int was_kept)
{
    void *at = (void *)(uintptr_t)(home + offset);
    if (!was_kept && !is_poisoned()) {
        return;
    }
    if (!home) {
        at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, arena, (off_t)offset);
    }
    if (at == MAP_FAILED || mprotect(at, bytes, PROT_READ | PROT_WRITE) != 0) {
        return;
    }
    if (is_poisoned()) {
        memset(at, 0xA5, bytes);
    } else {
        wipe_pages(at, offset, bytes);
    }
    if (!home) {
        munmap(at, bytes);
    }
}

CUresult sg_granule_store_alloc(unsigned gpu, uint64_t bytes, uint64_t *offset)
{
    CUresult result = CUDA_SUCCESS;
    int was_kept = 0;
    pthread_mutex_lock(&lock);
    if (arena < 0 && open_arena() != 0) {
        result = CUDA_ERROR_OPERATING_SYSTEM;
    } else {
        *offset = sg_interval_set_take_best_fit(&kept[gpu], bytes);
        if (*offset != SG_NO_INTERVAL) {
            keep_less(gpu, bytes);
            was_kept = 1;
        } else {
            make_up_for(gpu, bytes);
            *offset = sg_interval_set_take(&empty, bytes, SG_BLOCK_BYTES);
            result = *offset == SG_NO_INTERVAL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
        }
    }
    pthread_mutex_unlock(&lock);
    if (!result) {
        make_new(*offset, bytes, was_kept);
    }
    return result;
}

void sg_granule_store_free(unsigned gpu, uint64_t offset, uint64_t bytes)
{
    pthread_mutex_lock(&lock);
    if (may_keep(gpu, bytes)) {
        sg_interval_set_add(&kept[gpu], offset, bytes);
    } else {
        punch(offset, bytes);
    }
    pthread_mutex_unlock(&lock);
}

int sg_granule_store_file(void) { return arena; }

uint64_t sg_granule_store_inode(void) { return inode; }

static int move(uint64_t from, uint64_t to, uint64_t bytes)
{
    /* DONTUNMAP keeps the addresses of these pages reserved. */
    return mremap((void *)(uintptr_t)from, bytes, bytes,
                  MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP,
                  (void *)(uintptr_t)to) == MAP_FAILED
               ? -1
               : 0;
}

int sg_granule_store_map(uint64_t offset, uint64_t address, uint64_t bytes)
{
    return home ? move(home + offset, address, bytes) : -1;
}

void sg_granule_store_unmap(uint64_t offset, uint64_t address, uint64_t bytes)
{
    if (!home) {
        return;
    }
    /* If the move fails, the next access makes new page tables, and the addresses may be unmapped. */
    if (mprotect((void *)(uintptr_t)address, bytes, PROT_READ | PROT_WRITE) == 0 &&
        move(address, home + offset, bytes) != 0 &&
        mmap((void *)(uintptr_t)(home + offset), bytes, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_FIXED | MAP_NORESERVE, arena, (off_t)offset) == MAP_FAILED) {
        abort(); /* the kernel may map something else there */
    }
}
