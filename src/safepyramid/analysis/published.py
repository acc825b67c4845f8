"""The paper's results as rows that stand beside a user's own, from `data/published.yaml`.

They are given as they were printed: percents with one digit, here as fractions.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from safepyramid.metrics.summary import GROUPS, POOLED

SECTION = "published"
"""The section of a table's published rows. They are never ranked with runs."""


@cache
def facts() -> dict[str, Any]:
    """The whole file: `source`, `data`, `tables`, and the changes by `effort`."""
    import yaml

    text = (files("safepyramid") / "data" / "published.yaml").read_text(encoding="utf-8")
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def table_numbers(protocols: Iterable[str], *, harness: bool = False) -> list[int]:
    """The paper's tables that go with runs of some protocols, and with agent harnesses."""
    wanted = set(protocols)
    return [
        table["table"]
        for table in facts()["tables"]
        if table["protocol"] in wanted and (harness or not _has_harness(table))
    ]


def table_of(number: int) -> dict[str, Any]:
    """One of the paper's result tables, as it stands in the file."""
    return next(table for table in facts()["tables"] if table["table"] == number)


def _has_harness(table: Mapping[str, Any]) -> bool:
    return any("harness" in row for section in table["sections"] for row in section["rows"])


def describe(table: Mapping[str, Any]) -> str:
    """What a published table stands on, in words."""
    protocol = table["protocol"].replace("_", "-")
    return (
        f"published: {facts()['source']}, table {table['table']}: {protocol}, "
        f"{table['cases']:,} cases, the paper's data"
    )


def result_rows(numbers: Iterable[int]) -> list[dict[str, Any]]:
    """Rows in the form of `tables.results`: one per model and level, in the paper's order.

    `run` is the model; `harness` the agent that held it, None for plain calls, and absent where the
    table has no such column. `part` is the group of models that the paper puts a row in. Scored cases
    and intervals were not printed and are None; `excluded_rate` is printed for all levels together.
    """
    rows = []
    for table in map(table_of, numbers):
        for section in table["sections"]:
            for row in section["rows"]:
                rows += _rows(table, section["name"], row)
    return rows


def _rows(table: Mapping[str, Any], part: str, row: Mapping[str, Any]) -> list[dict[str, Any]]:
    harness = {"harness": row["harness"]} if "harness" in row else {}
    refusal = row.get("refusal")
    return [
        {
            "block": describe(table),
            "section": SECTION,
            "part": part,
            "protocol": table["protocol"],
            "run": row["model"],
            **harness,
            "level": level,
            "total": table["cases"] if level == POOLED else table["cases"] // 3,
            "scored": None,
            "rmr": _fraction(row["rmr"][i]),
            "rmr@1.0": _fraction(row["exact"][i]),
            "rdr": _fraction(row["rdr"][i]),
            "excluded_rate": _fraction(refusal) if level == POOLED else None,
        }
        for i, level in enumerate(GROUPS)
    ]


def _fraction(percent: float | None) -> float | None:
    return None if percent is None else round(percent / 100, 6)
