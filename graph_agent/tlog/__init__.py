"""Transparency logs in the formats of C2SP (c2sp.org): Merkle trees, signed notes, checkpoints, proofs and witnesses."""
