"""One page from many results."""
