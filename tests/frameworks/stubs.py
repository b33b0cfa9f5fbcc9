"""Makes libraries that do nothing in the place of NVIDIA's cuBLAS, cuDNN and so on.

PyTorch links several GB of them; without a GPU they only have to be loadable. Made are exactly the
symbols and symbol versions that a package's own libraries import, from their ELF tables, and each
function returns 0, which is success in all of those libraries. The driver and the runtime are not
among them.

    python tests/frameworks/stubs.py SITE-PACKAGES/torch OUT
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path

from tests.frameworks.elf import Import, imports
from tests.support.native import compile_c

OURS = re.compile(r"libcuda\.so|libcudart\.so")
NVIDIAS = re.compile(r"lib(cu|nv|nccl)")
# Those whose answer somebody looks at.
ANSWERS = {
    "cublasLtMatmulAlgoGetHeuristic": "one_algorithm",
    "cublasCreate_v2": "handle",
    "cublasLtCreate": "handle",
    "cudnnGetErrorString": "text",
    "cublasGetStatusString": "text",
    "ncclGetErrorString": "text",
    "cufftCreate": "handle",
    "nvrtcGetErrorString": "text",
}
SOURCE = """
#include <stddef.h>
long nothing(void);
long text(void);
long handle(void **out);
long one_algorithm(void *, void *, void *, void *, void *, void *, void *, int, void *, int *count);
long nothing(void) { return 0; }
long text(void) { return (long)"a stand-in without function"; }
long handle(void **out) { static char object[4096]; *out = object; return 0; }
long one_algorithm(void *a, void *b, void *c, void *d, void *e, void *f, void *g, int n, void *r,
                   int *count)
{
    (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g, (void)n, (void)r;
    *count = 1;
    return 0;
}
"""


def wanted(package: Path) -> dict[str, dict[str | None, set[str]]]:
    """By library, by version: the symbols that the package's libraries import from NVIDIA's."""
    files = [*package.rglob("*.so"), *package.rglob("*.so.*")]
    there = {file.name for file in files}
    found: dict[str, dict[str | None, set[str]]] = defaultdict(lambda: defaultdict(set))
    loose: list[Import] = []
    for file in files:
        asked = imports(file)
        for library in asked.libraries:
            if NVIDIAS.match(library) and not OURS.match(library) and library not in there:
                found[library][None] |= set()
        for symbol in asked.symbols:
            if symbol.library in found:
                found[symbol.library][symbol.version].add(symbol.name)
            elif symbol.version is None and not symbol.weak:
                loose.append(symbol)
    # Where nothing says which library has a symbol, its name does.
    stems = {library[3:].partition(".")[0].partition("_")[0].lower(): library for library in found}
    for symbol in loose:
        for stem in sorted(stems, key=len, reverse=True):
            if symbol.name.lower().startswith(stem):
                found[stems[stem]][None].add(symbol.name)
                break
    return found


def make(library: str, versions: dict[str | None, set[str]], out: Path) -> None:
    """Compiles one library."""
    lines = [SOURCE]
    for name in sorted(set().union(*versions.values())):
        target = ANSWERS.get(name, "nothing")
        lines.append(f'__asm__(".globl {name}\\n.type {name},@function\\n.set {name},{target}");')
    source = out / f"{library}.c"
    source.write_text("\n".join(lines) + "\n")
    script = out / f"{library}.map"
    nodes = [
        f"{version} {{ global: {' '.join(f'{n};' for n in sorted(names))} }};"
        for version, names in versions.items()
        if version and names
    ]
    flags = [f"-Wl,-soname,{library}"]
    if nodes:
        script.write_text("\n".join(nodes) + "\n")
        flags.append(f"-Wl,--version-script={script}")
    compile_c([source], out / library, shared=True, flags=flags)


def main(package: Path, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for library, versions in sorted(wanted(package).items()):
        make(library, versions, out)
        print(f"{library}: {sum(map(len, versions.values()))} symbols")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
