"""What runs on private data beside what it costs, one file each. A new file in this folder adds to them."""
