"""What a graph is: its parts, where they came from, and which of them are sealed."""
