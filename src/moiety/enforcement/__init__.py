"""Acts on processes that use a GPU outside of moiety's rules, and reports idle tenants.

It owns the ladders (warn, event, grace, kill), exemptions, and the interference of each tenant.
Pure, like the arbiter: facts and the time in, actions out. It never looks at a process itself, and
ends none.
"""
