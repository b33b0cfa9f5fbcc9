"""The centre of the agent: events go to the arbiter, and its instructions are carried out.

It owns the runtime, the clients with their connections and lease pages, the timeline and the
journal. It never parses a message.
"""
