"""Changes to valid files that leave most of their structure alone."""

from __future__ import annotations

import copy
import json
from typing import Any

from fuzz_inputs import archived
from hypothesis import strategies as st

_NUMBERS = [0, -1, 1, 2**31, 2**53 + 1, 2**63, 2**64, 10**30, 0.5, -0.0, 1e308, 1e-308]
_TEXTS = ["", " ", "x" * 5000, "\x1b[2J", "\ud800", "\0", "a\nb", "é", "-", "nan", "=1", "{}", "1"]

scalars = (
    st.none()
    | st.booleans()
    | st.sampled_from(_NUMBERS)
    | st.integers()
    | st.floats()
    | st.sampled_from(_TEXTS)
    | st.text(max_size=8)
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=4,
)
share = st.integers(0, 2**32 - 1)
kinds = st.sampled_from(
    ["leave out", "replace", "copy", "double", "swap", "rename", "scale", "wrap", "empty", "nest"]
)
change = st.tuples(kinds, share, share, values)
_DAMAGE = (
    "bom;utf-16;cut;flip;append;insert;gz;gz gz;tar;tar.gz;zip;two in a zip;cut gz;flip gz;cut zip;"
    "flip zip"
)
envelopes = st.sampled_from([*["plain"] * 12, *_DAMAGE.split(";")])


@st.composite
def changed_inputs(draw: st.DrawFn, seeds: list[bytes]) -> bytes:
    """One of the seeds, changed up to five times, maybe packed, cut or with other bytes."""
    seed = draw(st.sampled_from(seeds))
    changes = draw(st.lists(change, max_size=5))
    content = changed(seed, changes)
    return packed(content, draw(envelopes), draw(share), draw(st.binary(max_size=4)))


def changed(seed: bytes, changes: list[tuple[str, int, int, Any]]) -> bytes:
    """Change a JSON document, or a text by its lines and cells."""
    try:
        document = json.loads(seed.decode())
    except ValueError:
        return _changed_text(seed, changes)
    for kind, at, other, value in changes:
        document = _change(document, kind, at, other, value)
    return json.dumps(document, ensure_ascii=bool(len(changes) % 2)).encode(
        "utf-8", "surrogatepass"
    )


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every container with each of its keys."""
    found, pending = [], [value]
    while pending:
        place = pending.pop()
        keys = place if isinstance(place, dict) else range(len(place))
        for key in keys:
            found.append((place, key))
            if isinstance(place[key], dict | list) and len(found) < 20_000:
                pending.append(place[key])
    return found


def _change(document: Any, kind: str, at: int, other: int, value: Any) -> Any:
    places = _places(document) if isinstance(document, dict | list) else []
    if not places:
        return value
    place, key = places[at % len(places)]
    second, second_key = places[other % len(places)]
    if kind == "leave out":
        del place[key]
    elif kind == "replace":
        place[key] = value
    elif kind == "copy":
        place[key] = copy.deepcopy(second[second_key])
    elif kind == "double":
        if isinstance(place, list):
            place.insert(other % (len(place) + 1), copy.deepcopy(place[key]))
        else:
            place[f"{key}2"] = copy.deepcopy(place[key])
    elif kind == "swap":
        mine, theirs = copy.deepcopy(place[key]), copy.deepcopy(second[second_key])
        place[key], second[second_key] = theirs, mine
    elif kind == "rename" and isinstance(place, dict):
        place[str(value)[:20]] = place.pop(key)
    elif kind == "scale" and isinstance(place[key], int | float):
        place[key] = place[key] * (-1, 0, 2, 1000, 10**6, 10**15, 0.5, 1e-9)[other % 8]
    elif kind == "wrap":
        place[key] = [place[key]] if other % 2 else {"name": place[key]}
    elif kind == "empty":
        place[key] = type(place[key])() if place[key] is not None else {}
    elif kind == "nest":
        inner: Any = place[key]
        for _ in range(other % 300):
            inner = [inner]
        place[key] = inner
    return document


def _changed_text(seed: bytes, changes: list[tuple[str, int, int, Any]]) -> bytes:
    lines = seed.decode("utf-8", "surrogateescape").split("\n")
    sign = "\t" if "\t" in lines[0] else ";" if lines[0].count(";") > lines[0].count(",") else ","
    for kind, at, other, value in changes:
        i, j = at % len(lines), other % len(lines)
        cells = lines[i].split(sign)
        k = other % len(cells)
        text = value if isinstance(value, str) else str(value)
        if kind == "leave out":
            lines[i] = sign.join(cells[:k] + cells[k + 1 :])
        elif kind == "replace":
            lines[i] = sign.join([*cells[:k], text, *cells[k + 1 :]])
        elif kind == "copy":
            lines[i] = lines[j]
        elif kind == "double":
            lines.insert(j, lines[i])
        elif kind == "swap":
            lines[i], lines[j] = lines[j], lines[i]
        elif kind == "rename":
            lines = [line.replace(sign, (";", "\t", ",", "|")[other % 4]) for line in lines]
        elif kind == "scale":
            lines[i] = lines[i] + sign * (other % 4)
        elif kind == "wrap":
            lines[i] = sign.join([*cells[:k], f'"{cells[k]}', *cells[k + 1 :]])
        elif kind == "empty":
            lines[i] = ""
        elif kind == "nest":
            lines[i] = "[" * (other % 3000) + lines[i]
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def packed(content: bytes, envelope: str, at: int, junk: bytes) -> bytes:
    """Pack, cut or damage a file."""
    how, _, kind = envelope.partition(" ")
    if kind in ("gz", "zip") and how in ("cut", "flip"):
        content = archived(content, kind)
    place = at % (len(content) + 1)
    if envelope == "bom":
        return b"\xef\xbb\xbf" + content
    if envelope == "utf-16":
        return content.decode("utf-8", "replace").encode("utf-16")
    if envelope == "two in a zip":
        return archived(content, "zip", 2)
    if envelope == "gz gz":
        return archived(archived(content, "gz"), "gz")
    if how == "cut":
        return content[:place]
    if how == "flip":
        return content[:place] + junk + content[place + len(junk) :]
    if how == "append":
        return content + junk
    if how == "insert":
        return content[:place] + junk + content[place:]
    return content if how == "plain" else archived(content, envelope)
