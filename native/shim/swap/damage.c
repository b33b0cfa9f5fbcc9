#include "shim/swap/damage.h"

#include "shim/base/message.h"
#include "shim/mem/accounting.h"
#include "shim/swap/clean.h"

void damage_end(struct transfer *transfer, struct extent *extent, uint32_t index)
{
    struct chunk *chunk = &extent->chunks[index];
    message_print("check the host's memory (dmesg, moiety events) and start the program again",
                  "%llu MiB of device memory at 0x%llx were damaged in host memory; the program "
                  "gets an error where it uses them",
                  (unsigned long long)(chunk->bytes >> 20),
                  (unsigned long long)extent_address(extent, index));
    transfer_unmap(transfer, extent, index);
    clean_not_scanned(chunk);
    chunk_transition(chunk, CHUNK_DECOMMITTED);
    extent->decommitted_bytes += chunk->bytes;
    atomic_store(&extents_damaged, true);
    transfer_totals.damaged_bytes += chunk->bytes;
    accounting_release(extent->device, chunk->bytes, 0,
                       extent_charge_flags(extent) | MW_FREE_DAMAGED);
}
