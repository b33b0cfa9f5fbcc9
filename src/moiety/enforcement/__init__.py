"""What is done about who uses a GPU in a way that moiety does not provide for, and who is idle.

It owns the ladders (warn, event, grace, kill), exemptions, and who costs others how much time.
Pure, like the arbiter: facts and the time in, actions out. It never looks at a process itself, and
ends none.
"""
