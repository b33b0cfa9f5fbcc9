"""The codec of the messages between the shim and the agent.

It owns the Python picture of `native/wire/wire.h`: every constant, layout and message. It turns
bytes into frozen messages and back, and never touches a socket, a file or a clock.
"""
