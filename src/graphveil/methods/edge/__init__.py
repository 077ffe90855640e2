"""Methods at edge level, and what several of them share."""
