"""Containers of Podman and runc that have a share, on simgpu.

No image comes from a registry: each is put together from a C library's package and a program. What
is installed is installed by `setup.py`, which `make test-containers` runs.
"""
