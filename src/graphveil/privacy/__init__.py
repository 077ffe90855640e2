"""What protection costs, the noise that buys it, the door to private data, and the book of what was spent."""
