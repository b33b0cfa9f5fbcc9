#include "shim/ipc/export.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/agent/socket.h"
#include "shim/base/driver.h"
#include "shim/gate/gate.h"
#include "shim/ipc/pin_again.h"
#include "shim/mem/address_info.h"
#include "shim/mem/extent.h"
#include "shim/mem/extent_table.h"
#include "shim/mem/pin.h"

#define MARK "moietyIP" /* what a handle with a token begins with */

struct ipc_export {
    struct ipc_export *next;
    struct ipc_token token;
    CUdeviceptr base; /* of the allocation */
    struct extent *extent;
    bool pinned;          /* the extent has a pin for this export */
    bool announced;       /* the agent knows the token, so that other processes may have it */
    struct mw_share note; /* what the agent is told of it */
};
static struct ipc_export *exports; /* under extent_lock */

void ipc_token_write(CUipcMemHandle *handle, const struct ipc_token *token)
{
    memset(handle, 0, sizeof(*handle));
    memcpy(handle->reserved, MARK, sizeof(MARK) - 1);
    memcpy(handle->reserved + sizeof(MARK) - 1, token->bytes, sizeof(token->bytes));
}

bool ipc_token_read(const CUipcMemHandle *handle, struct ipc_token *token)
{
    _Static_assert(sizeof(MARK) - 1 + sizeof(struct ipc_token) <= CU_IPC_HANDLE_SIZE, "it fits");
    memcpy(token->bytes, handle->reserved + sizeof(MARK) - 1, sizeof(token->bytes));
    return !memcmp(handle->reserved, MARK, sizeof(MARK) - 1);
}

/* Draws a token that no process can guess; getrandom(2) is older than its function in libc. */
static bool draw(struct ipc_token *token)
{
    long got;
    do {
        got = syscall(SYS_getrandom, token->bytes, sizeof(token->bytes), 0);
    } while (got < 0 && errno == EINTR);
    return got == (long)sizeof(token->bytes);
}

static struct ipc_export *find(const struct ipc_token *token)
{
    struct ipc_export *export = exports;
    while (export && memcmp(&export->token, token, sizeof(*token)) != 0) {
        export = export->next;
    }
    return export;
}

/* With extent_lock held: the extent that can be exported, and where the allocation in it begins; NULL: none. */
static struct extent *exportable(CUdeviceptr pointer, CUdeviceptr *base)
{
    struct extent *extent = extent_table_find(pointer);
    bool is_ours = extent && !extent_is_managed(extent) && extent->use != EXTENT_OF_POOL &&
                   address_info_base(extent, pointer, base);
    return is_ours ? extent : NULL;
}

static struct ipc_export *find_base(CUdeviceptr base)
{
    struct ipc_export *each = exports;
    while (each && each->base != base) {
        each = each->next;
    }
    return each;
}

