"""The webhook: reads what new pods ask for, and writes it as claims or units.

It owns the answers to the API server, the templates that they need, its certificate, and its view
of the cluster. It never decides which node or GPU a pod gets: schedulers decide, by its claims.
"""
