"""Attacks, what they prove about a claim, and the court that tries every claim."""
