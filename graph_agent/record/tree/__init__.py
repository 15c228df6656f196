"""The record as a transparency log: every closed decision is a leaf of one Merkle tree, whose root is signed and witnessed."""
