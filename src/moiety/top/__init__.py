"""The terminal screen: the GPUs and their tenants, looked at again every second.

It owns the layout of the screen, and the rates between two looks. It changes nothing, sends only
the requests of `moiety ps` and `moiety status`, and never starts an agent.
"""
