"""Replays: run a decision again, offline, from its record alone, and divide that work between processes."""
