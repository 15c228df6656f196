"""Other frameworks with the same turn: the same prompt and tools, and a model that answers at once."""
