"""The command line: parses and calls; what it prints is made elsewhere."""

from slackopt.cli.run import main

__all__ = ["main"]
