"""Work that is due later, or again: one table for all of it."""
