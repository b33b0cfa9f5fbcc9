"""What is granted at all: memory, guarantees, limits of users, credit, and reserves.

It owns every refusal. It never schedules a lease.
"""
