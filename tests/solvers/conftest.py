"""Solvers that are here, one child process each for a whole module, and small models."""

from collections.abc import Iterator

import pytest

from slackopt.solvers.pulp_process import PulpProcess
from slackopt.solvers.pulp_solvers import available_solvers, pulp_name


@pytest.fixture(scope="module", params=["highs", "cbc"])
def solver(request: pytest.FixtureRequest) -> str:
    if request.param not in available_solvers():
        pytest.skip(f"{request.param} is not installed")
    return request.param


@pytest.fixture(scope="module")
def process(solver: str) -> Iterator[PulpProcess]:
    child = PulpProcess(pulp_name(solver))
    yield child
    child.close()
