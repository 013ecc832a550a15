"""Models from a file of the user's own: ``path/to/module.py:function``."""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from torch._subclasses.fake_tensor import FakeTensorMode

from slackopt.errors import InputError
from slackopt.profiles.pytorch.building import build_fake
from slackopt.profiles.pytorch.workload import Workload

_RETURNS = "return (model, inputs), (model, inputs, loss) or a slackopt.profiles.pytorch.Workload"


def is_file(name: str) -> bool:
    """Whether a model's name is that of a file and a function in it."""
    return name.rpartition(":")[0].endswith(".py") or name.endswith(".py")


def workload(
    name: str,
    *,
    batch: int | None,
    seq: int | None,
    num_layers: int | None,
    overrides: Mapping[str, Any],
    mode: FakeTensorMode,
) -> Workload:
    """Run the file, call the function, and return what it built.

    The function is called with those of ``batch``, ``seq``, ``num_layers`` and the overrides that
    are given, as keywords; it must have parameters of these names. It is called under fake
    tensors, where building takes no memory.

    Raises
    ------
    InputError
        If the file or the function is missing, fails or returns something else.
    """
    path, function_name, function = _load(name)
    given = {"batch": batch, "seq": seq, "num_layers": num_layers}
    options = {key: value for key, value in given.items() if value is not None} | dict(overrides)
    parameters = inspect.signature(function).parameters.values()
    if not any(p.kind is p.VAR_KEYWORD for p in parameters):
        known = [p.name for p in parameters]
        for key in options:
            if key not in known:
                has = f"has {', '.join(known)}" if known else "takes none"
                raise InputError(f"{path}: {function_name} has no parameter {key!r}; it {has}")
    with _folder_on_path(path):
        built = build_fake(lambda: function(**options), mode, f"{path}: {function_name}")
    record = {
        "source": "file",
        "file": path.name,
        "function": function_name,
        "options": options,
        **({} if batch is None else {"batch": batch}),
    }
    return _as_workload(built, f"{path}: {function_name}", path.stem, record)


def _load(name: str) -> tuple[Path, str, Callable[..., Any]]:
    file, _, function_name = name.rpartition(":")
    if not file.endswith(".py"):
        raise InputError(f"{name}: name the function that builds the model, as in {name}:build")
    path = Path(file)
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    spec = importlib.util.spec_from_file_location(f"slackopt_user_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    # Classes of the file look their module up by name.
    sys.modules[spec.name] = module
    try:
        with _folder_on_path(path):
            spec.loader.exec_module(module)
    except InputError:
        raise
    except Exception as error:
        line = str(error).strip().partition("\n")[0]
        raise InputError(f"{path}: running it failed: {type(error).__name__}: {line}") from error
    function = getattr(module, function_name, None)
    if not callable(function):
        found = [
            key
            for key, value in vars(module).items()
            if inspect.isfunction(value) and value.__module__ == spec.name
        ]
        has = f"; it has {', '.join(found)}" if found else ""
        raise InputError(f"{path}: has no function {function_name!r}{has}")
    return path, function_name, function


@contextlib.contextmanager
def _folder_on_path(path: Path) -> Iterator[None]:
    """Let the file import its neighbours."""
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def _as_workload(built: Any, where: str, name: str, record: Mapping[str, Any]) -> Workload:
    if isinstance(built, Workload):
        return Workload(
            built.model,
            built.inputs,
            targets=built.targets,
            loss=built.loss,
            name=built.name or name,
            record={**record, **built.record},
        )
    if isinstance(built, tuple) and len(built) in (2, 3):
        loss = built[2] if len(built) == 3 else None
        if loss is None or callable(loss):
            return Workload(built[0], built[1], loss=loss, name=name, record=record)
        raise InputError(f"{where} returns a {type(loss).__name__} as loss: must be a function")
    raise InputError(f"{where} returns a {type(built).__name__}: must {_RETURNS}")
