"""The data card says what the sample holds: every number in it is recomputed here."""

import json
import re
from collections import defaultdict
from pathlib import Path

from safepyramid.construct.compile import FILES
from safepyramid.dataset.load import SAMPLE, data_hash, load_benchmark, write_parquet
from safepyramid.metrics.agreement import agreement
from safepyramid.schema import Level, RuleType
from safepyramid.statistics import statistics

FOLDER = Path(str(SAMPLE))
CARD = (Path(__file__).parents[1] / "docs" / "data-card.md").read_text(encoding="utf-8")
RAW = {name: json.loads((FOLDER / name).read_text(encoding="utf-8")) for name in FILES}
READING = json.loads((FOLDER / "second-reading.json").read_text(encoding="utf-8"))


def test_plain_json_has_nine_fields_and_evidence_only_where_named():
    fields = re.findall(r"^\| `(\w+)` \|", section("Fields of a case"), re.MULTILINE)
    assert len(fields) == 9
    for name, content in RAW.items():
        assert len(content["data"]) == 36
        for row in content["data"]:
            assert list(row) == fields
            entries = row["rubric"]["violations"] + row["rubric"]["non_violations"]
            assert all(("evidence" in entry) == ("evidence" in name) for entry in entries)
    assert data_hash(load_benchmark(FOLDER / FILES[0])[1]) == data_hash(
        load_benchmark(FOLDER / FILES[1], evidence=True)[1]
    )


def test_parquet_has_the_columns_of_the_card(sample, tmp_path):
    from pyarrow import parquet

    write_parquet(tmp_path / "benchmark.parquet", sample)
    table = parquet.read_table(tmp_path / "benchmark.parquet")
    stated = re.search(r"`benchmark\.parquet`[^\n]*?columns ((?:`\w+`(?:, | and )?)+)", CARD)
    assert stated
    assert table.column_names == re.findall(r"`(\w+)`", stated[1])
    assert table.num_rows == 36
    assert load_benchmark(tmp_path / "benchmark.parquet")[1] == sample


def agreement_rows() -> list[str]:
    """The card's table of agreement, from the authors' labels and the second reading."""
    labels, triggers = defaultdict(list), defaultdict(list)
    for row in RAW[FILES[1]]["data"]:
        read = READING[row["id"]]
        for entry in row["rubric"]["violations"] + row["rubric"]["non_violations"]:
            [evidence] = entry["evidence"]
            for place in ((row["level"], entry["type"]), ("all", "all")):
                number = entry["rule"]
                labels[place].append((evidence["violated"], number in read["violated"]))
                if "triggered" in evidence:
                    triggers[place].append((evidence["triggered"], number in read["fires"]))
    order = [(level.value, kind.value) for level in Level for kind in RuleType]
    places = [place for place in order if place in labels] + [("all", "all")]
    return [
        f"| {' | '.join((*place, *measured(labels[place]), *measured(triggers[place])))} |"
        for place in places
    ]


def measured(pairs: list[tuple[bool, bool]]) -> tuple[str, str, str]:
    if not pairs:
        return "–", "–", "–"
    found = agreement(pairs)
    kappa = "–" if found.kappa is None else f"{found.kappa:.2f}"
    return f"{sum(a == b for a, b in pairs):,} / {len(pairs):,}", f"{found.raw:.3f}", kappa


def test_card_states_the_agreement():
    stated = table("Agreement of the two readings")
    assert stated[2:] == agreement_rows()
    notes = sum(len(read["two_ways"]) for read in READING.values())
    unsure = sum(len(read["unsure"]) for read in READING.values())
    assert f"marked {unsure} rules as doubtful" in CARD
    assert f"wrote {notes} notes" in CARD


def test_card_states_the_composition(sample):
    stats = statistics(sample)["levels"]
    rows = []
    for level in Level:
        row = stats[level.value]
        numbers = [f"{row['types'][kind.value]:,}" for kind in RuleType]
        numbers += [f"{row['rules_distinct']:,}", f"{row['rules_full']:,}"]
        for key in ("rules_per_policy", "violated_per_policy"):
            numbers += [f"{row[key]['mean']:.1f}", f"{row[key]['max']}"]
        numbers += [f"{row['input_tokens'][which] / 1000:.1f}K" for which in ("mean", "max")]
        rows.append(f"| {level} | sample | {' | '.join(numbers)} |")
    assert [line for line in table("Composition") if "| sample |" in line] == rows
    assert f"{stats['ALL']['positive_share']:.1%}".replace("%", " %") in section("Composition")


def test_card_shows_an_entry_that_exists():
    shown = json.loads(re.search(r"```json\n(.*?)```", section("One entry"), re.DOTALL)[1])
    case = re.search(r"`(\w{4}-\d{3}-l\d)`", section("One entry"))[1]
    [row] = [row for row in RAW[FILES[1]]["data"] if row["id"] == case]
    assert shown in row["rubric"]["violations"] + row["rubric"]["non_violations"]


def section(title: str) -> str:
    found = re.search(rf"^#+ {re.escape(title)}\n(.*?)(?=^#+ |\Z)", CARD, re.DOTALL | re.MULTILINE)
    assert found, f"the card has no section {title!r}"
    return found[1]


def table(title: str) -> list[str]:
    return [line for line in section(title).split("\n") if line.startswith("|")]
