"""Names the tests that failed the last time: failed.py CACHE MOST

CACHE is pytest's cache directory. It remembers tests that are gone; those do not count. Exit code 1
if there are none, or more than MOST.
"""

import json
import sys
from pathlib import Path


def is_there(name: str) -> bool:
    """Whether a file still has the test: PATH::NAME[PARAMETERS], or a PATH alone."""
    path, _, test = name.partition("::")
    file = Path(path)
    return file.is_file() and test.rpartition("::")[2].partition("[")[0] in file.read_text()


def main(cache: Path, most: int) -> int:
    """Print a line for each; the exit code."""
    try:
        failed = list(json.loads((cache / "v" / "cache" / "lastfailed").read_text()))
    except FileNotFoundError:
        failed = []
    failed = [name for name in failed if is_there(name)]
    for name in failed:
        print("failed:", name)
    if not failed:
        print("no test is known to have failed: whatever went wrong, it was not one")
    elif len(failed) > most:
        print(f"{len(failed)} tests failed: too many to blame what ran beside them")
    return 0 if 0 < len(failed) <= most else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
