"""What several methods of this group share."""
