"""Many runs: isolated, limited, resumable; one file per run."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from slackopt.batch.run import Run, Task
from slackopt.batch.store import read_run, read_runs, write_run

if TYPE_CHECKING:
    from slackopt.batch.batch import BatchState, Settings, run_batch, run_study
    from slackopt.batch.local import LocalExecutor
    from slackopt.batch.slurm import SlurmExecutor
    from slackopt.batch.study import Study, make_study, read_study

__all__ = [
    "BatchState",
    "LocalExecutor",
    "Run",
    "Settings",
    "SlurmExecutor",
    "Study",
    "Task",
    "make_study",
    "read_run",
    "read_runs",
    "read_study",
    "run_batch",
    "run_study",
    "write_run",
]

# What carries out runs imports every solver; what reads them should not.
_LATER = {
    "BatchState": "batch",
    "LocalExecutor": "local",
    "Settings": "batch",
    "SlurmExecutor": "slurm",
    "Study": "study",
    "make_study": "study",
    "read_study": "study",
    "run_batch": "batch",
    "run_study": "batch",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(f"slackopt.batch.{_LATER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
