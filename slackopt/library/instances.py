"""The instance files of a library: one folder a family, one file an instance."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pydantic_core import from_json

from slackopt.errors import InputError
from slackopt.files import BEST, read_instance, read_text, without_best
from slackopt.instance import Instance
from slackopt.library.store import CLAIMS


@dataclass(frozen=True)
class LibraryInstance:
    """One instance of a library.

    Attributes
    ----------
    path
        Its file.
    name, sha256
        Its name, unique in its family, and its identity.
    """

    path: Path
    name: str
    sha256: str

    @property
    def family(self) -> Path:
        """Folder of its family, where ``best.json`` is."""
        return self.path.parent


def instance_files(paths: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """Return instance files: the files given, and those in the folders given and below.

    In a folder every ``.json`` and ``.json.gz`` file counts but ``best.json``, what is in a
    folder ``best`` and hidden files.

    Raises
    ------
    InputError
        For a path that does not exist, or if there is no file at all.
    """
    found: dict[Path, None] = {}
    given = without_best(paths)
    for path in given:
        if path.is_dir():
            found |= dict.fromkeys(
                sorted(
                    file
                    for file in path.rglob("*.json*")
                    if file.name.endswith((".json", ".json.gz"))
                    and file.name != BEST
                    and file.parent.name != CLAIMS
                    and not file.name.startswith(".")
                )
            )
        elif path.is_file():
            found[path] = None
        else:
            raise InputError(f"{path}: no such file or folder")
    if not found:
        raise InputError(
            f"no instance file in {', '.join(map(str, given)) or 'nothing'}; give instance files "
            "(.json, .json.gz) or folders of them"
        )
    return list(found)


def instance_name(path: Path) -> str | None:
    """Return the name in an instance file, without a check of the rest; None for another format.

    Raises
    ------
    InputError
        If the file can't be read, or is no JSON object with a name.
    """
    try:
        document = from_json(read_text(path))
    except ValueError as error:
        raise InputError(f"{path}: not JSON: {error}") from None
    if not isinstance(document, dict):
        raise InputError(f"{path}: the top level must be a JSON object")
    if document.get("format") != Instance.model_fields["format"].default:
        return None
    name = document.get("name")
    if not isinstance(name, str):
        raise InputError(f"{path}: name: must be a string; write the name of the instance")
    return name


def identify(path: Path) -> LibraryInstance:
    """Read an instance file and return its name and identity.

    Raises
    ------
    InputError
        If it is no sound instance file.
    """
    instance = read_instance(path)
    return LibraryInstance(path, instance.name, instance.sha256)


def check_unique(instances: Iterable[LibraryInstance]) -> None:
    """Raise `InputError` if two instances of a family share a name."""
    seen: dict[tuple[Path, str], Path] = {}
    for found in instances:
        other = seen.setdefault((found.family.resolve(), found.name), found.path)
        if other != found.path:
            raise InputError(
                f"{found.path}: the name {found.name!r} is also that of {other}; names are unique "
                "in a family: rename one"
            )
