"""Features of an instance: what the index of the library says about each."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from slackopt.describe import describe_instance
from slackopt.files import read_instance
from slackopt.instance import Instance
from slackopt.library.hardness import Hardness, hardness
from slackopt.library.records import BestEntry

LINK_BOUND = 0.5
COMPUTE_BOUND = 1.0


class Regime(StrEnum):
    """What an instance is short of, by its hideable share.

    ``link-bound``: the link hides less than half of the excess; ``balanced``: at least half of it;
    ``compute-bound``: the link alone could move the whole excess behind compute, if nothing stood
    in its way; ``none``: the budget is at least the unlimited peak.
    """

    LINK_BOUND = "link-bound"
    BALANCED = "balanced"
    COMPUTE_BOUND = "compute-bound"
    NONE = "none"


@dataclass(frozen=True)
class Features:
    """One row of the index.

    Attributes
    ----------
    family, instance, file, sha256
        Where it is, and its identity. `file` is relative to the folder of the library.
    ops, tensors, candidates
        Counts; a candidate is a tensor that is idle between its forward and backward uses.
    unlimited_peak_bytes, budget_bytes, budget_share
        The peak without a limit, the budget, and budget / peak.
    least_budget_share
        The largest working set of an op / peak: no plan exists below it.
    device, d2h_bytes_per_s, h2d_bytes_per_s, shared_link, host_memory_bytes
        The link; `shared_link` if a copy is slower while the other direction is busy.
    ideal_ns
        Step time without a limit.
    hideable_share
        Bytes that the link can move behind compute, each way, over the bytes of the peak beyond
        the budget; above 1 if more. None without such bytes.
    regime
        See `Regime`.
    makespan_ns, lower_bound_ns, gap
        Best known; None where nothing is.
    hardness
        Class by the best known, or None.
    """

    family: str
    instance: str
    file: str
    sha256: str
    ops: int
    tensors: int
    candidates: int
    unlimited_peak_bytes: int
    budget_bytes: int
    budget_share: float
    least_budget_share: float
    device: str
    d2h_bytes_per_s: int
    h2d_bytes_per_s: int
    shared_link: bool
    host_memory_bytes: int | None
    ideal_ns: int
    hideable_share: float | None
    regime: Regime
    makespan_ns: int | None = None
    lower_bound_ns: int | None = None
    gap: float | None = None
    hardness: Hardness | None = None


def features(
    instance: Instance, *, family: str = "", file: str = "", best: BestEntry | None = None
) -> Features:
    """Return the features of an instance.

    Parameters
    ----------
    instance
        The instance.
    family, file
        Where it is in the library.
    best
        What is known about it; ignored if it is of an instance with another identity.
    """
    facts = describe_instance(instance)
    graph, device = facts["graph"], instance.device
    peak = graph["unlimited_peak_bytes"]
    excess = facts["excess_bytes"]
    share = facts["hideable_bytes"] / excess if excess else None
    if best is not None and best.instance_sha256 != instance.sha256:
        best = None
    return Features(
        family=family,
        instance=instance.name,
        file=file,
        sha256=instance.sha256,
        ops=graph["ops"],
        tensors=graph["tensors"],
        candidates=graph["candidates"],
        unlimited_peak_bytes=peak,
        budget_bytes=instance.budget_bytes,
        budget_share=instance.budget_bytes / peak,
        least_budget_share=graph["min_budget_lower_bound_bytes"] / peak,
        device=device.name,
        d2h_bytes_per_s=device.d2h_bytes_per_s,
        h2d_bytes_per_s=device.h2d_bytes_per_s,
        shared_link=not device.independent,
        host_memory_bytes=device.host_memory_bytes,
        ideal_ns=instance.ideal_ns,
        hideable_share=share,
        regime=_regime(share),
        makespan_ns=None if best is None else best.makespan_ns,
        lower_bound_ns=None if best is None else best.lower_bound_ns,
        gap=None if best is None else best.gap,
        hardness=None if best is None else hardness(best),
    )


def features_of_file(path: Path, library: Path, best: BestEntry | None = None) -> Features:
    """Read an instance file of the library and return its features."""
    file = path.relative_to(library).as_posix()
    return features(read_instance(path), family=path.parent.name, file=file, best=best)


def _regime(share: float | None) -> Regime:
    if share is None:
        return Regime.NONE
    if share >= COMPUTE_BOUND:
        return Regime.COMPUTE_BOUND
    return Regime.BALANCED if share >= LINK_BOUND else Regime.LINK_BOUND
