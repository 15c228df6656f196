"""The conversation database: conversations, messages, turns, rate limits and used confirmations.

Its tables are in the same database as the tasks; neither refers to the other.
"""
