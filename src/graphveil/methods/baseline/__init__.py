"""Baselines, and the choice among methods: what protects nobody, or reads no edge."""
