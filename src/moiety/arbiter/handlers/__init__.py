"""What each event does to the state: one function `on_<event>` for each event.

It owns the meaning of every event. It never decides which tenant holds a GPU: the round does.
"""
