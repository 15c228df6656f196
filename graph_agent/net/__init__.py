"""Network security: addresses that no URL may lead to, and bearer tokens."""
