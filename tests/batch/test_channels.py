"""What one process of a batch sends to another may be anything: nothing breaks, one run is lost."""

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slackopt.batch import Task
from slackopt.batch.claims import Claims, _machine
from slackopt.batch.events import Event, EventLog
from slackopt.batch.launcher import Launcher
from slackopt.batch.local import LocalExecutor, Pending, _Loop, _Running
from slackopt.batch.order import Order
from slackopt.batch.outcome import Ending, make_run, unwatched_run, utc_now
from slackopt.batch.store import checkpoint_path, read_run, run_path
from slackopt.batch.warden import _Warden
from slackopt.batch.worker import FAILED, HEADER, KINDS, RESULT
from slackopt.batch.zygote import MESSAGE_BYTES, _Zygote, read_message
from slackopt.instance import Instance
from slackopt.solve import solve

QUICK = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["id", "event", "do", "order", "why"]), inner, max_size=4)
    ),
    max_leaves=6,
)
EVENTS = st.sampled_from(["recorded", "unwritten", "lost", "failed", "refused", "ended", "x"])
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "id": st.sampled_from([1, 1, 2, "1", None, []]),
        "event": EVENTS | JSON,
        "outcome": st.sampled_from(["done", "interrupted", "error", 3, None]),
        "status": st.sampled_from([0, 9, 256, "9", None]),
        "why": JSON,
        "do": st.sampled_from(["run", "stop", "x", None]),
        "order": JSON,
    },
)
DATA = st.one_of(
    st.binary(min_size=1, max_size=60),
    JSON.map(json.dumps).map(str.encode),
    MESSAGES.map(json.dumps).map(str.encode),
    st.builds(lambda m, k: json.dumps(m).encode()[:k] or b"{", MESSAGES, st.integers(1, 60)),
    st.sampled_from([b"[" * 100_000, b'{"a":' * 20_000, b"1" * 100_000, b"\xff" * MESSAGE_BYTES]),
)


def order_of(folder: Path, **changes: Any) -> Order:
    task = Task(instance_path="x", instance="two layers", instance_sha256="0" * 64, method="x")
    return Order(key="a" * 32, task=task, folder=str(folder), instance_file="none").model_copy(
        update=changes
    )


def loop_with_a_run(folder: Path, events: list[Event]) -> _Loop:
    loop = _Loop(LocalExecutor(), str(folder), [], Claims(folder), events.append, lambda: 0)
    loop.running[1] = _Running(Pending(order_of(folder)), None)  # type: ignore[arg-type]
    return loop


@QUICK
@given(messages=st.lists(DATA, min_size=1, max_size=4))
def test_the_batch_reads_anything(messages: list[bytes], tmp_path: Path) -> None:
    launcher = object.__new__(Launcher)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    launcher.link = ours
    ours.setblocking(False)
    events: list[Event] = []
    loop = loop_with_a_run(tmp_path, events)
    loop.launchers[1] = launcher
    log = EventLog(tmp_path)
    with ours, theirs:
        for data in messages:
            theirs.send(data[:MESSAGE_BYTES])
            loop.listen(1.0)
    for event in events:
        log(event)
    log.close()
    # Either it goes on, or it is queued again, or it is recorded.
    known = len(loop.running) + len(loop.queue) + run_path(tmp_path, "a" * 32).exists()
    assert known == 1 or any(event.kind in ("recorded", "lost") for event in events)
    run_path(tmp_path, "a" * 32).unlink(missing_ok=True)


def test_a_record_counts_without_a_message(tmp_path: Path) -> None:
    from slackopt.batch import write_run

    events: list[Event] = []
    loop = loop_with_a_run(tmp_path, events)
    run = unwatched_run(order_of(tmp_path), "timeout", "made by the test")
    write_run(tmp_path, run)
    loop.take({"id": 1, "event": "ended", "status": 0})
    assert not loop.running
    assert not loop.queue
    assert [(event.kind, event.facts["outcome"]) for event in events] == [("recorded", "timeout")]
    assert read_run(run_path(tmp_path, run.key)) == run


def test_why_a_run_goes_again(tmp_path: Path) -> None:
    events: list[Event] = []
    loop = loop_with_a_run(tmp_path, events)
    loop.take({"id": 1, "event": "recorded", "outcome": "interrupted", "detail": "a signal"})
    loop.take({"id": 1, "event": "ended", "status": 0})
    (event,) = events
    assert (event.kind, event.facts["why"]) == ("requeued", "a signal")
    for status, said in ((9, "was ended by SIGKILL"), (256, "ended with exit code 1")):
        loop.running[1] = _Running(Pending(order_of(tmp_path)), None)  # type: ignore[arg-type]
        loop.take({"id": 1, "event": "ended", "status": status})
        assert said in events[-1].facts["why"]


