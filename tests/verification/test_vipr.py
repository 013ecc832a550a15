"""Results as VIPR files, for a checker that is not ours."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from random import Random

import pytest
import vipr_checker
from random_steps import chained_instance, random_instance
from true_results import Results

import slackopt as so
from slackopt.verification.vipr import vipr_certificate

ROOT = Path(__file__).resolve().parents[2]
HAS_CLAIM = (
    *("plan of a rule", "plan and certificate", "optimum of enumeration", "bound"),
    *("no room for an op", "contradiction"),
)


def falsified(text: str, ideal_ns: int) -> str:
    """The same file with a bound larger by a millionth, or a contradiction without a row."""

    def more(match: re.Match[str]) -> str:
        lower = int(match[2])
        return f"{match[1]}{lower + max(1, (ideal_ns + lower) // 10**6)}{match[3]}"

    changed = re.sub(r"^(RTP range )(\d+)( .*)$", more, text, flags=re.MULTILINE)
    changed = re.sub(r"^(bound G )(\d+)( .*)$", more, changed, flags=re.MULTILINE)
    if "RTP infeas" in text:  # any contradiction will do, so the last row is left out instead
        *before, _, end, last = text.rsplit(None, 3)
        changed = f"{before[0]} 0 {end} {last}\n"
    assert changed != text
    return changed


@pytest.mark.parametrize("name", HAS_CLAIM)
def test_the_file_proves_the_claim_and_no_more(name: str, results: Results) -> None:
    instance, result = results[name]
    made = vipr_certificate(instance, result)
    proved = vipr_checker.check(made.text)
    ideal = instance.ideal_ns
    if result.status == "infeasible":
        assert proved == ("infeasible", "")
        assert "contradict each other" in made.states[0]
    else:
        certified = int(proved[0]) + ideal
        assert certified <= (result.lower_bound_ns or ideal)
        whole = so.verify(instance, result).all_proved
        assert (certified == (result.lower_bound_ns or ideal)) == whole
        assert any("rests on a solver's word" in line for line in made.states) == (not whole)
        upper = "inf" if result.makespan_ns is None else str(result.makespan_ns - ideal)
        assert proved[1] == upper
    with pytest.raises(vipr_checker.RefusedError):
        vipr_checker.check(falsified(made.text, ideal))


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("infeasible by enumeration", "rests on a solver's word"),
        ("rule without a plan", "claims nothing"),
    ],
)
def test_nothing_certified_is_nothing_written(name: str, match: str, results: Results) -> None:
    with pytest.raises(so.InputError, match=match):
        vipr_certificate(*results[name])


def test_a_broken_combination_or_point_is_refused(results: Results) -> None:
    text = vipr_certificate(*results["plan and certificate"]).text
    for pattern, new in (
        (r"^(sum G \S+ OBJ \{ lin \d+ \d+) ", r"\g<1> 1"),  # a weight
        (r"^plan \d+ \d+ 1 ", "plan 0 "),  # the point
        (r"^(memory\S* L )", r"\g<1>1"),  # a right-hand side
        (r"^VER 1.0", "VER 2.0"),
        (r"^(RTP range \d+ )(\d)", r"\g<1>1"),  # the upper end: the point costs more
    ):
        broken = re.sub(pattern, new, text, count=1, flags=re.MULTILINE)
        assert broken != text, pattern
        with pytest.raises((vipr_checker.RefusedError, ValueError, StopIteration)):
            vipr_checker.check(broken)


def test_random_bounds_and_plans_are_proved() -> None:
    rng = Random(7)
    kinds = {"bounded": 0, "infeasible": 0, "plan": 0}
    for i in range(40):
        instance = random_instance(rng) if i % 2 else chained_instance(rng)
        bound = so.solve(instance, "bound")
        proved = vipr_checker.check(vipr_certificate(instance, bound).text)
        kinds[bound.status] += 1
        if bound.lower_bound_ns is None:
            assert proved[0] == "infeasible"
            continue
        assert int(proved[0]) == bound.lower_bound_ns - instance.ideal_ns
        for rule in ("keep-all", "swap-all", "recompute-all"):
            planned = so.solve(instance, rule)
            if planned.makespan_ns is not None:
                # Every plan's point satisfies the rows of a certificate: they hold for all plans.
                both = planned.model_copy(update={"bound_certificate": bound.bound_certificate})
                found = vipr_checker.check(vipr_certificate(instance, both).text)
                assert found[1] == str(planned.makespan_ns - instance.ideal_ns)
                kinds["plan"] += 1
    assert min(kinds["bounded"], kinds["plan"]) >= 12
    assert kinds["infeasible"]


def checker_source() -> Path | None:
    """``viprchk.cpp`` of the VIPR repository, in a folder ``data/vipr`` beside this checkout."""
    for parent in list(ROOT.parents)[:2]:
        for path in sorted(parent.glob("*/data/vipr/viprchk.cpp")):
            return path
    return None


@pytest.fixture(scope="session")
def viprchk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checker of the authors of the format: from PATH, or built from its source."""
    there = shutil.which("viprchk")
    if there is not None:
        return Path(there)
    source, compiler = checker_source(), shutil.which("g++")
    if source is None or compiler is None:
        pytest.skip("neither viprchk nor its source and a C++ compiler are here")
    program = tmp_path_factory.mktemp("vipr") / "viprchk"
    # Its assertions dereference a null pointer on every proof of infeasibility: without them.
    command = [compiler, "-O1", "-DNDEBUG", "-o", program, source, "-lgmpxx", "-lgmp"]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if built.returncode and "gmp" in built.stderr:
        pytest.skip("the GMP library is not here")
    assert built.returncode == 0, built.stderr
    return program


@pytest.mark.slow
def test_the_checker_of_others_agrees(viprchk: Path, results: Results, tmp_path: Path) -> None:
    def accepts(text: str) -> bool:
        path = tmp_path / "claim.vipr"
        path.write_text(text)
        ran = subprocess.run([viprchk, path], capture_output=True, text=True, check=False)
        assert ran.returncode in (0, 255), ran.stderr
        return ran.returncode == 0 and "Successfully verified" in ran.stdout

    for name in HAS_CLAIM:
        instance, result = results[name]
        text = vipr_certificate(instance, result).text
        assert accepts(text), name
        assert not accepts(falsified(text, instance.ideal_ns)), name
