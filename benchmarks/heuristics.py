"""Every rule on the six SlackSwap instances within 30 to 90 % of the unlimited peak, as Markdown.

    python benchmarks/heuristics.py                                     # all of it, some minutes
    python benchmarks/heuristics.py --budgets 0.5 --without local-search,round
    python benchmarks/heuristics.py -o heuristics.md

A cell is the throughput ratio and, in brackets, the optimality gap against the bound of the window
LP in percent: (makespan - bound) / bound. A dash is "this rule finds no plan within this budget".
Seconds are the longest run of a row. After the tables, the orderings that must hold are checked;
the exit code is 1 if one doesn't.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from slackopt import Instance, methods, read_instance, solve
from slackopt.formulations.window import WindowFormulation
from slackopt.solvers.window_lp import WindowLp

ROOT = Path(__file__).parents[1]
BUDGETS = "0.3,0.4,0.5,0.6,0.7,0.8,0.9"


@dataclass
class Question:
    """One instance and budget: its bound, and what each rule found."""

    instance: Instance
    budget: str
    bound_ns: int | None = None
    makespan_ns: dict[str, int | None] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def gap(self, rule: str) -> float | None:
        makespan = self.makespan_ns[rule]
        if makespan is None or self.bound_ns is None:
            return None
        return (makespan - self.bound_ns) / self.bound_ns

    def cell(self, rule: str) -> str:
        makespan, gap = self.makespan_ns[rule], self.gap(rule)
        if makespan is None:
            return "-"
        ratio = f"{self.instance.ideal_ns / makespan:.4f}"
        return ratio if gap is None else f"{ratio} ({100 * gap:.2f})"


def ask(question: Question, rules: list[str], time_limit: float) -> None:
    lp = WindowLp(WindowFormulation(question.instance))
    bound = lp.solve(deadline=time.monotonic() + time_limit)
    question.bound_ns = None if bound.infeasible else bound.lower_bound_ns
    for rule in rules:
        begun = time.monotonic()
        result = solve(question.instance, rule, time_limit=time_limit)
        question.seconds[rule] = time.monotonic() - begun
        question.makespan_ns[rule] = result.makespan_ns


def table(questions: list[Question], rules: list[str]) -> list[str]:
    names = [q.instance.name for q in questions]
    bounds = [
        "infeasible" if q.bound_ns is None else f"{q.instance.ideal_ns / q.bound_ns:.4f}"
        for q in questions
    ]

    def rank(rule: str) -> tuple[int, float]:
        ratios = [q.instance.ideal_ns / m for q in questions if (m := q.makespan_ns[rule])]
        return -len(ratios), -sum(ratios)

    lines = [
        f"| rule | {' | '.join(names)} | seconds |",
        "|---|" + "---:|" * (len(names) + 1),
        f"| window LP bound | {' | '.join(bounds)} | |",
    ]
    for rule in sorted(rules, key=rank):
        cells = " | ".join(q.cell(rule) for q in questions)
        lines.append(f"| {rule} | {cells} | {max(q.seconds[rule] for q in questions):.2f} |")
    return lines


def orderings(questions: list[Question], rules: list[str]) -> tuple[list[str], bool]:
    """Check the orderings that are known; return what to print, and whether all hold."""
    beaten = [
        f"{rule} on {q.instance.name} at {q.budget}"
        for q in questions
        for rule in rules
        if (gap := q.gap(rule)) is not None and gap < 0
    ]
    lines = [f"- no rule beats the bound: {'; '.join(beaten) or 'holds'}"]
    fine = not beaten
    if {"selective", "layer-checkpoint"} <= set(rules):
        pairs = [
            (q, s, c)
            for q in questions
            if "eager" in q.instance.name
            and (s := q.makespan_ns["selective"]) is not None
            and (c := q.makespan_ns["layer-checkpoint"]) is not None
        ]
        wrong = [f"{q.instance.name} at {q.budget}" for q, s, c in pairs if s >= c]
        fine = fine and not wrong
        lines.append(
            "- selective adds less time than layer-checkpoint on eager attention: "
            f"{'; '.join(wrong) or 'holds'} ({len(pairs)} questions where both have a plan)"
        )
    if "swap-all" in rules:
        shares = [
            q.instance.ideal_ns / m
            for q in questions
            if (m := q.makespan_ns["swap-all"]) is not None
        ]
        if shares:
            lines.append(
                f"- swap-all collapses where the link can't hide it: ratios {min(shares):.3f} to "
                f"{max(shares):.3f}"
            )
    return lines, fine


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--budgets", default=BUDGETS, help="fractions of the unlimited peak")
    parser.add_argument("--without", default="", help="rules to leave out, separated by commas")
    parser.add_argument("--time-limit", type=float, default=10.0, help="seconds per run")
    parser.add_argument("-o", "--output", type=Path, help="file for the tables")
    options = parser.parse_args()
    left_out = options.without.split(",")
    rules = [m.name for m in methods() if m.kind == "heuristic" and m.name not in left_out]
    folder = ROOT / "instances" / "slackswap"
    files = sorted(file for kind in ("eager", "flash") for file in folder.glob(f"*-{kind}.json"))
    graphs = [read_instance(file) for file in files]
    lines: list[str] = []
    everything: list[Question] = []
    for budget in options.budgets.split(","):
        questions = []
        for seed in graphs:
            instance = Instance.from_graph(
                seed.graph, device=seed.device, budget=budget, name=seed.name
            )
            questions.append(Question(instance, budget))
            print(f"{instance.name} within {budget}", file=sys.stderr)
            ask(questions[-1], rules, options.time_limit)
        lines += [f"## Budget {budget} of the unlimited peak", "", *table(questions, rules), ""]
        everything += questions
    checks, fine = orderings(everything, rules)
    lines += ["## Orderings", "", *checks]
    text = "\n".join(lines) + "\n"
    if options.output is None:
        print(text, end="")
    else:
        options.output.write_text(text)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
