"""The analysis of conditions: which calls they permit, found by the solver z3 and confirmed by the guard."""
