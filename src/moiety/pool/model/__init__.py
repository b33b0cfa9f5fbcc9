"""The records of the pool: states, submissions, and the rows that commands show.

It owns the types, and which state follows which. It never touches the store or a socket.
"""
