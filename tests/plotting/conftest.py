"""No figure is left open, and a warning while drawing is an error."""

import warnings
from collections.abc import Iterator

import matplotlib as mpl
import pytest

mpl.use("Agg")

import matplotlib.pyplot as plt


@pytest.fixture(autouse=True)
def _quiet_and_tidy() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
    plt.close("all")
