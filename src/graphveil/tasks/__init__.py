"""What is predicted: one file per task."""
