"""``python -m nbstream.cli`` is the command ``nbstream``."""

import sys

from nbstream.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
