"""One process of several: it meets the others as PyTorch's env:// does, and uses its own GPU."""

from __future__ import annotations

import torch  # type: ignore[import-not-found, unused-ignore]
import torch.distributed as dist  # type: ignore[import-not-found, unused-ignore]

dist.init_process_group("gloo")  # by RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT
rank, size = dist.get_rank(), dist.get_world_size()
total = torch.tensor([float(rank + 1)])
dist.all_reduce(total)
assert total.item() == size * (size + 1) / 2
assert torch.cuda.device_count() == 1, "each has a GPU of its own"
memory = torch.zeros(1 << 20, device="cuda")
# No collective of objects: gloo's threads would be the last that hold their tensors, and need
# Python's lock to let go of them, which the end of the group holds while it waits for them.
dist.barrier()
if rank == 0:
    print(f"{size} ranks met, {memory.numel() // size} numbers each", flush=True)
dist.destroy_process_group()
