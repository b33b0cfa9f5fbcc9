"""The terminal screen: the GPUs and their tenants, looked at again every second.

It owns what is shown where, and the rates between two looks. It changes nothing, asks only what
`moiety ps` and `moiety status` ask, and never starts an agent.
"""