@QUICK
@given(data=DATA)
def test_the_process_that_runs_are_forked_from_reads_anything(data: bytes) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    zygote = _Zygote(theirs)
    zygote.start = lambda number, order: None  # type: ignore[method-assign]
    with ours, theirs:
        zygote.take(read_message(data) or {})
        ours.setblocking(False)
        try:
            told = json.loads(ours.recv(MESSAGE_BYTES))
        except BlockingIOError:
            return
    assert told["event"] == "refused"


@QUICK
@given(
    stream=st.lists(
        st.one_of(
            st.binary(max_size=30),
            st.builds(
                lambda kind, body, cut: (HEADER.pack(kind, len(body)) + body)[:cut],
                st.sampled_from(sorted(KINDS)),
                st.binary(max_size=30) | JSON.map(json.dumps).map(str.encode),
                st.integers(0, 60),
            ),
            st.builds(HEADER.pack, st.binary(min_size=1, max_size=1), st.integers(0, 2**64 - 1)),
        ),
        max_size=5,
    ),
    status=st.sampled_from([0, 256, 9]),
)
def test_the_watching_process_reads_anything(
    stream: list[bytes], status: int, tmp_path: Path
) -> None:
    warden = _Warden(order_of(tmp_path), tmp_path, ())
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.write(writing, b"".join(stream))
    os.close(writing)
    warden._drain([reading], reading, -1)
    os.close(reading)
    warden.ending.status = status
    run = make_run(warden.order, warden.ending, utc_now(), 1.0)
    assert run.outcome in ("crash", "error", "out_of_memory")  # never done, without a result
    assert run.detail
    assert type(run).model_validate_json(run.model_dump_json()) == run


@pytest.fixture(scope="module")
def sent(tiny: Instance) -> bytes:
    return solve(tiny, "slackswap").model_dump_json().encode()


@QUICK
@given(data=st.data())
def test_results_that_were_cut_or_damaged(tiny: Instance, sent: bytes, data: st.DataObject) -> None:
    task = {"instance": tiny.name, "instance_sha256": tiny.sha256, "method": "slackswap"}
    order = order_of(Path("x"))
    order = order.model_copy(update={"task": order.task.model_copy(update=task)})
    at = data.draw(st.integers(0, len(sent) - 1))
    new = data.draw(st.binary(max_size=3))
    damaged = sent[:at] + new + sent[at + data.draw(st.integers(0, len(sent))) :]
    for messages in ({RESULT: damaged}, {b"C": damaged}, {FAILED: damaged}):
        run = make_run(order, Ending(messages=messages), utc_now(), 1.0)
        assert run.outcome in ("done", "error", "crash", "interrupted", "out_of_memory")
        assert type(run).model_validate_json(run.model_dump_json()) == run
    whole = make_run(order, Ending(messages={RESULT: sent}), utc_now(), 1.0)
    assert whole.outcome == "done"


def test_a_result_of_another_task_is_none(tiny: Instance, sent: bytes) -> None:
    run = make_run(order_of(Path("x")), Ending(messages={RESULT: sent}), utc_now(), 1.0)
    assert (run.outcome, run.detail) == ("error", "what its process sent is no result of this task")
    assert run.result is None


CLAIM = json.dumps({"owner": "a/\0", "processes": [{"machine": _machine(), "pid": -1, "begun": 0}]})
ODD_CLAIM = json.dumps({"owner": 1, "processes": [{"machine": _machine(), "pid": 2**80}]})


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"\xff\x00", b"{", b"[]", b"[" * 100_000, b"1" * 10_000),
        *(CLAIM.encode(), ODD_CLAIM.encode()),
    ],
)
def test_files_that_processes_leave_for_each_other(tmp_path: Path, data: bytes) -> None:
    order = order_of(tmp_path)
    path = checkpoint_path(tmp_path, order.key)
    path.parent.mkdir()
    path.write_bytes(data)
    assert unwatched_run(order, "crash", "why").result is None
    with Claims(tmp_path) as claims:
        (claims.folder / ("b" * 32)).write_bytes(data)
        (claims.folder / "c.owner").write_bytes(data)
        # Nobody knows whose it is, and it is new; one of a process that can't be is free.
        assert claims.claim("b" * 32) == (data == ODD_CLAIM.encode())
        claims.sweep()


def test_the_log_takes_any_text(tmp_path: Path) -> None:
    log = EventLog(tmp_path)
    log(Event("warning", facts={"why": "half of a pair: \ud800"}))
    log.close()
    (line,) = log.path.read_text().splitlines()
    assert json.loads(line)["why"].startswith("half of a pair")
