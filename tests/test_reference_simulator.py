"""Examples worked out by hand from docs/problem.md; they test the reference simulator itself.

One byte takes one nanosecond in both directions and there is no latency, unless a test says so.
In the comments `op1 2-5` is a job that runs from 2 to 5; `in`, `out` are copies of a tensor.
"""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from random_steps import instances_with_plans, random_instance, random_plan
from reference_simulator import ReferenceOutOfMemory, ReferenceRun, reference_simulate

from slackopt.device import Device
from slackopt.graph import Graph, Op, Tensor
from slackopt.instance import Instance
from slackopt.plan import Plan


def simulate(
    ops: list[tuple[Any, ...]],
    sizes: dict[str, int],
    *,
    budget: int = 1000,
    swap: dict[str, int] | None = None,
    recompute: str = "",
    **device: int | None,
) -> ReferenceRun:
    """Run (phase letter, duration, inputs, outputs[, workspace]) ops; `swap` holds the triggers."""
    link: dict[str, Any] = {"d2h_bytes_per_s": 10**9, "h2d_bytes_per_s": 10**9} | device
    graph = Graph(
        name="example",
        ops=tuple(
            Op(
                name=f"op{k}",
                phase="forward" if phase == "F" else "backward",
                duration_ns=duration,
                inputs=tuple(inputs.split()),
                outputs=tuple(outputs.split()),
                workspace_bytes=workspace[0] if workspace else 0,
            )
            for k, (phase, duration, inputs, outputs, *workspace) in enumerate(ops)
        ),
        tensors=tuple(Tensor(name=name, size_bytes=size) for name, size in sizes.items()),
    )
    instance = Instance.from_graph(graph, device=Device(name="link", **link), budget=budget)
    triggers = swap or {}
    decisions: dict[str, Any] = dict.fromkeys(triggers, "swap")
    decisions |= dict.fromkeys(recompute.split(), "recompute")
    plan = Plan.for_instance(instance, decisions, triggers)
    return reference_simulate(instance, plan)


def accounts(run: ReferenceRun) -> tuple[int | None, int, int, int]:
    """Return makespan, time of reruns, waiting for swap-in, waiting for memory."""
    return run.makespan_ns, run.recompute_ns, run.stall_swap_in_ns, run.stall_memory_ns


def test_everything_kept():
    # a, b are read until op2; g is never read, so op2 is its last use.
    run = simulate(
        [("F", 2, "", "a"), ("F", 3, "a", "b"), ("B", 4, "b a", "g")],
        {"a": 5, "b": 3, "g": 2},
        budget=10,
    )
    assert accounts(run) == (9, 0, 0, 0)
    assert run.memory_curve == ((0, 5), (2, 8), (5, 10), (9, 0))
    assert run.peak_bytes == 10
    assert run.sequence == ((0, False), (1, False), (2, False))
    assert run.out_of_memory is None


def test_workspace_is_held_while_the_op_runs():
    ops = [("F", 2, "", "a", 3), ("B", 2, "a", "", 1)]
    assert simulate(ops, {"a": 2}, budget=5).memory_curve == ((0, 5), (2, 3), (4, 0))
    run = simulate(ops, {"a": 2}, budget=4)
    assert run.makespan_ns is None
    assert run.out_of_memory == ReferenceOutOfMemory(0, 0, asked_bytes=5, free_bytes=4)
    assert run.memory_curve == ((0, 0),)


def test_reruns_are_transitive_and_keep_what_is_still_read():
    # Slot 4 misses b (op1), op1 misses a (op0); op0 also rebuilds m, which slot 5 reads.
    run = simulate(
        [
            ("F", 1, "x", "a m"),
            ("F", 2, "a", "b"),
            ("F", 3, "b", "c"),
            ("B", 4, "c", "g"),
            ("B", 5, "b g", "h"),
            ("B", 6, "m h", ""),
        ],
        {"x": 1, "a": 2, "m": 3, "b": 4, "c": 5, "g": 6, "h": 7},
        recompute="a b m",
    )
    assert run.sequence == (
        (0, False),
        (1, False),
        (2, False),
        (3, False),
        (0, True),
        (1, True),
        (4, False),
        (5, False),
    )
    # op0 0-1, op1 1-3, op2 3-6, op3 6-10, op0 again 10-11, op1 again 11-13, op4 13-18, op5 18-24.
    # 0: x a m; 1: x a b (m dropped); 3: x b c (a dropped); 6: x c g (b dropped);
    # 10: x g a m, 12 bytes as before; 11: g a m b; 13: g m b h; 18: m h; 24: nothing.
    assert accounts(run) == (24, 3, 0, 0)
    assert run.memory_curve == (
        (0, 6),
        (1, 7),
        (3, 10),
        (6, 12),
        (11, 15),
        (13, 20),
        (18, 10),
        (24, 0),
    )


