"""The webhook: reads what new pods ask for, and writes it as claims or units.

It owns the answers to the API server, the templates that they need, its certificate, and what the
cluster told it. It never decides which node or GPU a pod gets: schedulers do, by what it wrote.
"""
