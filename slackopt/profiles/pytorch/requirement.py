"""Whether PyTorch and the libraries of models are there, said in one sentence when they aren't."""

from __future__ import annotations

import importlib
from types import ModuleType

from slackopt.errors import InputError

_REMEDY = {
    "torch": "install the extra in a clone of slackopt: pip install '.[torch]'",
    "transformers": "install the extra in a clone of slackopt: pip install '.[torch]'",
    "torchvision": "install the torchvision release that belongs to your torch",
    "timm": "pip install timm",
}


def require(package: str) -> ModuleType:
    """Import a package and return it.

    Raises
    ------
    InputError
        If it isn't installed or can't be imported, with what to do.
    """
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise InputError(f"{package} can't be imported: {_first_line(error)}") from error
        raise InputError(
            f"this needs {package}, which isn't installed: {_REMEDY[package]}"
        ) from None
    except (ImportError, OSError, RuntimeError) as error:
        raise InputError(
            f"{package} is installed but can't be imported: {_first_line(error)}; "
            f"{_REMEDY[package]}"
        ) from error


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]
