"""The store of the pool: SQLite in WAL mode, one writer, each answer durable before it is given.

It owns the database: its schema, its migrations, and every statement. It never decides anything,
and no other package writes to the database.
"""
