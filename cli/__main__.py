"""`python -m recall_loop.cli`, where the command itself is not on the path."""

import sys

from recall_loop.cli.main import main

if __name__ == "__main__":  # workers of `recall-loop serve` import it under another name
    sys.exit(main())
