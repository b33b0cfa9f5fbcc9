"""Real frameworks, unmodified: the results under moiety are those without it."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

from tests.gpu.holds.setting import MIB, Setting, Skip, said, said_alone, script, turns, watch

NEEDS = {
    "cupy": "cupy", "jax": "jax", "numba": "numba", "triton": "triton",
    "tensorflow": "tensorflow",
}  # fmt: skip
SMALL_JAX = {"XLA_PYTHON_CLIENT_MEM_FRACTION": ".05"}
"""of the card, where nobody limits it: it takes three quarters by itself"""
EXPANDABLE, ASYNC = "expandable_segments:True", "backend:cudaMallocAsync"


def need(setting: Setting, module: str) -> None:
    """Skip where a module is not there, or could not run on the stand-in."""
    if setting.simulated:
        raise Skip("NVIDIA's runtime does not run on simgpu")
    if importlib.util.find_spec(module) is None:
        raise Skip(f"{module} is not installed here")


def trained_mib(setting: Setting) -> int:
    """What a training takes for weights, gradients and moments: with the rest of it, its share."""
    return int(setting.each_bytes // MIB * 0.85)


def allocator(choice: str) -> dict[str, str]:
    """The environment that chooses one of PyTorch's allocators, by its old and its new name."""
    return {"PYTORCH_CUDA_ALLOC_CONF": choice, "PYTORCH_ALLOC_CONF": choice} if choice else {}


def together(
    setting: Setting, name: str, commands: list[list[str]], *, must_turn: bool = True
) -> tuple[list[str], int]:
    """Each alone, then all at once under moiety; what they said, and how many turns there were."""
    with setting.node(name) as node:
        expected = [said_alone(node, command) for command in commands]
        programs = [node.run(command) for command in commands]
        most = watch(programs, lambda: turns(node))
        found = [said(program) for program in programs]
    assert found == expected, f"{found} instead of {expected}"
    assert most > len(commands) or not must_turn, "nobody took turns"
    return found, most


def torch_trainings(setting: Setting) -> str:
    """Two trainings that do not fit together, bit by bit as when each had the card to itself."""
    need(setting, "torch")
    steps, size = setting.rounds(90), trained_mib(setting)
    commands = [script("train.py", steps, size, seed) for seed in (1, 2)]
    _, most = together(setting, "trainings", commands)
    return f"{steps} steps of {size} MiB each, {most} turns"


def torch_graphs(setting: Setting) -> str:
    """A training beside one that replays CUDA graphs."""
    need(setting, "torch")
    steps, size = setting.rounds(60), trained_mib(setting)
    commands = [script("train.py", steps, size, 3), script("train.py", steps, size, 4, "--graph")]
    _, most = together(setting, "torch-graphs", commands, must_turn=False)
    return f"{most} turns"


def torch_allocator(choice: str, name: str) -> Callable[[Setting], str]:
    """Two trainings with one of PyTorch's other allocators."""

    def check(setting: Setting) -> str:
        need(setting, "torch")
        steps, size = setting.rounds(30), trained_mib(setting)
        commands = [script("train.py", steps, size, seed) for seed in (5, 6)]
        with setting.node(name) as node:
            expected = [said_alone(node, command) for command in commands]
            programs = [node.run(command, env=allocator(choice)) for command in commands]
            most = watch(programs, lambda: turns(node))
            found = [said(program) for program in programs]
        assert found == expected, f"{found} instead of {expected}"
        return f"{choice}: {most} turns"

    check.__doc__ = f"Two trainings with PyTorch's {choice}, as with its usual allocator alone."
    return check


def torch_compile(setting: Setting) -> str:
    """Two networks that torch.compile and Triton compiled, each as alone."""
    need(setting, "torch")
    need(setting, "triton")
    steps = setting.rounds(30)
    commands = [script("compiled.py", steps, seed) for seed in (1, 2)]
    found, most = together(setting, "torch-compile", commands, must_turn=False)
    assert all(text.startswith("near True") for text in found), found
    return f"{found[0].strip()}, {most} turns"


def torch_ipc(setting: Setting) -> str:
    """Tensors that two processes share, beside a training that wants the card."""
    need(setting, "torch")
    size = trained_mib(setting)
    commands = [
        script("shared_tensors.py", setting.rounds(30), 16),
        script("train.py", setting.rounds(40), size, 7),
    ]
    found, most = together(setting, "torch-ipc", commands, must_turn=False)
    assert found[0] == "0 words wrong, child ended with 0\n", found[0]
    return f"{most} turns"


def jax_preallocating(setting: Setting) -> str:
    """Two JAX programs that each take three quarters of the GPU at once."""
    need(setting, "jax")
    commands = [script("jax_large.py", setting.rounds(60), seed) for seed in (1, 2)]
    with setting.node("jax-two") as node:
        node.env |= SMALL_JAX
        expected = [said_alone(node, command) for command in commands]
        for key in SMALL_JAX:
            del node.env[key]
        programs = [node.run(command) for command in commands]
        most = watch(programs, lambda: turns(node))
        found = [said(program) for program in programs]
    assert found == expected, f"{found} instead of {expected}"
    assert most > 2, "nobody took turns"
    return f"{most} turns"


def vllm(setting: Setting) -> str:
    """vLLM with a tiny model: the same tokens as without moiety."""
    need(setting, "vllm")
    with setting.node("vllm") as node:
        expected = said_alone(node, script("vllm_tokens.py"))
        found = said(node.run(script("vllm_tokens.py")))
    assert found == expected, f"{found} instead of {expected}"
    return "the same tokens"


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
