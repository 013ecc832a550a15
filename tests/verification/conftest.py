"""True results, made once."""

import pytest
from true_results import Results, true_results


@pytest.fixture(scope="session")
def results() -> Results:
    return true_results()
