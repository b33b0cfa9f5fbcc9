"""Triton through PyTorch: a kernel compiled here."""

import torch  # type: ignore[import-not-found, unused-ignore]
import triton  # type: ignore[import-not-found, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, unused-ignore]


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def triple(at, count, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def] # noqa: N803
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = places < count
    tl.store(at + places, tl.load(at + places, mask=inside) * 3 + 1, mask=inside)


numbers = torch.arange(1 << 20, device="cuda")
for _ in range(5):
    triple[(1024,)](numbers, numbers.numel(), BLOCK=1024)
print(int(numbers.sum()))
