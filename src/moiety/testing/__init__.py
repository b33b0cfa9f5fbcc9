"""Fakes for tests of software that builds on moiety: a plug-in, a dialect, a controller, a script.

    clocks      a clock that moves when a test says so
    fakes       GPUs on paper, for code that reads `moiety.devices.interface`
    node        a real agent on simulated GPUs, and programs under it
    apiserver   a Kubernetes API server in memory, for clients and dialects
    kubelet     the kubelet's side of DRA, device plugins and pod resources
    kube_node   a node of such a cluster: agent, kubelet and API server together
    waiting     how tests wait: with a deadline, never for a fixed time

It owns these fakes, which other projects may import: they need nothing but the wheel. It never
becomes part of a running node: the product does not import it. What only moiety's own tests need
lies in `tests/support` of the source, outside the wheel.
"""
