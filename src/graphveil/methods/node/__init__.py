"""Methods at node level, of which some protect features or labels too, and what several of them share."""
