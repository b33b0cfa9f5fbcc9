"""A control plane and a node of Kubernetes as users have them, on simgpu.

`setup.py` builds them, `inside.py` gives them a network, mounts and processes of their own,
`bed.py` starts them. `make test-kube` does all three.
"""
