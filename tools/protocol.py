"""Makes the Python modules of Kubernetes' protocols: protocol.py [FOLDER].

They are committed, so that only who changes a `.proto` needs the compiler (grpcio-tools).
"""

from __future__ import annotations

import sys
from pathlib import Path

from grpc_tools import protoc

SOURCE = Path(__file__).resolve().parents[1] / "src" / "moiety" / "kube" / "protocol"


def generate(into: Path) -> list[Path]:
    """Write a module and its types for each protocol; returns the files."""
    names = sorted(file.name for file in SOURCE.glob("*.proto"))
    arguments = ["protoc", f"-I{SOURCE}", f"--python_out={into}", f"--pyi_out={into}", *names]
    if code := protoc.main(arguments):
        raise SystemExit(f"protoc ended with {code}")
    return sorted([*into.glob("*_pb2.py"), *into.glob("*_pb2.pyi")])


if __name__ == "__main__":
    for made in generate(Path(sys.argv[1]) if len(sys.argv) > 1 else SOURCE):
        print(made)
