"""Names of solvers."""

import pytest

from slackopt.errors import InputError
from slackopt.solvers import pulp_solvers
from slackopt.solvers.pulp_solvers import available_solvers, check_solver, pulp_name


@pytest.mark.parametrize("name", [None, "highs", "HiGHS", "HIGHS"])
def test_highs_is_the_default_and_always_there(name: str | None) -> None:
    assert check_solver(name) == "highs"
    assert pulp_name("highs") == "HiGHS"


def test_every_available_solver_is_accepted() -> None:
    assert available_solvers()[0] == "highs"
    for name in available_solvers():
        assert check_solver(name.upper()) == name
        assert pulp_name(name)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"highs": "HiGHS", "cbc": "COIN_CMD", "scip_py": "SCIP_PY"}
    monkeypatch.setattr(pulp_solvers, "pulp_names", lambda: names)


@pytest.mark.parametrize(
    ("name", "canonical"),
    [("COIN_CMD", "cbc"), ("PULP_CBC_CMD", "cbc"), ("scip", "scip_py"), ("SCIP_PY", "scip_py")],
)
@pytest.mark.usefixtures("here")
def test_other_names(name: str, canonical: str) -> None:
    assert check_solver(name) == canonical


@pytest.mark.parametrize(
    ("name", "remedy"),
    [("gurobi", "gurobipy"), ("glpk_cmd", "glpsol"), ("cpsat", "method 'cpsat'")],
)
@pytest.mark.usefixtures("here")
def test_a_missing_solver(name: str, remedy: str) -> None:
    with pytest.raises(InputError, match=f"{name}.*choose highs, cbc, scip_py.*{remedy}"):
        check_solver(name)


@pytest.mark.usefixtures("here")
def test_an_unknown_solver() -> None:
    with pytest.raises(InputError) as error:
        check_solver("nonesuch")
    assert str(error.value) == (
        "solver 'nonesuch' is not available here; choose highs, cbc, scip_py"
    )


def test_missing_cbc_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulp_solvers, "pulp_names", lambda: {"highs": "HiGHS"})
    with pytest.raises(InputError, match="pip install cbcbox"):
        check_solver("cbc")
