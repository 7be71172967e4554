"""`python -m recall_loop.cli`, where the command itself is not on the path."""

import sys

from recall_loop.cli.main import main

sys.exit(main())
