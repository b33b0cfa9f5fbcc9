"""Kubernetes: how pods ask for a share of a GPU, and how they get it.

It owns all parts that speak to a cluster: the API client, the DRA driver and the device plugin of a
node, the webhook, and the dialects. It never decides who may use a GPU when: a pod's promise is a
share like any other, and the agent gets it from here.
"""
