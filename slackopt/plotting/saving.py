"""Figures to files: the same figure gives the same bytes."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from slackopt.errors import InputError
from slackopt.files import check_writable, write_bytes

# What would differ between two runs, or between two versions of matplotlib, for no reason of ours.
_METADATA: dict[str, dict[str, Any]] = {
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
}


def save_figure(figure: Figure, path: str | os.PathLike[str], *, dpi: float | None = None) -> None:
    """Write a figure at its size, whole or not at all; the same figure gives the same bytes.

    No time, no version and no random name gets into the file. Bytes are the same for one version
    of matplotlib and its font library; another version may place a letter differently.

    Parameters
    ----------
    figure
        The figure. For papers its width is the width of the column, so that its letters have the
        size that they say.
    path
        A name that ends in ``.pdf``, ``.svg`` (vectors) or ``.png``.
    dpi
        Dots per inch of a PNG; the style's by default (300 for a paper, 150 for a slide).

    Raises
    ------
    InputError
        For another ending, or if the file can't be written.
    """
    suffix = Path(path).suffix[1:].lower()
    if suffix not in _METADATA:
        raise InputError(f"{path}: a figure is written as .pdf, .svg or .png; change the name")
    check_writable(path)
    write_bytes(figure_bytes(figure, suffix, dpi=dpi), path)


def figure_bytes(figure: Figure, kind: str, *, dpi: float | None = None) -> bytes:
    """Return what `save_figure` writes, e.g. an SVG to put into a page.

    Parameters
    ----------
    figure, dpi
        See `save_figure`.
    kind
        ``pdf``, ``svg`` or ``png``.

    Raises
    ------
    InputError
        For another kind.
    """
    if kind not in _METADATA:
        raise InputError(f"kind {kind!r}: choose one of: {', '.join(_METADATA)}")
    buffer = io.BytesIO()
    # The salt makes the names of clips and hatches in an SVG the same every time.
    with mpl.rc_context({"svg.hashsalt": "slackopt", "savefig.bbox": None}):
        figure.savefig(buffer, format=kind, dpi=dpi, metadata=_METADATA[kind])
    return buffer.getvalue()
