"""Conditions that are suggested from the record, and trials of rules in the shadow."""
