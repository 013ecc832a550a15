"""The JSON Schemas: in step with the code, and true of the files."""

import json
from pathlib import Path

import jsonschema
import pytest

from slackopt.errors import InputError
from slackopt.instance import Instance
from slackopt.profiles import transformer
from slackopt.schema import FORMATS, json_schema, write_schemas
from slackopt.solve import solve

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = ROOT / "docs" / "schemas"
INSTANCES = sorted(p for p in (ROOT / "instances").rglob("*.json") if p.name != "best.json")


def check(name: str, text: str) -> None:
    schema = json_schema(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(json.loads(text))


def test_the_published_copies_are_in_step(tmp_path: Path) -> None:
    # After a change: .venv/bin/python -c "from pathlib import Path; from slackopt.schema import
    # write_schemas; write_schemas(Path('docs/schemas'))"
    made = write_schemas(tmp_path)
    assert sorted(path.name for path in made) == sorted(p.name for p in DOCUMENTS.iterdir())
    for path in made:
        assert path.read_bytes() == (DOCUMENTS / path.name).read_bytes(), path.name


@pytest.mark.parametrize("name", FORMATS)
def test_a_schema_says_what_it_is(name: str) -> None:
    schema = json_schema(name)
    assert schema["$id"] == f"urn:slackopt:schema:{name}:1"
    assert schema["title"] == f"slackopt {name} file"
    assert schema["schema_version"] == 1
    assert {"format", "schema_version"} <= set(schema["required"])


@pytest.mark.parametrize("path", INSTANCES, ids=lambda path: path.stem)
def test_shipped_instances_validate(path: Path) -> None:
    check("instance", path.read_text())


def test_graph_plan_and_result_validate() -> None:
    graph = transformer("gpt2-xl", batch=1, num_layers=4)
    check("graph", graph.model_dump_json())
    instance = Instance.from_graph(graph, device="a100-pcie4", budget=0.8)
    result = solve(instance, "slackswap")
    assert result.plan is not None
    check("plan", result.plan.model_dump_json())
    check("result", result.model_dump_json())


def test_wrong_documents_are_refused() -> None:
    for text in ("{}", "[]", '{"format": "slackopt/plan", "schema_version": 2}'):
        with pytest.raises(jsonschema.ValidationError):
            check("plan", text)
    with pytest.raises(InputError, match="choose one of: graph, instance, plan, result"):
        json_schema("nonsense")
