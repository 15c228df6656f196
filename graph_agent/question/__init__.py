"""Questions: exact calls that wait for a person, and the answers of people.

A question asks its requester for a yes, or others for their approval. Nothing here knows chats, models or rules: it stores what
was shown, who may answer it, and how it ended. Every transition runs in the caller's transaction, by the database's clock.
"""
