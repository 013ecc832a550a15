"""Files changed at random: reader and `verify` answer in sentences, and pass nothing false."""

from __future__ import annotations

import json
from typing import Any

import pytest
from forging import SCHEMA, forgeries
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from true_results import Results, true_results

import slackopt as so
from slackopt.files import read_result
from slackopt.verification import Verification
from slackopt.verification.plan_claims import FIGURES
from slackopt.violations import violation_lines

HUGE = 10**400
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**64), 2**64),
    st.sampled_from([HUGE, -HUGE, 10**4000, 2**63, 2**63 - 1, 0, -1, 1e308, 5e-324]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
    st.sampled_from(["9" * 5000, "1/" + "9" * 1999, "\u001b[2J", "x" * 100_000, "memory[1]"]),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


def places(value: Any, before: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a document, down to three levels."""
    found = [before] if before else []
    if len(before) < 3 and isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            found += places(value[key], (*before, key))
    return found


def changed(document: Any, place: tuple[Any, ...], value: Any) -> Any:
    """A copy of a document with one value replaced."""
    if not place:
        return value
    if isinstance(document, dict):
        return document | {place[0]: changed(document[place[0]], place[1:], value)}
    copy = list(document)
    copy[place[0]] = changed(copy[place[0]], place[1:], value)
    return copy


def check_answer(instance: so.Instance, document: Any, true: so.Result) -> None:
    """Read and verify; nothing but our own errors comes out, and no false figure passes."""
    checked: Verification | None = None
    try:
        result = so.Result.model_validate_json(json.dumps(document))
        checked = so.verify(instance, result)
        lines = list(checked)
    except ValidationError as error:
        lines = violation_lines(error)
    except so.CheckError as error:
        lines = list(error.failures)
    except so.InputError as error:
        lines = [error.message, *error.violations]
    assert all(line.isprintable() and len(line) < 1000 for line in lines)
    if checked is None:
        return
    if result.plan is not None:
        timeline = so.simulate(instance, result.plan)
        assert timeline.feasible
        for name in FIGURES:
            value = getattr(timeline, name)
            assert getattr(result, name) == (value() if callable(value) else value)
    assert result.instance == instance.name
    bound = result.lower_bound_ns
    known = true.lower_bound_ns or instance.ideal_ns
    if bound is not None and checked.all_proved and result.status != "infeasible":
        assert bound <= known or result.bound_certificate != true.bound_certificate
    if result.status == "infeasible" and checked.all_proved:
        assert true.status == "infeasible"


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_change_is_answered(data: st.DataObject) -> None:
    instance, true = true_results()[data.draw(st.sampled_from(sorted(true_results())))]
    document = true.model_dump(mode="json")
    for _ in range(data.draw(st.integers(1, 3))):
        if data.draw(st.booleans()):
            field = data.draw(st.sampled_from(sorted(SCHEMA["properties"])))
            made = list(forgeries(field, document[field]))
            if made:
                document[field] = data.draw(st.sampled_from(made))
        else:
            place = data.draw(st.sampled_from(places(document)))
            document = changed(document, place, data.draw(VALUES))
    check_answer(instance, document, true)


WRONG = [HUGE, 10**5000, float("nan"), "x" * 10**5, {}, -1, b"x"]


@pytest.mark.parametrize("value", WRONG, ids=map(str, range(len(WRONG))))
@pytest.mark.parametrize(
    "field", ["lower_bound_ns", "makespan_ns", "plan", "trajectory", "bound_certificate", "gap"]
)
def test_a_record_that_was_never_validated_is_refused(
    field: str, value: Any, results: Results
) -> None:
    instance, result = results["plan and certificate"]
    with pytest.raises((so.CheckError, so.InputError)) as caught:
        so.verify(instance, result.model_copy(update={field: value}))
    assert len(str(caught.value)) < 2000


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("lower_bound_ns",), HUGE),
        (("lower_bound_ns",), 2**63),
        (("makespan_ns",), 10**4000),
        (("peak_rss_bytes",), 2**63),
        (("num_constraints",), 2**64),
        (("seed",), -(2**63) - 1),
        (("trajectory", 0, 1), 2**63),
        (("bound_certificate", 0, "weight"), "9" * 5000),
        (("bound_certificate", 0, "weight"), "1/0"),
        (("bound_certificate", 0, "row"), "x" * 100_000),
        (("instance_sha256",), "\u001b[2J"),
        (("plan", "instance_sha256"), "0" * 63 + "\n"),
        (("plan", "prefetch"), {"f0.out": HUGE}),
        (("x" * 100_000,), 1),
    ],
    ids=lambda value: str(value)[:40],
)
def test_the_reader_refuses_in_one_sentence(
    place: tuple[Any, ...], value: Any, results: Results, tmp_path: Any
) -> None:
    document = results["plan and certificate"][1].model_dump(mode="json")
    if len(place) > 1 or place[0] in document:
        document = changed(document, place, value)
    else:
        document[place[0]] = value
    path = tmp_path / "result.json"
    path.write_text(json.dumps(document))
    with pytest.raises(so.InputError) as caught:
        read_result(path)
    assert len(caught.value.violations) == 1
    assert len(caught.value.violations[0]) < 300
    assert caught.value.violations[0].isprintable()


def test_names_of_rows_are_escaped_and_cut(results: Results) -> None:
    instance, result = results["bound"]
    rows = result.model_dump(mode="json")["bound_certificate"]
    rows.append({"row": "\u001b[2J" + "y" * 150, "weight": "1"})
    document = result.model_dump(mode="json") | {"bound_certificate": rows}
    with pytest.raises(so.CheckError, match="there is no row") as caught:
        so.verify(instance, so.Result.model_validate_json(json.dumps(document)))
    assert caught.value.failures[0].isprintable()
    assert len(caught.value.failures[0]) < 300
