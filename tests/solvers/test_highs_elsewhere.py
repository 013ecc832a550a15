"""HiGHS used by somebody else in this process, with other settings, does not break ours."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import highspy
highs = highspy.Highs()
highs.setOptionValue("output_flag", False)
highs.setOptionValue("threads", 2)
column = highs.addVariable(0, 1)
highs.maximize(column)
import slackopt as so
graph = so.profiles.transformer("bert-large", batch=4, num_layers=4)
instance = so.Instance.from_graph(graph, device="a100-pcie4", budget=0.8)
result = so.solve(instance, "round")
assert result.makespan_ns is not None, result.notes
bound = so.solve(instance, "bound")
assert bound.lower_bound_ns is not None, bound.notes
assert instance.ideal_ns <= bound.lower_bound_ns <= result.makespan_ns
"""


def test_highs_with_other_threads_before_ours() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
