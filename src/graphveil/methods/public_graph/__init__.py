"""Methods that learn beside a public graph, and what several of them share."""
