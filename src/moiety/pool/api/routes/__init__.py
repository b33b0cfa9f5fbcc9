"""The routes of version 1, by subject: each module has its lines of the table, and the handlers.

It owns what each route answers. It never touches a socket, or a connection that writes.
"""