@pytest.mark.parametrize("budget", [17, 16])
def test_a_rerun_allocates_second_copies_and_frees_them_at_its_end(budget: int):
    # op0 0-10: a k s = 9; out s 10-14, but op1 reads s until 20.
    # 20: a dropped, s released, g made, in s 20-24: k c g s = 9. 30: c freed; op0 again asks 9
    # beside k s g = 8. 40: second k and s freed: k s g a = 10. op3 40-50.
    run = simulate(
        [
            ("F", 10, "", "a k s"),
            ("F", 10, "a k s", "c"),
            ("B", 10, "c", "g"),
            ("B", 10, "a k s g", ""),
        ],
        {"a": 2, "k": 3, "s": 4, "c": 1, "g": 1},
        swap={"s": 2},
        recompute="a",
        budget=budget,
    )
    start = ((0, 9), (10, 10), (20, 9))
    if budget == 17:
        assert accounts(run) == (50, 10, 0, 0)
        assert run.memory_curve == (*start, (30, 17), (40, 10), (50, 0))
    else:
        assert run.out_of_memory == ReferenceOutOfMemory(0, 30, asked_bytes=9, free_bytes=8)
        assert run.memory_curve == (*start, (30, 8))
        assert run.makespan_ns is None


def test_a_rebuilt_tensor_that_nothing_reads_any_more_is_freed_at_once():
    # The rerun of op0 2-3 rebuilds a and z; z was dropped at 1 and nothing reads it.
    run = simulate(
        [("F", 1, "", "a z"), ("F", 1, "", ""), ("B", 1, "a", "")],
        {"a": 2, "z": 3},
        recompute="a z",
    )
    assert run.sequence == ((0, False), (1, False), (0, True), (2, False))
    assert accounts(run) == (4, 1, 0, 0)
    assert run.memory_curve == ((0, 5), (1, 0), (2, 5), (3, 2), (4, 0))


def test_decisions_without_effect():
    # Nothing reads a after op1 or z after op0: a is not copied (no room in the host anyway).
    run = simulate(
        [("F", 1, "", "a z"), ("F", 5, "a", ""), ("B", 1, "", "")],
        {"a": 2, "z": 3},
        swap={"a": 2},
        recompute="z",
        host_memory_bytes=1,
    )
    assert accounts(run) == (7, 0, 0, 0)
    assert run.memory_curve == ((0, 5), (1, 2), (6, 0))


def test_waiting_for_swap_in_and_release_at_the_end_of_the_copy():
    # Latency 1. op0 0-2, out a 2-9, op1 2-5, op2 5-7; op3 wants a at 7, while its copy out still
    # runs: it is never cancelled. in a 9-16, op3 16-21.
    run = simulate(
        [("F", 2, "", "a"), ("F", 3, "", "b"), ("B", 2, "b", "g"), ("B", 5, "a g", "")],
        {"a": 6, "b": 2, "g": 1},
        swap={"a": 1},
        latency_ns=1,
    )
    assert accounts(run) == (21, 0, 9, 0)
    # 9: a is freed and allocated again at the same instant.
    assert run.memory_curve == ((0, 6), (2, 8), (5, 9), (7, 7), (21, 0))


def test_release_at_the_end_of_the_last_forward_use():
    # out a 1-3, op1 reads a until 6. op2 needs 3 of 4 bytes: it starts at 6.
    run = simulate(
        [
            ("F", 1, "", "a"),
            ("F", 5, "a", ""),
            ("F", 4, "", "b"),
            ("B", 1, "b", ""),
            ("B", 1, "a", ""),
        ],
        {"a": 2, "b": 3},
        budget=4,
        swap={"a": 4},
    )
    # op2 6-10, op3 10-11, in a 11-13, op4 13-14.
    assert accounts(run) == (14, 0, 2, 0)
    assert run.memory_curve == ((0, 2), (6, 3), (11, 2), (14, 0))


