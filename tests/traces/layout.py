"""Where handles and addresses lie in structures that the driver reads (native/cuda/cuda_abi.h)."""

from __future__ import annotations

ADDRESS = "address"
DROP = "drop"
"""a pointer whose target is not in a trace"""

COPY_3D = {
    40: ADDRESS, 48: ADDRESS, 56: "CUarray", 128: ADDRESS, 136: ADDRESS, 144: "CUarray",
}  # fmt: skip
KERNEL = {0: "CUfunction", 40: DROP, 48: DROP, 56: "CUkernel", 64: "CUcontext"}
STRUCTURES: dict[str, dict[int, str]] = {
    "CUDA_MEMCPY2D": {24: ADDRESS, 32: ADDRESS, 40: "CUarray", 80: ADDRESS, 88: ADDRESS,
                      96: "CUarray"},
    "CUDA_MEMCPY3D": COPY_3D,
    "CUDA_MEMCPY3D_PEER": {**COPY_3D, 64: "CUcontext", 152: "CUcontext"},
    "CUDA_KERNEL_NODE_PARAMS": KERNEL,
    "CUDA_KERNEL_NODE_PARAMS_v1": {0: "CUfunction", 40: DROP, 48: DROP},
    "CUDA_MEMSET_NODE_PARAMS": {0: ADDRESS},
    "CUDA_HOST_NODE_PARAMS": {0: DROP, 8: DROP},
    "CUDA_MEM_ALLOC_NODE_PARAMS": {16: DROP, 88: DROP, 112: ADDRESS},
    "CUDA_GRAPH_INSTANTIATE_PARAMS": {8: "CUstream", 16: DROP},
    "CUlaunchConfig": {32: "CUstream", 40: DROP},
    "CUgraphNode": {0: "CUgraphNode"},
}  # fmt: skip
MEMSET_NODE_V2 = {0: ADDRESS, 40: "CUcontext"}
OF_NODES = {  # by CUgraphNodeType, from byte 16 on
    0: KERNEL,
    1: {8: "CUcontext", **{16 + at: what for at, what in COPY_3D.items()}},
    2: MEMSET_NODE_V2,
    3: {0: DROP, 8: DROP, 24: "CUcontext"},
    4: {0: "CUgraph"},
    6: {0: "CUevent"},
    7: {0: "CUevent", 8: "CUcontext"},
    10: {16: DROP, 88: DROP, 112: ADDRESS},
    11: {0: ADDRESS},
}
SAFE_ATTRIBUTES = {2, 4, 8}
"""of launches, without handles in them: cooperative, cluster dimensions, priority"""
CONFIG_BYTES, ATTRIBUTE_BYTES = 56, 72


def places(structure: str, image: bytes) -> dict[int, str]:
    """What lies where; for arrays of handles, each of them."""
    if structure == "CUgraphNodeParams":
        inner = OF_NODES.get(int.from_bytes(image[:4], "little"), {})
        return {16 + at: what for at, what in inner.items()}
    if structure == "CUgraphNode":
        return dict.fromkeys(range(0, len(image), 8), "CUgraphNode")
    if structure == "CUstreamBatchMemOpParams":
        return {at: ADDRESS for n in range(0, len(image), 48) for at in (n + 8, n + 32)}
    return STRUCTURES.get(structure, {})


def without_unsafe_attributes(config: bytes) -> bytes:
    """A launch's configuration with only those attributes that are numbers."""
    head, rest = config[:CONFIG_BYTES], config[CONFIG_BYTES:]
    all_of_them = [rest[i : i + ATTRIBUTE_BYTES] for i in range(0, len(rest), ATTRIBUTE_BYTES)]
    kept = [one for one in all_of_them if int.from_bytes(one[:4], "little") in SAFE_ATTRIBUTES]
    return head[:48] + len(kept).to_bytes(4, "little") + head[52:] + b"".join(kept)
