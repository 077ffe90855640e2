"""Advice before anything is spent, from public facts alone."""
