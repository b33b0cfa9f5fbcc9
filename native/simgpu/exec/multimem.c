#include "simgpu/exec/multimem.h"

#include "simgpu/exec/guard.h"
#include "simgpu/mem/address.h"
#include "simgpu/mem/multicast.h"

#define WORDS_AT_ONCE 512u

/* The object that is mapped there with this access, with a reference of the caller's. */
static struct sg_multicast *hold(const uint64_t *at, uint64_t count, CUmemAccess_flags least,
                                 uint64_t *offset)
{
    uint64_t address = (uint64_t)(uintptr_t)at;
    struct sg_multicast *object = NULL;
    sg_ranges_lock();
    const struct sg_range *range = sg_ranges_find_mapped(address);
    if (range && range->multicast && range->access >= (int)least &&
        count <= (range->size - (address - range->base)) / sizeof *at) {
        object = range->multicast;
        *offset = address - range->base;
        sg_multicast_ref(object);
    }
    sg_ranges_unlock();
    return object;
}

static void end(struct sg_multicast *object, CUresult result, const uint64_t *at)
{
    if (object) {
        sg_multicast_unref(object);
    }
    if (result) {
        sg_guard_fail((uint64_t)(uintptr_t)at);
    }
}

static CUresult move(const struct sg_multicast *object, unsigned gpu, uint64_t offset,
                     uint64_t *words, uint64_t count, int writes)
{
    for (uint64_t done = 0; count; count -= done, words += done, offset += done * sizeof *words) {
        done = sg_multicast_move(object, gpu, offset, words, count, writes);
        if (!done) {
            return CUDA_ERROR_ILLEGAL_ADDRESS;
        }
    }
    return CUDA_SUCCESS;
}

static CUresult store(const struct sg_multicast *object, uint64_t offset, const uint64_t *words,
                      uint64_t count)
{
    CUresult result = CUDA_SUCCESS;
    for (unsigned gpu = 0; gpu < SG_DEVICES_MAX && !result; gpu++) {
        if (sg_multicast_has(object, gpu)) {
            result = move(object, gpu, offset, (uint64_t *)(uintptr_t)words, count, 1);
        }
    }
    return result;
}

static CUresult add(const struct sg_multicast *object, unsigned gpu, uint64_t offset,
                    uint64_t *sums, uint64_t count)
{
    uint64_t words[WORDS_AT_ONCE];
    for (uint64_t done = 0; done < count;) {
        uint64_t now = count - done < WORDS_AT_ONCE ? count - done : WORDS_AT_ONCE;
        CUresult result = move(object, gpu, offset + done * sizeof *words, words, now, 0);
        if (result) {
            return result;
        }
        for (uint64_t i = 0; i < now; i++) {
            sums[done + i] += words[i];
        }
        done += now;
    }
    return CUDA_SUCCESS;
}

static CUresult sum(const struct sg_multicast *object, uint64_t offset, uint64_t *sums,
                    uint64_t count)
{
    CUresult result = CUDA_SUCCESS;
    for (uint64_t i = 0; i < count; i++) {
        sums[i] = 0;
    }
    for (unsigned gpu = 0; gpu < SG_DEVICES_MAX && !result; gpu++) {
        if (sg_multicast_has(object, gpu)) {
            result = add(object, gpu, offset, sums, count);
        }
    }
    return result;
}

void sg_multimem_store(uint64_t *at, const uint64_t *words, uint64_t count)
{
    uint64_t offset = 0;
    struct sg_multicast *object = hold(at, count, CU_MEM_ACCESS_FLAGS_PROT_READWRITE, &offset);
    end(object, object ? store(object, offset, words, count) : CUDA_ERROR_ILLEGAL_ADDRESS, at);
}

void sg_multimem_sum(uint64_t *sums, const uint64_t *at, uint64_t count)
{
    uint64_t offset = 0;
    struct sg_multicast *object = hold(at, count, CU_MEM_ACCESS_FLAGS_PROT_READ, &offset);
    end(object, object ? sum(object, offset, sums, count) : CUDA_ERROR_ILLEGAL_ADDRESS, at);
}
