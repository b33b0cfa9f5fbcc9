"""Kubernetes: how pods ask for a share of a GPU, and how they get it.

It owns what speaks to a cluster: the API client, the DRA driver and the device plugin of a node,
the webhook, and how shares are written there. It never decides who may use a GPU when: what a pod
was promised is a share like any other, and the agent has it from here.
"""
