"""`python -m mnemon` is the command `mnemon`."""

from mnemon.cli import main

if __name__ == "__main__":  # worker processes import this file too
    main()
