"""Moiety's part of API objects: names, quantities and shares.

It owns the names of annotations, resources and device attributes, Kubernetes' quantities, and the
share as opaque parameters. It never speaks to a cluster, and imports no other part of `kube`.
"""
