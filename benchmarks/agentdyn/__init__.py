"""Recorded conversations of real models (AgentDyn, arXiv 2602.03117) through the engine, judged by AgentDojo's own checks."""