@pytest.mark.parametrize("trigger", [1, 3])
def test_waiting_for_memory(trigger: int):
    # op0 0-2, out a 2-8; op1 needs 4 beside a, of 9: 8-11. op2 11-12. With trigger 1, a would
    # come back at 8, but does not fit beside b before 12. in a 12-18, op3 18-19.
    run = simulate(
        [("F", 2, "", "a"), ("F", 3, "", "b"), ("B", 1, "b", ""), ("B", 1, "a", "")],
        {"a": 6, "b": 4},
        budget=9,
        swap={"a": trigger},
    )
    assert accounts(run) == (19, 0, 6, 6)
    assert run.memory_curve == ((0, 6), (8, 4), (12, 6), (19, 0))


def test_both_waits_in_front_of_one_job():
    # out a 1-3, out b 3-13; op1 1-2; op2 wants a, which was released at 3: in a 3-5 (op2 waits
    # for an input, so swap-ins start though its 6 bytes do not fit). From 5 to 13 it waits for b
    # to leave. op2 13-14, in b 14-24, op3 24-25.
    run = simulate(
        [("F", 1, "", "a b"), ("F", 1, "", ""), ("B", 1, "a", "g"), ("B", 1, "b", "")],
        {"a": 2, "b": 10, "g": 6},
        budget=13,
        swap={"a": 1, "b": 3},
    )
    assert accounts(run) == (25, 0, 3 + 10, 8)
    # 3: a leaves and comes back; 13: b leaves, g comes; 14: a and g leave, b comes back.
    assert run.memory_curve == ((0, 12), (13, 8), (14, 10), (25, 0))


def test_priority():
    # out s 1-3, out b 3-13. op1 asks 8 of the 3 free from 3 on. s would fit and its trigger is
    # reached, but op1 waits for memory. At 13 op1 starts, then in s 13-15. op1 13-18, op2 18-20,
    # in b 20-30, op3 30-31.
    run = simulate(
        [("F", 1, "", "s b"), ("F", 5, "", "c"), ("B", 2, "c s", ""), ("B", 1, "b", "")],
        {"s": 2, "b": 10, "c": 8},
        budget=13,
        swap={"s": 1, "b": 3},
    )
    assert accounts(run) == (31, 0, 10, 12)
    # 13: b leaves (10), c and s come (10). 20: c and s leave, b comes.
    assert run.memory_curve == ((0, 12), (3, 10), (31, 0))


def test_swap_ins_keep_the_order_of_next_need():
    # out a 1-5, out b 5-9. b's trigger is reached first, but a is in front: in a 41-45 (trigger
    # 3), in b 45-49. op3 45-46, op4 49-50.
    run = simulate(
        [
            ("F", 1, "", "a b"),
            ("F", 20, "", ""),
            ("B", 20, "", ""),
            ("B", 1, "a", ""),
            ("B", 1, "b", ""),
        ],
        {"a": 4, "b": 4},
        swap={"a": 3, "b": 1},
    )
    assert accounts(run) == (50, 0, 4 + 3, 0)
    assert run.memory_curve == ((0, 8), (5, 4), (9, 0), (41, 4), (45, 8), (46, 4), (50, 0))


def test_ties_in_next_need_follow_the_inputs():
    # op3 lists b before a. out a 1-5, out b 5-8; in b 21-24 (trigger 2), in a 24-28.
    run = simulate(
        [("F", 1, "", "a b"), ("F", 20, "", ""), ("B", 20, "", ""), ("B", 1, "b a", "")],
        {"a": 4, "b": 3},
        swap={"a": 1, "b": 2},
    )
    assert accounts(run) == (42, 0, 0, 0)
    assert run.memory_curve == ((0, 7), (5, 3), (8, 0), (21, 3), (24, 7), (42, 0))


def test_a_late_trigger_counts_as_reached_when_the_slot_of_the_need_begins():
    # s is needed by the rerun of op1 in slot 4; its trigger is 5. op3 ends at 31: in s 31-33,
    # op1 again 33-43, op4 43-44, op5 44-45.
    run = simulate(
        [
            ("F", 1, "", "s"),
            ("F", 10, "s", "a"),
            ("F", 10, "a", "c"),
            ("B", 10, "c", ""),
            ("B", 1, "a", ""),
            ("B", 1, "s", ""),
        ],
        {"s": 2, "a": 3, "c": 1},
        swap={"s": 5},
        recompute="a",
    )
    assert run.sequence == tuple(
        (k, rerun) for k, rerun in [(0, 0), (1, 0), (2, 0), (3, 0), (1, 1), (4, 0), (5, 0)]
    )
    assert accounts(run) == (45, 10, 2, 0)
    # 11: s released; 21: a dropped; 31: c freed, s comes; 33: a; 44: a freed; 45: s freed.
    assert run.memory_curve == (
        (0, 2),
        (1, 5),
        (11, 4),
        (21, 1),
        (31, 2),
        (33, 5),
        (44, 2),
        (45, 0),
    )


