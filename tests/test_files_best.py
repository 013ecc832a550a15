"""``*.json`` in the folder of a family stands for its ``best.json`` too."""

from pathlib import Path

from slackopt.files import without_best


def test_best_json_is_no_instance_among_instances(tmp_path: Path) -> None:
    given = [tmp_path / "a.json", tmp_path / "best.json", tmp_path / "b.json.gz"]
    assert without_best(given) == [given[0], given[2]]


def test_alone_it_stays_and_is_refused_by_whoever_reads_it(tmp_path: Path) -> None:
    assert without_best([tmp_path / "best.json"]) == [tmp_path / "best.json"]
