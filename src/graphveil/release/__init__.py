"""What leaves: a model with its certificate, released edges, and how both are read back and checked."""
