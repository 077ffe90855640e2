"""Methods that protect features or labels beside public edges."""
