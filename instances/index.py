"""Write ``index.csv`` and ``index.html``, or check that they are up to date.

Usage: ``python instances/index.py [--check]``
"""

import sys
from pathlib import Path

from slackopt.library.index import main

if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parent))
