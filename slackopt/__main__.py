"""``python -m slackopt``."""

import sys

from slackopt.cli import main

if __name__ == "__main__":
    sys.exit(main())
