"""More than the limit is asked for, refused, and the program goes on. Says what it sees."""

from __future__ import annotations

import torch  # type: ignore[import-not-found, unused-ignore]

MIB = 1 << 20

free, total = torch.cuda.mem_get_info()
print(f"total {total // MIB}, properties {torch.cuda.get_device_properties(0).total_memory // MIB}")
held = torch.empty(20 * MIB, dtype=torch.uint8, device="cuda")
print(f"free {(free - torch.cuda.mem_get_info()[0]) // MIB} less")
try:
    torch.empty(total, dtype=torch.uint8, device="cuda")
except torch.cuda.OutOfMemoryError:
    print("refused")
host = torch.arange(MIB)
tensor = host[: MIB // 2].cuda()
print(f"{int((tensor.cpu() != host[: MIB // 2]).sum())} words wrong")
