"""What one or two methods need, and nobody else."""
