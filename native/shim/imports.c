#include "shim/imports.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/blocks.h"
#include "shim/gate.h"
#include "shim/link.h"
#include "shim/lock.h"
#include "shim/memory.h"
#include "shim/real.h"

struct import {
    struct import *next;
    struct token token;
    CUcontext context;
    CUdevice device;
    CUdeviceptr base; /* of all pieces */
    uint64_t bytes;
    CUdeviceptr pointer; /* that the program has */
    uint32_t opens;
    uint32_t gpu;
    uint64_t number; /* never used again */
};

/* What a thread waits for; the control thread fills it in. */
struct arrival {
    struct arrival *next;
    struct link_request request;
    CUmemGenericAllocationHandle *pieces;
    uint32_t wanted; /* 0: not known yet */
    uint32_t count;
};

static struct lock open_lock; /* one thread opens or closes at a time; outside the gate */
static struct lock lock;      /* of the two lists; a leaf */
static struct import *imports;
static struct arrival *arrivals;

/* ---- what comes ---- */

static void drop_pieces(struct arrival *arrival)
{
    while (arrival->count) {
        REAL(cuMemRelease)(arrival->pieces[--arrival->count]);
    }
    free(arrival->pieces);
    arrival->pieces = NULL;
    arrival->wanted = 0;
}

/* Takes a message's pieces; false: something is missing. */
static bool take_pieces(struct arrival *arrival, const struct mw_share *pieces)
{
    if (pieces->first == 0) { /* the first, or a new agent's first */
        drop_pieces(arrival);
        uint64_t step = pieces->piece_bytes ? pieces->piece_bytes : 1;
        arrival->wanted = (uint32_t)((pieces->bytes + step - 1) / step);
        arrival->pieces = calloc(arrival->wanted, sizeof(arrival->pieces[0]));
    }
    bool taken = pieces->pieces && arrival->pieces && pieces->first == arrival->count;
    for (uint32_t i = 0; i < pieces->pieces && taken; i++) {
        int fd = link_take_fd();
        taken = fd >= 0 && arrival->count < arrival->wanted &&
                REAL(cuMemImportFromShareableHandle)(
                    &arrival->pieces[arrival->count], (void *)(intptr_t)fd,
                    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == CUDA_SUCCESS;
        arrival->count += taken;
        if (fd >= 0) {
            close(fd);
        }
    }
    return taken;
}

void imports_pieces(const struct mw_share *pieces)
{
    union link_message answer = {.share = *pieces};
    LOCK_SCOPE(&lock);
    struct arrival *arrival = arrivals;
    while (arrival && arrival->request.message.header.serial != pieces->header.serial) {
        arrival = arrival->next;
    }
    if (!arrival) {
        return;
    }
    if (!take_pieces(arrival, pieces)) {
        drop_pieces(arrival);
    } else if (arrival->count < arrival->wanted) {
        return;
    }
    struct link_request *request = link_take(pieces->header.serial);
    if (request) {
        link_answer(request, &answer);
    }
}

/* ---- one import ---- */

static void tell_closed(const struct import *import)
{
    struct mw_share note = {.gpu = import->gpu, .bytes = import->bytes};
    memcpy(note.token, import->token.bytes, sizeof(note.token));
    link_send(&note, sizeof(note), MW_UNSHARE);
}

/* All pieces at one range of addresses. */
static CUresult map(struct import *import, const struct arrival *arrival, uint64_t piece_bytes)
{
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, import->device},
                              CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUresult result = REAL(cuMemAddressReserve)(&import->base, import->bytes, 0, 0, 0);
    uint64_t mapped = 0;
    if (result != CUDA_SUCCESS) {
        return result;
    }
    for (uint32_t i = 0; i < arrival->count && result == CUDA_SUCCESS; i++) {
        uint64_t left = import->bytes - mapped;
        uint64_t bytes = left < piece_bytes ? left : piece_bytes;
        result = REAL(cuMemMap)(import->base + mapped, bytes, 0, arrival->pieces[i], 0);
        mapped += result == CUDA_SUCCESS ? bytes : 0;
    }
    if (result == CUDA_SUCCESS) {
        result = REAL(cuMemSetAccess)(import->base, import->bytes, &access, 1);
    }
    if (result != CUDA_SUCCESS) {
        if (mapped) {
            REAL(cuMemUnmap)(import->base, mapped);
        }
        REAL(cuMemAddressFree)(import->base, import->bytes);
    }
    return result;
}

static void unmap(struct import *import)
{
    REAL(cuMemUnmap)(import->base, import->bytes);
    REAL(cuMemAddressFree)(import->base, import->bytes);
    tell_closed(import);
    free(import);
}

