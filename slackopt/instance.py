"""An instance: a graph, a device and a memory budget; the question that methods answer."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from slackopt.device import Device
from slackopt.errors import InfeasibleError, InputError
from slackopt.graph import Graph
from slackopt.lifetimes import Lifetimes
from slackopt.profiles.devices import get_device
from slackopt.records import MAX_BUDGET_BYTES, SCHEMA_VERSION, BudgetBytes, Name, Record

_UNITS = {"": 1, "B": 1} | {
    f"{prefix}{suffix}": base**power
    for suffix, base in (("iB", 1024), ("B", 1000))
    for power, prefix in enumerate(("K", "M", "G", "T"), start=1)
}


MAX_PIECES = 10_000
"""Most pieces of one swap-out: each is an event of the simulator."""


class Instance(Record):
    """One question: how fast this step can run on this device within this budget.

    Attributes
    ----------
    graph
        The training step.
    device
        The link, the host memory, and whether swap-outs free memory in pieces. Whatever lets
        a plan run, or run sooner, is in the instance; the simulator has no such options.
    budget_bytes
        Bytes for all tensors and workspaces together; parameters, optimizer state and other
        statics are outside.
    budget_fraction
        The fraction of the unlimited peak that the budget was made from, as written by the
        user (``"0.5"``), or None. For the record only.
    provenance
        How the instance was made.
    """

    format: Literal["slackopt/instance"] = "slackopt/instance"
    schema_version: Annotated[int, Field(ge=SCHEMA_VERSION, le=SCHEMA_VERSION)] = SCHEMA_VERSION
    name: Name
    budget_bytes: BudgetBytes
    budget_fraction: str | None = None
    device: Device
    graph: Graph
    provenance: Mapping[str, Any] = Field(default_factory=dict)

    @classmethod
    def from_graph(
        cls,
        graph: Graph,
        *,
        device: str | Device,
        budget: float | int | str | Fraction,
        name: str | None = None,
    ) -> Instance:
        """Make an instance.

        Parameters
        ----------
        graph
            The training step.
        device
            A device, or the name of one in the catalogue (`slackopt.profiles.devices`).
        budget
            See `parse_budget`.
        name
            Name of the instance; the graph's name by default.

        Raises
        ------
        InputError
            For an unknown device or a budget that can't be read.
        """
        budget_bytes, fraction = parse_budget(budget, graph.unlimited_peak_bytes)
        return cls(
            name=name or graph.name,
            budget_bytes=budget_bytes,
            budget_fraction=fraction,
            device=get_device(device) if isinstance(device, str) else device,
            graph=graph,
        )

    @model_validator(mode="after")
    def _check_chunks(self) -> Instance:
        chunk = self.device.chunk_bytes
        sizes = [tensor.size_bytes for tensor in self.graph.tensors if tensor.swappable]
        least = -(-max(sizes, default=0) // MAX_PIECES)
        if 0 < chunk < least:
            raise InputError(
                f"device {self.device.name!r}: chunk_bytes {chunk} cuts a tensor of {max(sizes)} "
                f"bytes into more than {MAX_PIECES} pieces; give at least {least}, or 0 (whole "
                "tensors)"
            )
        return self

    @property
    def lifetimes(self) -> Lifetimes:
        """Integer-indexed view of the graph."""
        return self.graph.lifetimes

    @property
    def ideal_ns(self) -> int:
        """Step time with unlimited memory."""
        return self.graph.ideal_ns

    @cached_property
    def sha256(self) -> str:
        """Identity of the instance: a hash of its content, whatever the file looks like.

        Provenance and sources are left out: rewording a citation does not make another problem.
        """
        content = self.model_dump_json(
            exclude={"provenance": True, "graph": {"provenance"}, "device": {"source"}}
        )
        return hashlib.sha256(content.encode()).hexdigest()

    def check_working_set(self) -> None:
        """Raise `InfeasibleError` if one op alone needs more than the budget.

        It names the op and its bytes. Passing does not prove that a plan exists.
        """
        ops, needs = self.graph.ops, self.lifetimes.working_set_bytes
        batch = self.lifetimes.batch_bytes
        k = max(range(len(needs)), key=needs.__getitem__)
        asked, why = needs[k], "with everything evicted that can be evicted"
        if batch > self.budget_bytes:
            k, asked, why = 0, batch, "for the batch, which is on the device from the start"
        if asked > self.budget_bytes:
            raise InfeasibleError(
                f"instance {self.name!r} has no plan: op {ops[k].name!r} (ops[{k}]) needs {asked} "
                f"bytes {why}, and the budget is {self.budget_bytes} bytes; raise the budget to at "
                f"least {max(batch, *needs)} bytes"
            )

    def __repr__(self) -> str:
        share = self.budget_bytes / self.graph.unlimited_peak_bytes
        return (
            f"Instance({self.name!r}, {len(self.graph.ops)} ops, "
            f"{len(self.lifetimes.candidates)} candidates, budget "
            f"{self.budget_bytes / 2**30:.2f} GiB = {100 * share:.1f} % of peak, "
            f"{self.device.name})"
        )


def parse_budget(budget: float | int | str | Fraction, peak_bytes: int) -> tuple[int, str | None]:
    """Read a budget; return bytes, and the fraction as text if it was one.

    Parameters
    ----------
    budget
        A fraction of the unlimited peak (a float, a `Fraction`, text such as ``"0.5"`` or
        ``"50%"``; above 0, at most 1), or bytes (an int, text such as ``"12GiB"``). The texts
        ``"1"`` to ``"100"`` could mean either and are refused.
    peak_bytes
        The unlimited peak.

    Raises
    ------
    InputError
        If it is neither, or not above 0.

    Examples
    --------
    >>> parse_budget(0.5, 1001)
    (500, '0.5')
    >>> parse_budget("2KiB", 10**6)
    (2048, None)
    """
    hint = "give a fraction of the unlimited peak (0.5, 50%) or bytes (12GiB, 8000000000)"
    if isinstance(budget, int) and not isinstance(budget, bool):
        if budget <= 0:
            raise InputError(f"budget {budget}: must be above 0; {hint}")
        return _at_most_limit(budget), None
    text = str(budget).strip()
    if isinstance(budget, str) and re.fullmatch(r"0*1", text):
        raise InputError(
            f"budget {text!r}: could mean 1 byte or the whole peak; write 1.0 or 100% for the "
            "unlimited peak, 1B for one byte"
        )
    if isinstance(budget, str) and re.fullmatch(r"[0-9]+", text) and 1 < int(text) <= 100:
        raise InputError(
            f"budget {text!r}: could mean {text} % or {text} bytes; write {text}% or "
            f"{int(text) / 100:g} for a share of the unlimited peak, {text}B for bytes"
        )
    match = re.fullmatch(r"([0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]{1,2})?)\s*(%|[KMGT]?i?B)?", text)
    if match is None:
        rational = re.fullmatch(r"[0-9]+/[1-9][0-9]*", text)
        if rational is None:
            raise InputError(f"budget {text!r}: can't be read; {hint}")
        number, unit = Fraction(text), ""
    else:
        number, unit = Fraction(match[1]), match[2] or ""
    if number <= 0:
        raise InputError(f"budget {text!r}: must be above 0; {hint}")
    if unit == "%":
        number, unit = number / 100, ""
    elif unit:
        size = int(number * _UNITS[unit])
        if size < 1:
            raise InputError(f"budget {text!r}: less than one byte; {hint}")
        return _at_most_limit(size), None
    if number > 1:
        if match is not None and number.denominator == 1 and "." not in text and "%" not in text:
            return _at_most_limit(int(number)), None
        raise InputError(f"budget {text!r}: a fraction is at most 1; {hint}")
    size = int(number * peak_bytes)
    if size < 1:
        raise InputError(f"budget {text!r}: less than one byte of the peak; {hint}")
    return size, text


def _at_most_limit(budget_bytes: int) -> int:
    if budget_bytes > MAX_BUDGET_BYTES:
        raise InputError(f"budget of {budget_bytes} bytes: must be at most {MAX_BUDGET_BYTES}")
    return budget_bytes
