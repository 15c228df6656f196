"""Third-party libraries that the core does not need: one module or package for each, installed by an extra."""
