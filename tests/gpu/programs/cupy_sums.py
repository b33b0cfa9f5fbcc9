"""CuPy: arithmetic, a kernel of its own, sorting, memory that is given back."""

import cupy  # type: ignore[import-not-found, unused-ignore]

numbers = cupy.arange(1 << 22, dtype=cupy.int64)
print(int((numbers * 3 + 1).sum()))
mix = cupy.ElementwiseKernel("int64 x", "int64 y", "y = (x * 2654435761LL) % 1000003", "mix")
mixed = mix(numbers)
print(int(cupy.sort(mixed)[:: 1 << 12].sum()))
print(int((mixed.reshape(2048, 2048) % 13 @ (mixed.reshape(2048, 2048) % 7).T).sum()))
del numbers, mixed
cupy.get_default_memory_pool().free_all_blocks()
with cupy.cuda.Stream(non_blocking=True):
    print(int(cupy.ones(1 << 20, dtype=cupy.int64).sum()))
