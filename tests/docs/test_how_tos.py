"""The how-to pages are followed word by word: files written, programs run, commands typed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"(?:^<!-- (file|needs): (.+?) -->\n)?^```(\w+)\n(.*?)^```$", re.M | re.S)
HOW_TOS = sorted(
    path.name
    for path in (ROOT / "docs").glob("*.md")
    if path.stem.startswith("own-") or path.stem in ("citing", "cluster")
)


def follow(page: Path, folder: Path) -> list[str]:
    """Do what a page says, in a folder; return the commands that ran.

    A block under ``<!-- file: NAME -->`` is a file. Lines that begin with ``$`` in a console block
    are commands, unless the block is under ``<!-- needs: ... -->`` and so can't run everywhere.
    """
    tools = Path(sys.executable).parent
    environment = os.environ | {"MPLBACKEND": "Agg", "PATH": f"{tools}:{os.environ['PATH']}"}
    ran = []
    for kind, what, language, text in BLOCK.findall(page.read_text("utf-8")):
        if kind == "file":
            (folder / what).write_text(text, "utf-8")
        if language != "console" or kind == "needs":
            continue
        for line in re.findall(r"^\$ (.*)$", text, re.M):
            done = subprocess.run(
                ["bash", "-c", line],
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=200,
            )
            assert done.returncode == 0, f"{page.name}: {line}\n{done.stdout}\n{done.stderr}"
            assert "Traceback" not in done.stderr
            ran.append(line)
    return ran


@pytest.mark.slow
@pytest.mark.parametrize("name", HOW_TOS)
def test_a_how_to_works_word_by_word(name: str, tmp_path: Path) -> None:
    page = ROOT / "docs" / name
    ran = follow(page, tmp_path)
    text = page.read_text("utf-8")
    scripts = re.findall(r"^<!-- file: (\S+)\.py -->", text, re.M)
    assert ran, "the page has nothing to do"
    unused = [s for s in scripts if f"python {s}.py" not in ran and f"import {s}" not in text]
    assert unused == [], "written and never run"
