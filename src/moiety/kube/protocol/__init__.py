"""What a kubelet and its plugins say to each other: Kubernetes' own definitions, and their code.

It owns nothing of ours: the `.proto` files are those of k8s.io/kubelet v0.36.3 (Apache-2.0, see
LICENSE), under names that can lie in one folder, and `tools/protocol.py` makes the modules from
them. Nobody ever edits either by hand.
"""
