"""Subgraph samplers: one file each, compiled, and each states how often a node can occur."""
