"""JAX: compiled functions, a gradient, and a loop on the device."""

import jax  # type: ignore[import-not-found, unused-ignore]
import jax.numpy as jnp  # type: ignore[import-not-found, unused-ignore]

print(jax.devices()[0].platform)
numbers = jnp.arange(1 << 20, dtype=jnp.int32)
print(int(jax.jit(lambda x: (x % 1009 * 3 + 1).sum())(numbers)))
print(float(jax.grad(lambda x: (x * x * x).sum())(jnp.full((64,), 2.0)).sum()))
print(int(jax.lax.fori_loop(0, 100, lambda i, x: x + i, jnp.int32(0))))