/* Inside the gate, so that all of the extent, which is pinned for this, is resident; with extent_lock held. */
static CUresult mark(CUdeviceptr pointer, struct ipc_export **made)
{
    CUdeviceptr base = 0;
    struct extent *extent = exportable(pointer, &base);
    if (!extent) {
        return CUDA_ERROR_NOT_FOUND;
    }
    *made = find_base(base);
    if (*made) { /* another thread is about to announce it */
        unpin_extent(extent);
        return CUDA_SUCCESS;
    }
    struct ipc_export *export = calloc(1, sizeof(*export));
    if (!export || !draw(&export->token)) {
        unpin_extent(extent);
        free(export);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    export->base = base;
    export->extent = extent;
    export->pinned = extent->exported = true;
    export->note = (struct mw_share){.gpu = extent->device->gpu,
                                     .bytes = extent->span,
                                     .piece_bytes = extent->chunks[0].bytes,
                                     .offset = base - extent->base};
    memcpy(export->note.token, export->token.bytes, sizeof(export->note.token));
    export->next = exports;
    exports = export;
    *made = export;
    return CUDA_SUCCESS;
}

/* The token of what is exported already. CUDA_ERROR_NOT_FOUND: it is none that we can export;
 * CUDA_ERROR_NOT_READY: it has to be exported. */
static CUresult find_exported(CUdeviceptr pointer, struct ipc_token *token)
{
    CUdeviceptr base = 0;
    LOCK_SCOPE(&extent_lock);
    if (!exportable(pointer, &base)) {
        return CUDA_ERROR_NOT_FOUND;
    }
    const struct ipc_export *export = find_base(base);
    bool announced = export && export->announced;
    if (announced) {
        *token = export->token;
    }
    return announced ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

/* What the agent answered to the announcement of a token, by this thread or by another. */
static CUresult settle(const struct ipc_token *token, bool accepted)
{
    LOCK_SCOPE(&extent_lock);
    struct ipc_export **at = &exports;
    while (*at && memcmp(&(*at)->token, token, sizeof(*token)) != 0) {
        at = &(*at)->next;
    }
    struct ipc_export *export = *at;
    if (accepted && export) {
        export->announced = true;
    } else if (export && !export->announced) {
        *at = export->next;
        if (export->pinned) {
            unpin_extent(export->extent);
        }
        free(export);
    }
    return accepted ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult ipc_export_token(CUdeviceptr pointer, struct ipc_token *token)
{
    struct agent_request request = {0};
    struct ipc_export *export = NULL;
    CUresult result = find_exported(pointer, token);
    if (result == CUDA_ERROR_NOT_READY) {
        result = pin_range(pointer, 1, "cuIpcGetMemHandle");
    } else {
        return result;
    }
    if (result != CUDA_SUCCESS) {
        return result;
    }
    struct mw_slot *slot = gate_enter();
    lock_take(&extent_lock);
    result = mark(pointer, &export);
    if (result == CUDA_SUCCESS) {
        *token = export->token;
        request.message.share = export->note;
    }
    lock_drop(&extent_lock);
    gate_leave(slot);
    if (result == CUDA_SUCCESS) {
        agent_ask(&request, sizeof(request.message.share), MW_EXPORT);
        result = settle(token, request.message.header.type == MW_EXPORT);
    }
    return result;
}

bool ipc_export_has(const struct ipc_token *token)
{
    LOCK_SCOPE(&extent_lock);
    return find(token) != NULL;
}

static void end(struct ipc_export *gone, uint32_t flags)
{
    gone->note.flags = flags;
    agent_send(&gone->note, sizeof(gone->note), MW_UNSHARE);
    free(gone);
}

void ipc_export_freed(CUdeviceptr base)
{
    for (struct ipc_export **at = &exports; *at; at = &(*at)->next) {
        struct ipc_export *found = *at;
        if (found->base == base) {
            *at = found->next;
            end(found, 0);
            return;
        }
    }
}

struct ipc_export *ipc_export_take(const struct extent *extent)
{
    struct ipc_export *taken = NULL;
    for (struct ipc_export **at = &exports; extent->exported && *at;) {
        struct ipc_export *found = *at;
        if (found->extent == extent) {
            *at = found->next;
            found->next = taken;
            taken = found;
        } else {
            at = &found->next;
        }
    }
    return taken;
}

void ipc_export_end(struct ipc_export *taken)
{
    while (taken) {
        struct ipc_export *next = taken->next;
        end(taken, MW_SHARE_GONE);
        taken = next;
    }
}

void ipc_export_tell(void)
{
    for (const struct ipc_export *export = exports; export; export = export->next) {
        struct mw_share note = export->note;
        agent_send(&note, sizeof(note), MW_EXPORT);
    }
}

/* Sends all pieces, or stops at one that the driver does not export; true: all were sent. */
static bool hand_out(const struct ipc_export *export, struct mw_share *share)
{
    const struct extent *extent = export->extent;
    bool sent = true;
    for (uint32_t i = 0; sent && i < extent->chunk_count; i += share->pieces) {
        int fds[MW_PIECES_MAX];
        share->first = i;
        share->pieces = 0;
        while (share->pieces < MW_PIECES_MAX && i + share->pieces < extent->chunk_count &&
               DRIVER(cuMemExportToShareableHandle)(
                   &fds[share->pieces], extent->chunks[i + share->pieces].handle,
                   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) == CUDA_SUCCESS) {
            share->pieces++;
        }
        sent =
            share->pieces && agent_send_fds(share, sizeof(*share), MW_IMPORT, fds, share->pieces);
        for (uint32_t k = 0; k < share->pieces; k++) {
            close(fds[k]);
        }
    }
    return sent;
}

static struct ipc_export *find_named(const struct mw_share *note)
{
    struct ipc_token token;
    memcpy(token.bytes, note->token, sizeof(token.bytes));
    return find(&token);
}

/* With extent_lock held. */
static void give_out(const struct ipc_export *export, const struct mw_share *asked)
{
    struct mw_share share = export ? export->note : *asked;
    share.header.serial = asked->header.serial;
    if (!export || !hand_out(export, &share)) {
        share.pieces = 0;
        share.flags = 0;
        agent_send(&share, sizeof(share), MW_IMPORT);
    }
}

/* Where an export is, and which extent that is; false: it is void. */
static bool place(const struct mw_share *asked, CUdeviceptr *base, uint64_t *sequence)
{
    LOCK_SCOPE(&extent_lock);
    const struct ipc_export *export = find_named(asked);
    if (export) {
        *base = export->base;
        *sequence = export->extent->sequence;
    }
    return export != NULL;
}

/* Inside the gate, with extent_lock held: the pin is the export's from now on, if there still is one without. */
static const struct ipc_export *pass_pin(const struct mw_share *asked, CUdeviceptr base,
                                         uint64_t sequence)
{
    struct ipc_export *export = find_named(asked);
    struct extent *extent = extent_table_find(base);
    bool same = extent && extent->sequence == sequence;
    if (export && same && !export->pinned) {
        export->pinned = true;
    } else if (same) {
        unpin_extent(extent);
    }
    return export && export->pinned ? export : NULL;
}

/* What left since all processes had closed it comes back for one that wants to open it. */
static void pin_again(const struct mw_share *asked)
{
    CUdeviceptr base = 0;
    uint64_t sequence = 0;
    if (!place(asked, &base, &sequence) ||
        pin_range(base, 1, "cuIpcOpenMemHandle in another process") != CUDA_SUCCESS) {
        LOCK_SCOPE(&extent_lock);
        give_out(NULL, asked);
        return;
    }
    struct mw_slot *slot = gate_enter();
    lock_take(&extent_lock);
    give_out(pass_pin(asked, base, sequence), asked);
    lock_drop(&extent_lock);
    gate_leave(slot);
}

void ipc_export_asked(const struct mw_share *asked)
{
    LOCK_SCOPE(&extent_lock);
    const struct ipc_export *export = find_named(asked);
    if (!export || export->pinned || !ipc_pin_again(asked, pin_again)) {
        give_out(export && export->pinned ? export : NULL, asked);
    }
}

void ipc_export_closed(const struct mw_share *closed)
{
    LOCK_SCOPE(&extent_lock);
    struct ipc_export *export = find_named(closed);
    if (export && export->pinned) {
        export->pinned = false;
        unpin_extent(export->extent);
    }
}

void ipc_export_after_fork(void)
{
    exports = NULL;
    ipc_pin_again_after_fork();
}
