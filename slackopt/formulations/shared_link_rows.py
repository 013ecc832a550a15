r"""Rows of a shared link: copies of one direction leave less time for those of the other.

While both directions have a copy in flight, they move ``c_out`` and ``c_in`` instead of ``b_out``
and ``b_in`` bytes per second. In any window of length ``y``, bytes out and in obey

    V_out + a_out V_in  <=  b_out y ,     a_out = min(b_out / b_in, (b_out - c_out) / c_in) ,
    V_in + a_in V_out   <=  b_in y ,      a_in  = min(b_in / b_out, (b_in - c_in) / c_out) ;

with a latency all four terms change a little (`LinkShare`). With ``M(k)`` of
`slackopt.formulations.memory_rows`, row ``shared_link[out,k,h,i]`` is

    M(k) + sum_{t: ready_t >= h, l_t < k} s_t W_t - B + a_out V_in  <=  b_out (S_k - A_h) ,
    V_in = M(i) + sum_{t: i < u_t <= k} s_t W_t - B          for an op i, h <= i < k ,
    V_in = sum_{t: ready_t >= h, u_t <= k} s_t W_t           for i = none:

what has to leave before ``S_k`` for want of memory in op k, and what has to come in meanwhile for
want of memory in op i, or since it leaves in the window and is needed by its end. Likewise, row
``shared_link[in,k,h',i]``:

    M(k) + sum_{t: k < u_t <= h'} s_t W_t - B + a_in V_out  <=  b_in (S_h' - A_{k+1}) ,
    V_out = M(i) + sum_{t: ready_t > k, l_t < i} s_t W_t - B     for an op i, k < i <= h' ,
    V_out = sum_{t: ready_t > k, u_t <= h'} s_t W_t              for i = none.

docs/formulations.md has the proof.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from slackopt.formulations.columns import UNITS_PER_BYTE, WindowColumns
from slackopt.formulations.linear import Row
from slackopt.formulations.memory_rows import index_text, not_swapped, read_index
from slackopt.lifetimes import ABSENT

KIND = "shared_link"


@dataclass(frozen=True)
class SharedLinkKey:
    """Which row of the shared link.

    Attributes
    ----------
    outwards
        Whether memory makes bytes leave before op `op`, or come in after it.
    op
        The op k.
    limit
        Where the window begins (h), or ends (h').
    other
        The op i at which memory moves bytes the other way; `ABSENT` for tensors that go out and
        come back in the window.
    """

    outwards: bool
    op: int
    limit: int
    other: int = ABSENT

    @property
    def name(self) -> str:
        """Name of the row; `read_shared_link_key` reads it back."""
        way = "out" if self.outwards else "in"
        return f"{KIND}[{way},{self.op},{self.limit},{index_text(self.other)}]"


def read_shared_link_key(window: WindowColumns, parts: list[str]) -> SharedLinkKey:
    """Read the arguments of a row's name; ValueError where there is no such row."""
    way, op, limit, other = parts
    if way not in ("out", "in"):
        raise ValueError(way)
    key = SharedLinkKey(way == "out", int(op), int(limit), read_index(other))
    last = window.life.num_ops - 1
    if key.outwards:
        limit_ok, other_ok = 0 <= key.limit <= key.op, key.limit <= key.other < key.op
    else:
        limit_ok, other_ok = key.op < key.limit <= last, key.op < key.other <= key.limit
    other_ok = other_ok or key.other == ABSENT
    shared = not window.instance.device.independent
    if not (shared and 0 <= key.op <= last and limit_ok and other_ok):
        raise ValueError(key.name)
    return key


@dataclass(frozen=True)
class LinkShare:
    """One direction of the link: its bytes, plus `share` x those of the other, cost time.

    Attributes
    ----------
    rate
        Bytes per second of the direction alone, less the latencies of its copies; rounded up.
    share
        Bytes that each byte of the other direction takes from this one.
    """

    rate: int
    share: Fraction

    @classmethod
    def of(cls, window: WindowColumns, *, outwards: bool) -> LinkShare:
        """Derive both from the device and the largest tensor that may be copied.

        A copy of ``s`` bytes or less counts, beside its bytes, the bytes that its direction could
        move during the latency at the *shared* bandwidth: that much is lost whatever the other
        direction does meanwhile.
        """
        device = window.instance.device
        bandwidths = [
            (device.d2h_bytes_per_s, device.d2h_shared_bytes_per_s or device.d2h_bytes_per_s),
            (device.h2d_bytes_per_s, device.h2d_shared_bytes_per_s or device.h2d_bytes_per_s),
        ]
        (alone, shared), (other_alone, other_shared) = bandwidths[:: 1 if outwards else -1]
        share = min(Fraction(alone, other_alone), Fraction(alone - shared, other_shared))
        largest = max((window.life.sizes_bytes[t] for t in window.swap), default=1)
        size = largest * UNITS_PER_BYTE
        counted, other_counted = (size + b * device.latency_ns for b in (shared, other_shared))
        return cls(-(-alone * size // counted), share * Fraction(other_counted, counted))


def shared_link_row(window: WindowColumns, key: SharedLinkKey) -> Row:
    """Build one row of the shared link."""
    link = LinkShare.of(window, outwards=key.outwards)
    budget = window.instance.budget_bytes
    constant, terms = not_swapped(window, key.op)
    # In bytes, so far; the bytes of the other direction are rounded down to units.
    for t in _moving(window, key):
        column = window.swap[t]
        terms[column] = terms.get(column, 0) + window.life.sizes_bytes[t]
    coefficients = {column: size * UNITS_PER_BYTE for column, size in terms.items()}
    upper = (budget - constant) * UNITS_PER_BYTE
    other_constant = 0
    others: dict[int, int] = {}
    if key.other != ABSENT:
        other_constant, others = not_swapped(window, key.other)
        other_constant -= budget
    for t in _moving_back(window, key):
        column = window.swap[t]
        others[column] = others.get(column, 0) + window.life.sizes_bytes[t]
    upper -= _scaled(link.share, other_constant)
    for column, size in others.items():
        coefficients[column] = coefficients.get(column, 0) + _scaled(link.share, size)
    starts = window.starts_ns
    if key.outwards:
        first, last, length = key.limit, key.op, starts[key.op] - starts[key.limit]
    else:
        first, last, length = key.op + 1, key.limit, starts[key.limit] - starts[key.op + 1]
    window.spend(coefficients, [(first, last, link.rate)])
    upper += link.rate * length
    return Row(key.name, {j: a for j, a in coefficients.items() if a}, upper)


def _scaled(share: Fraction, size: int) -> int:
    """Return ``share * size`` in units of 1e-9 byte, rounded down."""
    return share.numerator * size * UNITS_PER_BYTE // share.denominator


def _moving(window: WindowColumns, key: SharedLinkKey) -> list[int]:
    """Tensors of the direction that the row is about."""
    if key.outwards:
        return window.leaving(key.limit, key.op)
    return window.returning(key.op, key.limit)


def _moving_back(window: WindowColumns, key: SharedLinkKey) -> Iterator[int]:
    """Tensors of the other direction."""
    life = window.life
    begin, end = (key.limit, key.op) if key.outwards else (key.op + 1, key.limit)
    for t in window.swap:
        use, last_forward = life.first_backward_use[t], life.last_forward_use[t]
        if key.other == ABSENT:
            if window.ready(t) >= begin and ABSENT != use <= end:
                yield t
        elif key.outwards:
            if key.other < use <= key.op:
                yield t
        elif window.ready(t) > key.op and last_forward < key.other:
            yield t
