"""Processes and scratch folders: nothing gets away, nothing in use is swept."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from slackopt.batch import scratch
from slackopt.batch.processes import oom_kills, resident_bytes, signal_name, tree

CODE = """
import os, subprocess, sys, time
from slackopt.batch import processes
processes._LISTS_CHILDREN = processes._LISTS_CHILDREN and {lists}
processes.adopt_orphans()
# A process that leaves two of its own behind, one in another session and deaf to signals.
orphans = 'setsid bash -c "trap \\'\\' TERM; sleep 100" & sleep 100 & exit 0'
subprocess.run(["bash", "-c", orphans], check=True)
until = time.monotonic() + 20
while len(processes.tree(os.getpid())) < 3 and time.monotonic() < until:
    time.sleep(0.02)
assert len(processes.tree(os.getpid())) >= 3
assert processes.kill_descendants()
assert processes.tree(os.getpid()) == [os.getpid()]
"""


@pytest.mark.parametrize("lists", [True, False])
def test_orphans_are_found_and_killed(lists: bool) -> None:
    code = CODE.format(lists=lists)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_child_dies_with_its_parent() -> None:
    code = (
        "import os, signal, sys, time\n"
        "from slackopt.batch.processes import die_with_parent\n"
        "parent = os.getpid()\n"
        "if os.fork() == 0:\n"
        "    die_with_parent(parent, signal.SIGKILL)\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(100)\n"
        "time.sleep(100)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.kill()
    assert process.stdout.read() == b""  # its end is closed by the death of both
    process.wait()
    process.stdout.close()


def test_measures() -> None:
    assert os.getpid() in tree(os.getpid())
    assert resident_bytes([os.getpid()]) > 10 * 2**20
    assert resident_bytes([2**22 + 1]) == 0
    assert signal_name(9) == "SIGKILL"
    assert signal_name(200) == "signal 200"
    assert oom_kills() is None or oom_kills() >= 0  # type: ignore[operator]


def test_folders_in_use_are_not_swept(tmp_path: Path) -> None:
    tmp_path /= "root"
    dead = tmp_path / "run-dead"
    (dead / "inner").mkdir(parents=True)
    (dead / "inner" / "file").write_text("x")
    (dead / "inner").chmod(0o500)
    with scratch.run_folder(tmp_path, "a" * 32) as folder:
        (folder / "file").write_text("x")
        assert scratch.sweep(tmp_path) == 1
        assert folder.exists()
    assert not list(tmp_path.iterdir())
    (tmp_path / "new-x").mkdir()
    scratch.sweep(tmp_path)
    assert (tmp_path / "new-x").exists()
    os.utime(tmp_path / "new-x", (1.0, 1.0))
    scratch.sweep(tmp_path)
    assert not (tmp_path / "new-x").exists()


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="needs Linux")
def test_cores_have_one_holder() -> None:
    number = len(os.sched_getaffinity(0))
    with scratch.own_cores(1) as mine, scratch.own_cores(number) as all_of_them:
        assert len(mine) <= 1  # none if other batches of this machine hold them
        assert all_of_them == () or not mine
    with scratch.own_cores(0) as none, scratch.own_cores(10**6) as too_many:
        assert none == too_many == ()