def test_a_trigger_is_reached_before_the_reruns_of_its_slot():
    # Slot 4: op1 again 40-50, then op4 needs s, whose trigger is 4: in s 40-42, not 50-52.
    run = simulate(
        [
            ("F", 10, "", "s"),
            ("F", 10, "", "a"),
            ("F", 10, "a", "c"),
            ("B", 10, "c", ""),
            ("B", 1, "s a", ""),
        ],
        {"s": 2, "a": 3, "c": 1},
        swap={"s": 4},
        recompute="a",
    )
    assert accounts(run) == (51, 10, 0, 0)
    # 10: s a; 12: a; 20: a c; 30: c; 40: a s (the rerun's a, s coming in).
    assert run.memory_curve == ((0, 2), (10, 5), (12, 3), (20, 4), (30, 1), (40, 5), (51, 0))


HOST_OPS = [
    ("F", 1, "", "a"),
    ("F", 1, "", "b"),
    ("F", 1, "", "d"),
    ("B", 30, "", ""),
    ("B", 1, "a", ""),
    ("B", 1, "b", ""),
    ("B", 1, "d", ""),
]


def test_host_memory_blocks_the_first_swap_out_and_those_behind_it():
    # out a 1-5 leaves 4 of 8 host bytes: b (6) waits, and d (1) behind it. op3 3-33, in a 33-37.
    # 37: host is free; op4 37-38; out b 37-43, out d 43-44 (2 bytes left), in b 43-49,
    # op5 49-50, in d 49-50, op6 50-51.
    run = simulate(
        HOST_OPS,
        {"a": 4, "b": 6, "d": 1},
        swap={"a": 4, "b": 4, "d": 4},
        host_memory_bytes=8,
    )
    assert accounts(run) == (51, 0, 4 + 11, 0)
    # 5: a released; 33: a comes; 38: a freed; 43: b leaves and comes; 44: d released;
    # 49: d comes; 50: b freed; 51: d freed.
    assert run.memory_curve == (
        (0, 4),
        (1, 10),
        (2, 11),
        (5, 7),
        (33, 11),
        (38, 7),
        (44, 6),
        (49, 7),
        (50, 1),
        (51, 0),
    )


def test_out_of_memory_when_the_host_is_too_small():
    # b (6) never fits in 5. At 38 op5 waits for b and no copy is in flight. b and d are there.
    run = simulate(
        HOST_OPS,
        {"a": 4, "b": 6, "d": 1},
        swap={"a": 4, "b": 4, "d": 4},
        host_memory_bytes=5,
        budget=20,
    )
    assert run.makespan_ns is None
    assert run.out_of_memory == ReferenceOutOfMemory(5, 38, asked_bytes=6, free_bytes=13)


def test_out_of_memory_of_a_job_although_a_swap_in_is_in_flight():
    # out s 1-3, in s 3-5, op1 1-4. At 4 op2 asks 9 of 8 and no swap-out is there to help.
    run = simulate(
        [("F", 1, "", "s"), ("F", 3, "", ""), ("B", 1, "", "g"), ("B", 1, "s g", "")],
        {"s": 2, "g": 9},
        budget=10,
        swap={"s": 1},
    )
    assert run.makespan_ns is None
    assert run.out_of_memory == ReferenceOutOfMemory(2, 4, asked_bytes=9, free_bytes=8)
    assert run.memory_curve == ((0, 2),)


def test_out_of_memory_of_a_missing_input():
    # out s 1-5, op1 5-10 (it waited for memory), op2 10-15; s (4) never fits beside k (3) in 6.
    run = simulate(
        [("F", 1, "", "s"), ("F", 5, "", "k"), ("B", 5, "", ""), ("B", 1, "s k", "")],
        {"s": 4, "k": 3},
        budget=6,
        swap={"s": 1},
    )
    assert run.out_of_memory == ReferenceOutOfMemory(3, 15, asked_bytes=4, free_bytes=3)


