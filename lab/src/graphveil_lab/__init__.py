"""The laboratory of graphveil: leaderboard, papers, court and records. It imports public names of graphveil alone."""
