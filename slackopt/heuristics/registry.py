"""The registry of heuristics: a decorated function is a method everywhere.

A rule of another package is found by its entry point in the group ``slackopt.heuristics``; see
docs/own-heuristic.md.
"""

from __future__ import annotations

import functools
import inspect
import typing
import warnings
from collections.abc import Callable
from importlib import metadata
from typing import Any

from slackopt.errors import InputError, NothingFoundError
from slackopt.instance import Instance
from slackopt.plan import Plan

Heuristic = Callable[..., Plan]

ENTRY_POINTS = "slackopt.heuristics"
"""Group of entry points in which other packages name their rules."""

_REGISTRY: dict[str, Heuristic] = {}
_SEEN_ENTRY_POINTS: set[tuple[str, str]] = set()


class NoPlanError(NothingFoundError):
    """A rule finds no plan within the budget; that does not prove that there is none."""

    def __init__(self, rule: str, instance: Instance, why: str = "") -> None:
        self.instance, self.why = instance, why
        super().__init__(self.told(rule))

    def told(self, method: str) -> str:
        """Return the message with the name under which the rule was asked for."""
        detail = f": {self.why}" if self.why else ""
        return (
            f"rule {method!r} finds no plan for instance {self.instance.name!r} within "
            f"{self.instance.budget_bytes} bytes{detail}"
        )


def heuristic(
    name: str, *, summary: str | None = None, **defaults: Any
) -> Callable[[Heuristic], Heuristic]:
    """Register a function ``(instance, **options) -> Plan`` under `name`.

    The function's keyword parameters are the rule's options. Called by `slackopt.solve`, an
    option that the function doesn't have, or a value that its ``Literal`` annotation doesn't
    list, is refused. Options named ``seed`` and ``time_limit`` are given to it by `slackopt.solve`.

    Parameters
    ----------
    name
        The method name, in lower case with hyphens.
    summary
        The line that `slackopt methods` prints; the first line of the docstring by default.
    **defaults
        Options fixed for this name, so that one function can serve several variants.

    Examples
    --------
    >>> @heuristic("my-rule")  # doctest: +SKIP
    ... def my_rule(instance):
    ...     return Plan.for_instance(instance, {...})
    """

    def register(function: Heuristic) -> Heuristic:
        if name in _REGISTRY:
            raise InputError(f"a heuristic named {name!r} is registered already; choose another")

        @functools.wraps(function)
        def checked(instance: Instance, **options: Any) -> Plan:
            check_options(name, function, options)
            return function(instance, **(defaults | options))

        if summary is not None:
            checked.__doc__ = f"{summary}\n\n{function.__doc__ or ''}"
        _REGISTRY[name] = checked
        return function

    return register


def heuristics() -> dict[str, Heuristic]:
    """Return all registered heuristics by name, those of other packages included.

    Other packages are imported at the first call, not before. One that fails to load is left out
    with a warning.
    """
    _load_entry_points()
    return dict(_REGISTRY)


def built_in_rules() -> frozenset[str]:
    """Return the names of the rules of this package; nothing of other packages is imported."""
    return frozenset(
        name
        for name, rule in _REGISTRY.items()
        if inspect.unwrap(rule).__module__.startswith("slackopt.")
    )


def option_names(rule: Heuristic) -> tuple[str, ...]:
    """Return the names of a rule's options, in the order of its signature."""
    parameters = list(inspect.signature(rule).parameters.values())[1:]
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return tuple(p.name for p in parameters if p.kind in kinds)


def check_options(name: str, rule: Heuristic, options: dict[str, Any]) -> None:
    """Raise `InputError` for an option the rule doesn't have, or a value it doesn't list."""
    known = option_names(rule)
    takes_any = any(
        p.kind is inspect.Parameter.VAR_KEYWORD for p in inspect.signature(rule).parameters.values()
    )
    for option in options:
        if option not in known and not takes_any:
            valid = f"its options are: {', '.join(known)}" if known else "it has no options"
            raise InputError(f"method {name!r} has no option {option!r}; {valid}")
    try:
        hints = typing.get_type_hints(rule)
    except (NameError, TypeError):  # a name that only a type checker knows
        return
    for option, value in options.items():
        choices = typing.get_args(hints.get(option))
        if typing.get_origin(hints.get(option)) is typing.Literal and value not in choices:
            listed = ", ".join(map(repr, choices))
            raise InputError(
                f"option {option} of method {name!r} is {value!r}; give one of {listed}"
            )


def _load_entry_points() -> None:
    """Import the rules of other packages; each entry point once."""
    for point in metadata.entry_points(group=ENTRY_POINTS):
        if (point.name, point.value) in _SEEN_ENTRY_POINTS:
            continue
        _SEEN_ENTRY_POINTS.add((point.name, point.value))
        try:
            loaded = point.load()
            # A module registers its own rules; a function is registered under the point's name.
            if inspect.isfunction(loaded) and not _is_registered(loaded):
                heuristic(point.name)(loaded)
        except Exception as error:  # whatever a foreign package throws must not end ours
            why = " ".join(f"{type(error).__name__}: {error}".split())
            warnings.warn(
                f"the heuristic {point.name!r} of another package ({point.value}) is left out, "
                f"because it can't be loaded: {why}",
                RuntimeWarning,
                stacklevel=3,
            )


def _is_registered(function: Heuristic) -> bool:
    return any(inspect.unwrap(rule) is function for rule in _REGISTRY.values())
