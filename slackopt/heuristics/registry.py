"""The registry of heuristics: a decorated function is a method everywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slackopt.errors import InputError, NothingFoundError
from slackopt.instance import Instance
from slackopt.plan import Plan

Heuristic = Callable[..., Plan]

_REGISTRY: dict[str, Heuristic] = {}


class NoPlanError(NothingFoundError):
    """A rule finds no plan within the budget; that does not prove that there is none."""

    def __init__(self, rule: str, instance: Instance, why: str = "") -> None:
        detail = f": {why}" if why else ""
        super().__init__(
            f"rule {rule!r} finds no plan for instance {instance.name!r} within "
            f"{instance.budget_bytes} bytes{detail}"
        )


def heuristic(name: str, **defaults: Any) -> Callable[[Heuristic], Heuristic]:
    """Register a function ``(instance, **options) -> Plan`` under `name`.

    Parameters
    ----------
    name
        The method name, in lower case with hyphens.
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

        def bound(instance: Instance, **options: Any) -> Plan:
            return function(instance, **(defaults | options))

        bound.__doc__ = function.__doc__
        _REGISTRY[name] = bound if defaults else function
        return function

    return register


def heuristics() -> dict[str, Heuristic]:
    """Return all registered heuristics by name."""
    return dict(_REGISTRY)
