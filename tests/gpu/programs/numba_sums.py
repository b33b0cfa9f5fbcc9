"""Numba: a kernel compiled here, on arrays that go there and back."""

import numpy as np
from numba import cuda  # type: ignore[import-not-found, import-untyped, unused-ignore]


@cuda.jit  # type: ignore[untyped-decorator, unused-ignore]
def triple(numbers):  # type: ignore[no-untyped-def]
    i = cuda.grid(1)
    if i < numbers.size:
        numbers[i] = numbers[i] * 3 + 1


numbers = np.arange(1 << 20, dtype=np.int64)
there = cuda.to_device(numbers)
for _ in range(5):
    triple[4096, 256](there)
print(int(there.copy_to_host().sum()))
