"""Attacks, one file each. A new file in this folder adds to them."""
