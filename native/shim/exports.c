#include "shim/exports.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/blocks.h"
#include "shim/gate.h"
#include "shim/link.h"
#include "shim/memory.h"
#include "shim/real.h"

#define MARK "moietyIP" /* what the handles of ours begin with */

struct export {
    struct export *next;
    struct token token;
    CUdeviceptr base; /* of the allocation */
    const struct block *block;
    struct mw_share note; /* what is told of it */
};
static struct export *exports; /* under blocks_lock */

void token_write(CUipcMemHandle *handle, const struct token *token)
{
    memset(handle, 0, sizeof(*handle));
    memcpy(handle->reserved, MARK, sizeof(MARK) - 1);
    memcpy(handle->reserved + sizeof(MARK) - 1, token->bytes, sizeof(token->bytes));
}

bool token_read(const CUipcMemHandle *handle, struct token *token)
{
    _Static_assert(sizeof(MARK) - 1 + sizeof(struct token) <= CU_IPC_HANDLE_SIZE, "it fits");
    memcpy(token->bytes, handle->reserved + sizeof(MARK) - 1, sizeof(token->bytes));
    return !memcmp(handle->reserved, MARK, sizeof(MARK) - 1);
}

/* Nobody can guess it; getrandom(2) is older than its function in libc. */
static bool draw(struct token *token)
{
    long got;
    do {
        got = syscall(SYS_getrandom, token->bytes, sizeof(token->bytes), 0);
    } while (got < 0 && errno == EINTR);
    return got == (long)sizeof(token->bytes);
}

static struct export *find(const struct token *token)
{
    struct export *export = exports;
    while (export && memcmp(&export->token, token, sizeof(*token)) != 0) {
        export = export->next;
    }
    return export;
}

/* Inside the gate, so that all of the block is present, and with the lock held. */
static CUresult mark(CUdeviceptr pointer, struct export **made, bool *known)
{
    CUdeviceptr base = 0;
    struct block *block = blocks_find(pointer);
    if (!block || block->managed || block->segment || !memory_base(block, pointer, &base)) {
        return CUDA_ERROR_NOT_FOUND;
    }
    for (struct export *each = exports; each; each = each->next) {
        if (each->base == base) {
            *made = each;
            *known = true;
            return CUDA_SUCCESS;
        }
    }
    struct export *export = calloc(1, sizeof(*export));
    if (!export || !draw(&export->token)) {
        free(export);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    export->base = base;
    export->block = block;
    export->note = (struct mw_share){.gpu = block->device->gpu,
                                     .bytes = block->span,
                                     .piece_bytes = block->chunks[0].bytes,
                                     .offset = base - block->base};
    memcpy(export->note.token, export->token.bytes, sizeof(export->note.token));
    export->next = exports;
    exports = export;
    block_keep(block);
    *made = export;
    return CUDA_SUCCESS;
}

CUresult exports_token(CUdeviceptr pointer, struct token *token)
{
    struct link_request request = {0};
    struct export *export = NULL;
    bool known = false;
    struct mw_slot *slot = gate_enter();
    lock_take(&blocks_lock);
    CUresult result = mark(pointer, &export, &known);
    if (result == CUDA_SUCCESS) {
        *token = export->token;
        request.message.share = export->note;
    }
    lock_drop(&blocks_lock);
    gate_leave(slot);
    if (result == CUDA_SUCCESS && !known) {
        /* Whoever gets the token from us must find it known. */
        link_ask(&request, sizeof(request.message.share), MW_EXPORT);
        if (request.message.header.type != MW_EXPORT) {
            result = CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    return result;
}

bool exports_has(const struct token *token)
{
    LOCK_SCOPE(&blocks_lock);
    return find(token) != NULL;
}

static void end(struct export *gone, uint32_t flags)
{
    gone->note.flags = flags;
    link_send(&gone->note, sizeof(gone->note), MW_UNSHARE);
    free(gone);
}

void exports_freed(CUdeviceptr base)
{
    for (struct export **at = &exports; *at; at = &(*at)->next) {
        struct export *found = *at;
        if (found->base == base) {
            *at = found->next;
            end(found, 0);
            return;
        }
    }
}

struct export *exports_take(const struct block *block)
{
    struct export *taken = NULL;
    for (struct export **at = &exports; block->stays && *at;) {
        struct export *found = *at;
        if (found->block == block) {
            *at = found->next;
            found->next = taken;
            taken = found;
        } else {
            at = &found->next;
        }
    }
    return taken;
}

void exports_end(struct export *taken)
{
    while (taken) {
        struct export *next = taken->next;
        end(taken, MW_SHARE_GONE);
        taken = next;
    }
}

void exports_tell(void)
{
    for (const struct export *export = exports; export; export = export->next) {
        struct mw_share note = export->note;
        link_send(&note, sizeof(note), MW_EXPORT);
    }
}

/* Sends pieces until one cannot be had; true: that were all. */
static bool hand_out(const struct export *export, struct mw_share *share)
{
    const struct block *block = export->block;
    bool sent = true;
    for (uint32_t i = 0; sent && i < block->chunk_count; i += share->pieces) {
        int fds[MW_PIECES_MAX];
        share->first = i;
        share->pieces = 0;
        while (share->pieces < MW_PIECES_MAX && i + share->pieces < block->chunk_count &&
               REAL(cuMemExportToShareableHandle)(
                   &fds[share->pieces], block->chunks[i + share->pieces].handle,
                   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) == CUDA_SUCCESS) {
            share->pieces++;
        }
        sent = share->pieces && link_send_fds(share, sizeof(*share), MW_IMPORT, fds, share->pieces);
        for (uint32_t k = 0; k < share->pieces; k++) {
            close(fds[k]);
        }
    }
    return sent;
}

void exports_asked(const struct mw_share *asked)
{
    struct token token;
    memcpy(token.bytes, asked->token, sizeof(token.bytes));
    LOCK_SCOPE(&blocks_lock);
    const struct export *export = find(&token);
    struct mw_share share = export ? export->note : *asked;
    share.header.serial = asked->header.serial;
    if (!export || !hand_out(export, &share)) {
        share.pieces = 0;
        share.flags = 0;
        link_send(&share, sizeof(share), MW_IMPORT);
    }
}

void exports_after_fork(void) { exports = NULL; }
