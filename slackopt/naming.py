"""Names of instances in a table: instances that share a name are told apart by their content."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

_DIGITS = 8


def distinct_names(instances: Iterable[tuple[str, str, Hashable]]) -> dict[str, str]:
    """Return a name for each instance that no other has.

    Parameters
    ----------
    instances
        Name and hash of each, in any order and number, and what else the table shows of it (the
        budget): those that differ in it may have one name.

    Returns
    -------
    dict
        Hash -> the name, with the first digits of the hash behind it where others share it.
    """
    sharing: dict[tuple[str, Hashable], set[str]] = {}
    for name, sha256, shown in instances:
        sharing.setdefault((name, shown), set()).add(sha256)
    names: dict[str, str] = {}
    for (name, _), found in sharing.items():
        digits = next(
            (n for n in range(_DIGITS, 65) if len({sha256[:n] for sha256 in found}) == len(found)),
            64,
        )
        for sha256 in found:
            if len(found) > 1:
                names[sha256] = f"{name} [{sha256[:digits]}]"
            else:
                names.setdefault(sha256, name)
    return names