static CUresult make(const struct token *token, CUcontext context, struct import **made)
{
    struct arrival arrival = {0};
    struct mw_share *share = &arrival.request.message.share;
    struct import *import = calloc(1, sizeof(*import));
    if (!import) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memcpy(share->token, token->bytes, sizeof(share->token));
    share->flags = MW_SHARE_ASKED;
    lock_take(&lock);
    arrival.next = arrivals;
    arrivals = &arrival;
    lock_drop(&lock);
    link_ask(&arrival.request, sizeof(*share), MW_IMPORT);
    lock_take(&lock);
    arrivals = arrival.next; /* one at a time */
    lock_drop(&lock);
    CUresult result = CUDA_ERROR_NOT_FOUND;
    if (share->header.type == MW_IMPORT && arrival.count) {
        *import = (struct import){.token = *token,
                                  .context = context,
                                  .bytes = share->bytes,
                                  .opens = 1,
                                  .gpu = share->gpu,
                                  .number = blocks_number()};
        REAL(cuCtxGetDevice)(&import->device);
        result = map(import, &arrival, share->piece_bytes);
        import->pointer = import->base + share->offset;
        if (result != CUDA_SUCCESS) {
            tell_closed(import);
        }
    }
    drop_pieces(&arrival); /* the mappings hold them */
    if (result != CUDA_SUCCESS) {
        free(import);
        return result;
    }
    *made = import;
    return CUDA_SUCCESS;
}

CUresult imports_open(const struct token *token, CUdeviceptr *pointer)
{
    CUcontext context = NULL;
    CUdevice device = -1;
    LOCK_SCOPE(&open_lock);
    CUresult result = REAL(cuCtxGetDevice)(&device);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    REAL(cuCtxGetCurrent)(&context);
    for (struct import *each = imports; each; each = each->next) {
        bool same = !memcmp(&each->token, token, sizeof(*token));
        if (same && each->context == context) {
            each->opens++;
            *pointer = each->pointer;
            return CUDA_SUCCESS;
        }
        if (same && each->device == device) { /* the driver lets one context of a device have it */
            return CUDA_ERROR_ALREADY_MAPPED;
        }
    }
    struct import *made;
    result = make(token, context, &made);
    if (result == CUDA_SUCCESS) {
        LOCK_SCOPE(&lock);
        made->next = imports;
        imports = made;
        *pointer = made->pointer;
    }
    return result;
}

/* Takes one out of the list; NULL: there is none, or it is still open. */
static struct import *take_out(CUdeviceptr pointer, CUcontext context, bool *found)
{
    LOCK_SCOPE(&lock);
    for (struct import **at = &imports; *at; at = &(*at)->next) {
        struct import *import = *at;
        if (context ? import->context != context : import->pointer != pointer) {
            continue;
        }
        *found = true;
        if (context || --import->opens == 0) {
            *at = import->next;
            return import;
        }
        return NULL;
    }
    return NULL;
}

bool imports_close(CUdeviceptr pointer, CUresult *result)
{
    bool found = false;
    LOCK_SCOPE(&open_lock);
    *result = CUDA_SUCCESS;
    struct import *gone = take_out(pointer, NULL, &found);
    if (gone) {
        (void)memory_await(gone->context, result); /* not in a capture: it would not survive it */
        unmap(gone);
    }
    return found;
}

bool imports_describe(CUdeviceptr pointer, struct memory_info *info)
{
    LOCK_SCOPE(&lock);
    for (const struct import *each = imports; each; each = each->next) {
        if (pointer >= each->base && pointer < each->base + each->bytes) {
            *info = (struct memory_info){.base = each->base,
                                         .bytes = each->bytes,
                                         .context = each->context,
                                         .ordinal = each->device,
                                         .imported = true,
                                         .number = each->number};
            return true;
        }
    }
    return false;
}

void imports_forget(CUcontext context)
{
    bool found = false;
    struct import *gone;
    LOCK_SCOPE(&open_lock);
    while (context && (gone = take_out(0, context, &found)) != NULL) {
        unmap(gone);
    }
}

void imports_tell(void)
{
    LOCK_SCOPE(&lock);
    for (const struct import *each = imports; each; each = each->next) {
        struct mw_share note = {.gpu = each->gpu, .bytes = each->bytes, .flags = MW_SHARE_HELD};
        memcpy(note.token, each->token.bytes, sizeof(note.token));
        link_send(&note, sizeof(note), MW_IMPORT);
    }
}

void imports_after_fork(void)
{
    imports = NULL;
    arrivals = NULL;
    atomic_store(&lock.word, 0);
    atomic_store(&open_lock.word, 0);
}
