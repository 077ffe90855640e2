"""`python -m graphveil` is the command line."""

from graphveil.cli import main

main()
