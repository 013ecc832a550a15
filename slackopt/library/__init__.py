"""Best-known solutions of the instance library: read, improved from batches, checked again."""

from slackopt.library.hardness import Hardness, hardness
from slackopt.library.records import Best, BestEntry, Certificate
from slackopt.library.solution_list import solution_list
from slackopt.library.store import find_best_files, read_best, read_best_plan
from slackopt.library.update import UpdateReport, update_best
from slackopt.library.verification import VerifyReport, verify_best

__all__ = [
    "Best",
    "BestEntry",
    "Certificate",
    "Hardness",
    "UpdateReport",
    "VerifyReport",
    "find_best_files",
    "hardness",
    "read_best",
    "read_best_plan",
    "solution_list",
    "update_best",
    "verify_best",
]
