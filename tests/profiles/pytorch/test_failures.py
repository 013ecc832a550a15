"""Models that can't be traced: which op, where, and what to do, in one sentence."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from slackopt.errors import InputError
from slackopt.profiles import from_torch

Forward = Callable[[nn.Linear, torch.Tensor], Any]


class Inner(nn.Module):
    def __init__(self, forward: Forward) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.run = forward

    def forward(self, x: torch.Tensor) -> Any:
        return self.run(self.linear, x)


class Outer(nn.Module):
    def __init__(self, forward: Forward) -> None:
        super().__init__()
        self.block = Inner(forward)

    def forward(self, x: torch.Tensor) -> Any:
        return self.block(x)


def branch(linear: nn.Linear, x: torch.Tensor) -> torch.Tensor:
    y = linear(x)
    return (y if y.sum() > 0 else -y).sum()


def item(linear: nn.Linear, x: torch.Tensor) -> torch.Tensor:
    return linear(x).sum() * x.max().item()


def selected(linear: nn.Linear, x: torch.Tensor) -> torch.Tensor:
    y = linear(x)
    return y[y > 0].sum()


def misfit(linear: nn.Linear, x: torch.Tensor) -> torch.Tensor:
    return linear(x[:, :3]).sum()


@torch.library.custom_op("slackopt_tests::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    return 2 * x


def without_rule(linear: nn.Linear, x: torch.Tensor) -> torch.Tensor:
    return doubled(linear(x)).sum()


CASES: dict[str, tuple[Forward, list[str]]] = {
    "branch": (branch, ["module 'block'", "_local_scalar_dense", "reads a value", "input"]),
    "item": (item, ["module 'block'", "_local_scalar_dense", "reads a value"]),
    "selected": (selected, ["module 'block'", "aten.nonzero", "depends on data", "torch.where"]),
    "misfit": (misfit, ["module 'block.linear'", "check that the model runs"]),
    "without a rule": (without_rule, ["slackopt_tests.doubled", "register_fake"]),
    "no scalar": (
        lambda linear, x: linear(x),
        ["returns a tensor of shape (2, 4)", "give a loss function"],
    ),
    "no tensor": (lambda linear, x: (linear(x), 1), ["returns a tuple", "scalar loss"]),
    "no gradient": (lambda linear, x: x.sum(), ["depends on no parameter"]),
}


@pytest.mark.parametrize("case", CASES)
def test_a_model_that_cannot_be_traced(case: str) -> None:
    forward, words = CASES[case]
    with pytest.raises(InputError) as caught:
        from_torch(Outer(forward), torch.zeros(2, 4))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600
    for word in words:
        assert word in str(caught.value)


def test_wrong_inputs() -> None:
    with pytest.raises(InputError, match=r"inputs don't fit its forward: .*'y'"):
        from_torch(Outer(branch), {"y": torch.zeros(2, 4)})
    with pytest.raises(InputError, match="inputs don't fit its forward"):
        from_torch(Outer(branch), (torch.zeros(2, 4), torch.zeros(2, 4)))


def test_compiled_models() -> None:
    plain = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    x = torch.zeros(2, 4)
    compiled = from_torch(torch.compile(plain), x, loss=torch.sum)
    assert compiled == from_torch(plain, x, loss=torch.sum)
    plain[0] = torch.compile(plain[0])
    with pytest.raises(InputError, match=r"module '0.*torch.compile: leave that out"):
        from_torch(plain, x, loss=torch.sum)


def test_no_model_and_no_parameters() -> None:
    with pytest.raises(InputError, match=r"the model is a str: must be a torch.nn.Module"):
        from_torch("resnet50", torch.zeros(1))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no parameter of ReLU requires a gradient"):
        from_torch(nn.ReLU(), torch.zeros(1))


def test_settings_that_mean_nothing() -> None:
    model, x = nn.Linear(2, 1), torch.zeros(1, 2)
    for setting, value, words in [
        ("dtype", "int8", "must be one of bf16, fp16, fp32"),
        ("attention", "sparse", "must be one of flash, eager"),
        ("min_swap_bytes", -1, "must be a whole number from 0"),
        ("accelerator", "a1000", "unknown accelerator 'a1000'"),
    ]:
        with pytest.raises(InputError, match=words):
            from_torch(model, x, loss=torch.sum, **{setting: value})
    with pytest.raises(InputError, match="repeats 0: must be a whole number from 1"):
        from_torch(model, x, loss=torch.sum, measure=True, repeats=0)