def test_out_of_memory_of_the_batch():
    run = simulate([("F", 1, "x", ""), ("B", 1, "x", "")], {"x": 5}, budget=4)
    assert run.makespan_ns is None
    assert run.out_of_memory == ReferenceOutOfMemory(0, 0, asked_bytes=5, free_bytes=4)


def test_batch_tensors():
    # l = -1 for y. out x 0-2, out y 2-5 (order of the tensor list). op0 reads x until 4.
    # y is needed first: in y 5-8, in x 8-10. op0 0-4, op1 4-8, op2 8-9, op3 10-11.
    run = simulate(
        [("F", 4, "x", ""), ("F", 4, "", ""), ("B", 1, "y", ""), ("B", 1, "x", "")],
        {"x": 2, "y": 3},
        swap={"x": 1, "y": 0},
    )
    assert accounts(run) == (11, 0, 1, 0)
    # 4: x released; 5: y leaves and comes; 8: x comes; 9: y freed.
    assert run.memory_curve == ((0, 5), (4, 3), (8, 5), (9, 2), (11, 0))


def test_the_first_job_may_wait_for_memory():
    # out y 0-3, then op0 (4 bytes of 5) 3-4; in y 5-8 once a is gone (op1 4-5), op2 8-9.
    run = simulate(
        [("F", 1, "", "a"), ("F", 1, "a", ""), ("B", 1, "y", "")],
        {"a": 4, "y": 3},
        budget=5,
        swap={"y": 0},
    )
    assert accounts(run) == (9, 0, 3, 3)
    assert run.memory_curve == ((0, 3), (3, 4), (5, 3), (9, 0))


def test_copy_times_round_up():
    # 3 bytes/ns out: ceil(7 / 3) = 3; 0.3 bytes/ns in: ceil(7 / 0.3) = 24; latency 2.
    # out a 1-6, in a 6-32; op1 1-2, op2 32-33.
    run = simulate(
        [("F", 1, "", "a"), ("F", 1, "", ""), ("B", 1, "a", "")],
        {"a": 7},
        swap={"a": 2},
        latency_ns=2,
        d2h_bytes_per_s=3 * 10**9,
        h2d_bytes_per_s=3 * 10**8,
    )
    assert accounts(run) == (33, 0, 30, 0)
    assert run.memory_curve == ((0, 7), (33, 0))


SHARED_OPS = [
    ("F", 1, "", "s"),
    ("F", 9, "", "t"),
    ("F", 20, "", ""),
    ("B", 1, "s", ""),
    ("B", 1, "t", ""),
]


def test_shared_link():
    # Latency 1. out s 1-6 at 1 byte/ns. At 10 out t and in s start: s moves 4 bytes from 11 to
    # 15 at the shared 1 byte/ns (2 alone); t moves 2 of 10 by 15 (0.5 bytes/ns), the rest alone
    # by 23. op2 10-30; in t 30-36 alone; op3 30-31, op4 36-37.
    run = simulate(
        SHARED_OPS,
        {"s": 4, "t": 10},
        swap={"s": 2, "t": 3},
        latency_ns=1,
        h2d_bytes_per_s=2 * 10**9,
        d2h_shared_bytes_per_s=5 * 10**8,
        h2d_shared_bytes_per_s=10**9,
    )
    assert accounts(run) == (37, 0, 5, 0)
    assert run.memory_curve == (
        (0, 4),
        (1, 14),
        (6, 10),
        (10, 14),
        (23, 4),
        (30, 14),
        (31, 10),
        (37, 0),
    )


@pytest.mark.parametrize(("shared", "end"), [(333_333_333, 24), (333_333_334, 23)])
def test_shared_link_counts_bytes_exactly(shared: int, end: int):
    # in s (3 bytes) 10-14. By then t has moved 3 * shared * 1e-9 bytes: just below or above 1
    # of 10; the 9 bytes left take 10 ns or 9.
    run = simulate(
        SHARED_OPS,
        {"s": 3, "t": 10},
        swap={"s": 2, "t": 3},
        latency_ns=1,
        h2d_bytes_per_s=2 * 10**9,
        d2h_shared_bytes_per_s=shared,
        h2d_shared_bytes_per_s=10**9,
    )
    assert run.memory_curve[:5] == ((0, 3), (1, 13), (5, 10), (10, 13), (end, 3))


