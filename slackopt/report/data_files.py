"""Tables of a report for other programs: CSV and Parquet."""

from __future__ import annotations

import io
import json

import pandas as pd

from slackopt.errors import InputError


def csv_bytes(table: pd.DataFrame) -> bytes:
    """Return a table as CSV in UTF-8; unknown is empty, a trajectory is JSON.

    Numbers are written so that they read back as the same numbers.
    """
    return _flat(table).to_csv(index=False, lineterminator="\n").encode()


def parquet_bytes(table: pd.DataFrame) -> bytes:
    """Return a table as Parquet; types are kept, a trajectory is JSON.

    Raises
    ------
    InputError
        If pyarrow, which writes it, is not installed.
    """
    buffer = io.BytesIO()
    try:
        _flat(table).to_parquet(buffer, index=False)
    except ImportError:
        raise InputError(
            "Parquet needs the package pyarrow: pip install '.[parquet]' in a clone of slackopt, "
            "or use --format csv"
        ) from None
    return buffer.getvalue()


def json_rows(table: pd.DataFrame) -> list[dict[str, object]]:
    """Return the rows of a table as JSON values; unknown is null."""
    text = table.to_json(orient="records", double_precision=15, date_format="iso")
    rows: list[dict[str, object]] = json.loads(text or "[]")
    return rows


def _flat(table: pd.DataFrame) -> pd.DataFrame:
    if "trajectory" not in table.columns:
        return table
    texts = [json.dumps(trajectory) for trajectory in table["trajectory"]]
    return table.assign(trajectory=pd.Series(texts, index=table.index, dtype="string"))
