"""moiety lets many unmodified CUDA programs share one GPU.

The package root owns the version and nothing else: importing it is cheap, and each module imports
the parts that it needs.
"""

from moiety.version import __version__

__all__ = ["__version__"]
