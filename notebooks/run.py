"""Run the notebooks from top to bottom, or write the .ipynb files again.

Usage: ``python notebooks/run.py [NAME ...] [--small] [--out FOLDER] [--timeout S]``, or
``python notebooks/run.py --write``. The beginning of a name is enough: ``1`` or ``1-quick``.

The text of a notebook is its .py file (jupytext, percent format); the .ipynb beside it holds the
same cells, without outputs. Executed copies (.ipynb and .html) and figures go to FOLDER,
``build/notebooks`` by default. Exit code: 0, or 1 if a notebook failed.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbconvert import HTMLExporter
from nbformat import NotebookNode

FOLDER = Path(__file__).resolve().parent
OUT = FOLDER.parent / "build" / "notebooks"


def sources(names: list[str] | None = None) -> list[Path]:
    """Return the .py files of the notebooks with these names, or of all, in order."""
    every = sorted(FOLDER.glob("[0-9]*.py"))
    found = []
    for name in names or [path.stem for path in every]:
        matches = [path for path in every if path.stem.startswith(name)]
        if len(matches) != 1:
            known = ", ".join(path.stem for path in every)
            raise SystemExit(f"notebook {name!r}: choose one of: {known}")
        found += matches
    return found


def read(source: Path) -> NotebookNode:
    """Read the text of a notebook; the same text gives the same notebook, byte for byte."""
    notebook = jupytext.read(source)
    for number, cell in enumerate(notebook.cells, start=1):
        cell.id = f"cell-{number:02}"  # jupytext would draw a random one
        # What only says how the text was laid out, and by which tool.
        cell.metadata.pop("lines_to_next_cell", None)
    notebook.metadata.pop("jupytext", None)
    return notebook


def clean(source: Path) -> str:
    """Return the .ipynb file that belongs to a .py file, as text."""
    return str(nbformat.writes(read(source))) + "\n"


def missing(source: Path) -> list[str]:
    """Return the packages that the notebook needs and that are not installed."""
    needs = read(source).metadata.get("slackopt", {}).get("needs", [])
    return [package for package in needs if find_spec(package) is None]


def execute(source: Path, out: Path, *, timeout: int | None = None) -> Path:
    """Run a notebook from top to bottom; write what it shows, also when a cell fails.

    Raises
    ------
    CellExecutionError
        If a cell fails.
    """
    notebook = read(source)
    target = out / f"{source.stem}.ipynb"
    client = NotebookClient(
        notebook, timeout=timeout, kernel_name="python3", resources={"metadata": {"path": FOLDER}}
    )
    try:
        with tempfile.TemporaryDirectory() as sockets:
            if sys.platform != "win32":
                # Ports could be taken by another run, and are open to everyone on the machine.
                client.km = client.create_kernel_manager()
                client.km.transport, client.km.ip = "ipc", str(Path(sockets) / "kernel")
            client.execute()
    finally:
        nbformat.write(notebook, target)
        page, _ = HTMLExporter(embed_images=True).from_notebook_node(
            notebook, {"metadata": {"name": source.stem}}
        )
        target.with_suffix(".html").write_text(page, encoding="utf-8")
    return target


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="which notebooks; all by default")
    parser.add_argument("--small", action="store_true", help="small settings, as in the tests")
    parser.add_argument("--out", type=Path, default=OUT, help="where copies and figures go")
    parser.add_argument("--timeout", type=int, help="seconds that one cell may take; no limit")
    parser.add_argument("--write", action="store_true", help="only write the .ipynb files again")
    asked = parser.parse_args()
    chosen = sources(asked.names)
    if asked.write:
        for source in chosen:
            source.with_suffix(".ipynb").write_text(clean(source), encoding="utf-8")
            print(source.with_suffix(".ipynb").name)
        return 0
    out = asked.out.resolve()
    (out / "figures").mkdir(parents=True, exist_ok=True)
    os.environ["SLACKOPT_FIGURES"] = str(out / "figures")
    os.environ["SLACKOPT_NOTEBOOKS"] = "small" if asked.small else "full"
    failed = []
    for source in chosen:
        lacks = missing(source)
        if lacks:
            print(f"{source.stem}: skipped, needs {' and '.join(lacks)} (make torch)", flush=True)
            continue
        begin = time.monotonic()
        try:
            execute(source, out, timeout=asked.timeout)
        except CellExecutionError as error:
            failed.append(source.stem)
            print(f"{source.stem}: failed\n{error}", file=sys.stderr, flush=True)
        except Exception as error:  # a kernel that dies or hangs must not end the others
            failed.append(source.stem)
            what = f"{type(error).__name__}: {error}".rstrip(": ")
            print(f"{source.stem}: failed, its kernel ended: {what}", file=sys.stderr, flush=True)
        else:
            print(f"{source.stem}: {time.monotonic() - begin:.0f} s", flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}; see {out}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
