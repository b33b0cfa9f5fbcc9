"""JAX with its usual habit of taking most of the GPU at once; work in rounds, and an exact sum.

usage: jax_large.py ROUNDS SEED
"""

from __future__ import annotations

import sys
import time

import jax  # type: ignore[import-not-found, unused-ignore]
import jax.numpy as jnp  # type: ignore[import-not-found, unused-ignore]


def main() -> int:
    """Change 64 MiB of integers in rounds."""
    rounds, seed = (int(argument) for argument in sys.argv[1:3])
    step = jax.jit(lambda x: (x * 1103515245 + 12345) % 2147483629)
    numbers = jnp.arange(16 << 20, dtype=jnp.int32) + seed
    for _ in range(rounds):
        numbers = step(numbers)
        numbers.block_until_ready()
        time.sleep(0.02)
    print(int(numbers.astype(jnp.uint32).sum(dtype=jnp.uint32)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
