"""``python -m tracetypes``: the command line."""

import sys

from tracetypes.cli import main

__all__: list[str] = []

if __name__ == "__main__":
    sys.exit(main())