def test_the_link_is_shared_during_the_latency_of_the_other_copy():
    # Latency 4. out s 1-7. out t from 10, bytes from 14: 1 by 15; in s 15-21 (latency to 19,
    # 2 bytes at 1 byte/ns), so t moves 3 by 21, and the last 6 by 27.
    # op2 10-15, op3 15-45, op4 45-46, in t 46-55 (2 bytes/ns), op5 55-56.
    run = simulate(
        [
            ("F", 1, "", "s"),
            ("F", 9, "", "t"),
            ("F", 5, "", ""),
            ("F", 30, "", ""),
            ("B", 1, "s", ""),
            ("B", 1, "t", ""),
        ],
        {"s": 2, "t": 10},
        swap={"s": 3, "t": 5},
        latency_ns=4,
        h2d_bytes_per_s=2 * 10**9,
        d2h_shared_bytes_per_s=5 * 10**8,
        h2d_shared_bytes_per_s=10**9,
    )
    assert accounts(run) == (56, 0, 9, 0)
    assert run.memory_curve == ((0, 2), (1, 12), (7, 10), (15, 12), (27, 2), (46, 10), (56, 0))


def test_chunks():
    # Pieces of s are copied at 4, 7 and 8; op1 reads s until 5. op2 asks 4 of 7: 3 free at 5,
    # 6 at 7. op2 7-17, in s 17-24, op3 24-25.
    ops = [("F", 1, "", "s"), ("F", 4, "s", ""), ("F", 10, "", "w"), ("B", 1, "s", "")]
    run = simulate(ops, {"s": 7, "w": 4}, budget=7, swap={"s": 3}, chunk_bytes=3)
    assert accounts(run) == (25, 0, 7, 2)
    assert run.memory_curve == ((0, 7), (5, 4), (7, 5), (8, 4), (17, 7), (25, 0))
    # Whole: released at 8. op2 8-18, in s 18-25, op3 25-26.
    run = simulate(ops, {"s": 7, "w": 4}, budget=7, swap={"s": 3})
    assert accounts(run) == (26, 0, 7, 3)
    assert run.memory_curve == ((0, 7), (8, 4), (18, 7), (26, 0))


def test_several_chunks_in_one_nanosecond_and_a_swap_in_that_waits_for_the_last():
    # 2 bytes/ns: 2, 4, 6, 7 bytes are copied at 2, 3, 4, 5. in s 5-9. op1 1-4, op2 9-10.
    run = simulate(
        [("F", 1, "", "s"), ("F", 3, "", ""), ("B", 1, "s", "")],
        {"s": 7},
        swap={"s": 1},
        chunk_bytes=1,
        d2h_bytes_per_s=2 * 10**9,
        h2d_bytes_per_s=2 * 10**9,
    )
    assert accounts(run) == (10, 0, 5, 0)
    assert run.memory_curve == ((0, 7), (2, 5), (3, 3), (4, 1), (5, 7), (10, 0))


def check_run(instance: Instance, run: ReferenceRun) -> None:
    """Check what holds for every run."""
    assert all(type(number) is int for entry in run.memory_curve for number in entry)
    assert run.memory_curve[0][0] == 0
    assert all(a[0] < b[0] and a[1] != b[1] for a, b in pairwise(run.memory_curve))
    assert (run.makespan_ns is None) == (run.out_of_memory is not None)
    if run.makespan_ns is None:
        assert run.out_of_memory is not None
        assert run.out_of_memory.asked_bytes > 0
        return
    assert run.peak_bytes <= instance.budget_bytes
    assert run.memory_curve[-1][1] == 0
    assert run.memory_curve[-1][0] <= run.makespan_ns
    stalls = run.stall_swap_in_ns + run.stall_memory_ns
    assert run.makespan_ns == instance.ideal_ns + run.recompute_ns + stalls


def test_random_plans_both_run_and_fail():
    ran = 0
    for seed in range(200):
        rng = Random(seed)
        instance = random_instance(rng)
        run = reference_simulate(instance, random_plan(rng, instance))
        check_run(instance, run)
        ran += run.makespan_ns is not None
    assert 60 < ran < 160


@given(instances_with_plans())
@settings(deadline=None, max_examples=60)
def test_drawn_plans(drawn: tuple[Instance, Plan]):
    instance, plan = drawn
    check_run(instance, reference_simulate(instance, plan))
