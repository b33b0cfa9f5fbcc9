"""Our words of Slurm against real Slurm, on simgpu.

`make test-slurm` runs `setup.py`, which installs Debian's slurm-wlm and mpirun. The configuration
lies in a folder of the test's own, and the daemons end with the test.
"""
