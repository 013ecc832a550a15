"""Claims: one owner, whatever happens to the others."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from slackopt.batch.claims import Claims
from slackopt.errors import InputError

KEY = "a" * 32


def test_a_claim_has_one_owner(tmp_path: Path) -> None:
    with Claims(tmp_path) as mine, Claims(tmp_path) as others:
        assert mine.claim(KEY)
        assert not others.claim(KEY)
        assert others.claim("b" * 32)
        mine.release(KEY)
        assert others.claim(KEY)
        mine.release(KEY)  # no longer ours: left alone
        assert not mine.claim(KEY)
    assert not (tmp_path / "claims").exists()


def test_many_at_once(tmp_path: Path) -> None:
    won: list[int] = []
    ready = threading.Barrier(8)

    def race(number: int, claims: Claims) -> None:
        ready.wait()
        if claims.claim(KEY):
            won.append(number)

    all_claims = [Claims(tmp_path).__enter__() for _ in range(8)]
    threads = [threading.Thread(target=race, args=pair) for pair in enumerate(all_claims)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    for claims in all_claims:
        claims.__exit__()


def dead_claim(folder: Path) -> None:
    """Claim a run in a process that then dies without giving it back."""
    code = (
        "import os, sys\nfrom slackopt.batch.claims import Claims\n"
        f"claims = Claims(sys.argv[1]).__enter__()\nassert claims.claim({KEY!r})\nos._exit(1)"
    )
    subprocess.run([sys.executable, "-c", code, str(folder)], check=False)
    assert (folder / "claims" / KEY).exists()


def test_a_dead_owner_of_this_machine_loses_its_claims_at_once(tmp_path: Path) -> None:
    dead_claim(tmp_path)
    with Claims(tmp_path) as claims:
        assert claims.claim(KEY)


def test_sweep_removes_what_the_dead_left(tmp_path: Path) -> None:
    dead_claim(tmp_path)
    with Claims(tmp_path) as living, Claims(tmp_path) as claims:
        assert living.claim("b" * 32)
        assert claims.sweep() == {KEY}
        assert not claims.claim("b" * 32)
    assert not (tmp_path / "claims").exists()


def foreign(folder: Path, age_s: float) -> None:
    """Make the claim of another machine that last gave a sign of life some time ago."""
    path = folder / "claims" / KEY
    processes = [{"machine": "elsewhere", "pid": 1, "begun": 0.0}]
    path.write_text(json.dumps({"owner": "f" * 32, "host": "x", "processes": processes}))
    now = path.stat().st_mtime
    os.utime(path, (now - age_s, now - age_s))


@pytest.mark.parametrize(("age_s", "taken"), [(170.0, False), (190.0, True)])
def test_another_machine_loses_its_claims_without_heartbeats(
    tmp_path: Path, age_s: float, taken: bool
) -> None:
    with Claims(tmp_path) as claims:
        foreign(tmp_path, age_s)
        assert claims.claim(KEY) == taken


def test_a_heartbeat_of_the_owner_counts_for_its_claims(tmp_path: Path) -> None:
    with Claims(tmp_path) as claims:
        foreign(tmp_path, 1000.0)
        owner = tmp_path / "claims" / f"{'f' * 32}.owner"
        owner.write_text((tmp_path / "claims" / KEY).read_text())
        assert not claims.claim(KEY)
        os.utime(owner, (1.0, 1.0))
        assert claims.claim(KEY)


def test_a_claim_that_says_nothing_is_kept_until_it_is_old(tmp_path: Path) -> None:
    with Claims(tmp_path) as claims:
        path = tmp_path / "claims" / KEY
        path.write_text("")
        assert not claims.claim(KEY)
        os.utime(path, (1.0, 1.0))
        assert claims.claim(KEY)


def test_heartbeats_touch_claims(tmp_path: Path) -> None:
    with Claims(tmp_path, heartbeat_s=0.0) as claims:
        assert claims.claim(KEY)
        path = tmp_path / "claims" / KEY
        os.utime(path, (1.0, 1.0))
        claims.beat()
        assert path.stat().st_mtime > 1e9


def test_file_systems_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with Claims(tmp_path) as mine, Claims(tmp_path) as others:
        assert mine.claim(KEY)
        assert not others.claim(KEY)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="can't be written"):
        Claims(tmp_path / "file").__enter__()
