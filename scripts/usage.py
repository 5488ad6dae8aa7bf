"""`python scripts/NAME.py --help`, for the scripts that read their words themselves."""

import sys


def answer_help(description: str | None) -> None:
    """Print the docstring of a script and end it, if the command line asks for help."""
    if {"-h", "--help"} & set(sys.argv[1:]):
        print((description or "").strip())
        sys.exit(0)
