"""The command `mnemon`, which is also `python -m mnemon`."""

from __future__ import annotations

import sys
from typing import NoReturn

from mnemon.allocator import restart_with_huge_pages

COMPUTING = ("run", "compare", "reproduce", "sweep")


def main() -> NoReturn:
    """Run the command with the words that were typed."""
    if sys.argv[1:2] and sys.argv[1] in COMPUTING:
        restart_with_huge_pages()  # before anything slow is imported

    from mnemon.cli import main

    main()


if __name__ == "__main__":  # worker processes import this file too
    main()
