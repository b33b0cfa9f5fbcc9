"""Real frameworks, unmodified: the results under moiety are those without it."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

from tests.gpu.holds.setting import MIB, Setting, Skip, said, said_alone, script, turns, watch

NEEDS = {"cupy": "cupy", "jax": "jax", "numba": "numba", "triton": "triton"}
SMALL_JAX = {"XLA_PYTHON_CLIENT_MEM_FRACTION": ".05"}
"""of the card, where nobody limits it: it takes three quarters by itself"""


def need(setting: Setting, module: str) -> None:
    """Skip where a module is not there, or could not run on the stand-in."""
    if setting.simulated:
        raise Skip("NVIDIA's runtime does not run on simgpu")
    if importlib.util.find_spec(module) is None:
        raise Skip(f"{module} is not installed here")


def trained_mib(setting: Setting) -> int:
    """What a training takes for weights, gradients and moments: with the rest of it, its share."""
    return int(setting.each_bytes // MIB * 0.85)


def torch_trainings(setting: Setting) -> str:
    """Two trainings that do not fit together, bit by bit as when each had the card to itself."""
    need(setting, "torch")
    steps, size = setting.rounds(90), trained_mib(setting)
    commands = [script("train.py", steps, size, seed) for seed in (1, 2)]
    with setting.node("trainings") as node:
        expected = [said_alone(node, command) for command in commands]
        programs = [node.run(command) for command in commands]
        most = watch(programs, lambda: turns(node))
        found = [said(program) for program in programs]
    assert found == expected, f"{found} instead of {expected}"
    assert most > 2, "nobody took turns"
    return f"{steps} steps of {size} MiB each, {most} turns"


def torch_graphs(setting: Setting) -> str:
    """A training beside one that replays CUDA graphs."""
    need(setting, "torch")
    steps, size = setting.rounds(60), trained_mib(setting)
    commands = [script("train.py", steps, size, 3), script("train.py", steps, size, 4, "--graph")]
    with setting.node("torch-graphs") as node:
        expected = [said_alone(node, command) for command in commands]
        programs = [node.run(command) for command in commands]
        most = watch(programs, lambda: turns(node))
        found = [said(program) for program in programs]
    assert found == expected, f"{found} instead of {expected}"
    return f"{most} turns"


def torch_allocators(setting: Setting) -> str:
    """PyTorch's other two allocators, one training at a time."""
    need(setting, "torch")
    command = script("train.py", setting.rounds(30), 512, 5)
    with setting.node("allocators") as node:
        expected = said_alone(node, command)
        for choice in ("expandable_segments:True", "backend:cudaMallocAsync"):
            env = {"PYTORCH_CUDA_ALLOC_CONF": choice, "PYTORCH_ALLOC_CONF": choice}
            found = said(node.run(command, env=env))
            assert found == expected, f"{choice}: {found} instead of {expected}"
    return "both are right"


def smoke(name: str) -> Callable[[Setting], str]:
    """A few operations of one library."""

    def check(setting: Setting) -> str:
        need(setting, NEEDS[name])
        with setting.node(name) as node:
            node.env |= SMALL_JAX
            expected = said_alone(node, script(f"{name}_sums.py"))
            for key in SMALL_JAX:
                del node.env[key]
            found = said(node.run(script(f"{name}_sums.py")))
        assert found == expected, f"{found} instead of {expected}"
        return found.strip().replace("\n", ", ")

    check.__doc__ = f"{name}: the same results as without moiety."
    return check
