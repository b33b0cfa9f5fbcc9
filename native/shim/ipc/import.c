#include "shim/ipc/import.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/agent/socket.h"
#include "shim/base/driver.h"
#include "shim/base/lock.h"
#include "shim/gate/gate.h"
#include "shim/mem/address_info.h"
#include "shim/mem/extent.h"
#include "shim/mem/release.h"

struct ipc_import {
    struct ipc_import *next;
    struct ipc_token token;
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
    struct agent_request request;
    CUmemGenericAllocationHandle *pieces;
    uint32_t wanted; /* 0: not known yet */
    uint32_t count;
};

static struct lock open_lock =
    LOCK_INIT(LOCK_IMPORT_OPEN); /* one thread opens or closes at a time; outside the gate */
static struct lock lock = LOCK_INIT(LOCK_IMPORTS); /* of the two lists; a leaf */
static struct ipc_import *imports;
static struct arrival *arrivals;

/* ---- what comes ---- */

static void drop_pieces(struct arrival *arrival)
{
    while (arrival->count) {
        DRIVER(cuMemRelease)(arrival->pieces[--arrival->count]);
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
        int fd = agent_take_fd();
        taken = fd >= 0 && arrival->count < arrival->wanted &&
                DRIVER(cuMemImportFromShareableHandle)(
                    &arrival->pieces[arrival->count], (void *)(intptr_t)fd,
                    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == CUDA_SUCCESS;
        arrival->count += taken;
        if (fd >= 0) {
            close(fd);
        }
    }
    return taken;
}

void ipc_import_pieces(const struct mw_share *pieces)
{
    union agent_message answer = {.share = *pieces};
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
    struct agent_request *request = agent_take(pieces->header.serial);
    if (request) {
        agent_answer(request, &answer);
    }
}

/* ---- one import ---- */

static void tell_closed(const struct ipc_import *import)
{
    struct mw_share note = {.gpu = import->gpu, .bytes = import->bytes};
    memcpy(note.token, import->token.bytes, sizeof(note.token));
    agent_send(&note, sizeof(note), MW_UNSHARE);
}

/* All pieces at one range of addresses. */
static CUresult map(struct ipc_import *import, const struct arrival *arrival, uint64_t piece_bytes)
{
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, import->device},
                              CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUresult result = DRIVER(cuMemAddressReserve)(&import->base, import->bytes, 0, 0, 0);
    uint64_t mapped = 0;
    if (result != CUDA_SUCCESS) {
        return result;
    }
    for (uint32_t i = 0; i < arrival->count && result == CUDA_SUCCESS; i++) {
        uint64_t left = import->bytes - mapped;
        uint64_t bytes = left < piece_bytes ? left : piece_bytes;
        result = DRIVER(cuMemMap)(import->base + mapped, bytes, 0, arrival->pieces[i], 0);
        mapped += result == CUDA_SUCCESS ? bytes : 0;
    }
    if (result == CUDA_SUCCESS) {
        result = DRIVER(cuMemSetAccess)(import->base, import->bytes, &access, 1);
    }
    if (result != CUDA_SUCCESS) {
        if (mapped) {
            DRIVER(cuMemUnmap)(import->base, mapped);
        }
        DRIVER(cuMemAddressFree)(import->base, import->bytes);
    }
    return result;
}

static void unmap(struct ipc_import *import)
{
    DRIVER(cuMemUnmap)(import->base, import->bytes);
    DRIVER(cuMemAddressFree)(import->base, import->bytes);
    tell_closed(import);
    free(import);
}

static CUresult make(const struct ipc_token *token, CUcontext context, struct ipc_import **made)
{
    struct arrival arrival = {0};
    struct mw_share *share = &arrival.request.message.share;
    struct ipc_import *import = calloc(1, sizeof(*import));
    if (!import) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memcpy(share->token, token->bytes, sizeof(share->token));
    share->flags = MW_SHARE_ASKED;
    lock_take(&lock);
    arrival.next = arrivals;
    arrivals = &arrival;
    lock_drop(&lock);
    agent_ask(&arrival.request, sizeof(*share), MW_IMPORT);
    lock_take(&lock);
    arrivals = arrival.next; /* one at a time */
    lock_drop(&lock);
    CUresult result = CUDA_ERROR_NOT_FOUND;
    if (share->header.type == MW_IMPORT && arrival.count) {
        *import = (struct ipc_import){.token = *token,
                                      .context = context,
                                      .bytes = share->bytes,
                                      .opens = 1,
                                      .gpu = share->gpu,
                                      .number = extent_next_sequence()};
        DRIVER(cuCtxGetDevice)(&import->device);
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

CUresult ipc_import_open(const struct ipc_token *token, CUdeviceptr *pointer)
{
    CUcontext context = NULL;
    CUdevice device = -1;
    LOCK_SCOPE(&open_lock);
    CUresult result = DRIVER(cuCtxGetDevice)(&device);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    DRIVER(cuCtxGetCurrent)(&context);
    for (struct ipc_import *each = imports; each; each = each->next) {
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
    struct ipc_import *made;
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
static struct ipc_import *take_out(CUdeviceptr pointer, CUcontext context, bool *found)
{
    LOCK_SCOPE(&lock);
    for (struct ipc_import **at = &imports; *at; at = &(*at)->next) {
        struct ipc_import *import = *at;
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

bool ipc_import_close(CUdeviceptr pointer, CUresult *result)
{
    bool found = false;
    LOCK_SCOPE(&open_lock);
    *result = CUDA_SUCCESS;
    struct ipc_import *gone = take_out(pointer, NULL, &found);
    if (gone) {
        release_await_wholly(gone->context, result);
        unmap(gone);
    }
    return found;
}

bool ipc_import_describe(CUdeviceptr pointer, struct address_info *info)
{
    LOCK_SCOPE(&lock);
    for (const struct ipc_import *each = imports; each; each = each->next) {
        if (pointer >= each->base && pointer < each->base + each->bytes) {
            *info = (struct address_info){.base = each->base,
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

void ipc_import_forget(CUcontext context)
{
    bool found = false;
    struct ipc_import *gone;
    LOCK_SCOPE(&open_lock);
    while (context && (gone = take_out(0, context, &found)) != NULL) {
        unmap(gone);
    }
}

void ipc_import_tell(void)
{
    LOCK_SCOPE(&lock);
    for (const struct ipc_import *each = imports; each; each = each->next) {
        struct mw_share note = {.gpu = each->gpu, .bytes = each->bytes, .flags = MW_SHARE_HELD};
        memcpy(note.token, each->token.bytes, sizeof(note.token));
        agent_send(&note, sizeof(note), MW_IMPORT);
    }
}

void ipc_import_after_fork(void)
{
    imports = NULL;
    arrivals = NULL;
    lock_after_fork(&lock);
    lock_after_fork(&open_lock);
}
