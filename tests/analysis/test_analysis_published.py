"""The paper's tables 3, 4 and 5, rebuilt by the code that renders a user's own runs."""

import re

import pytest

from safepyramid.analysis.layouts import lay_out_published, published_frame
from safepyramid.analysis.published import facts, result_rows, table_numbers
from safepyramid.analysis.render import to_latex, to_markdown, to_text

# The numbers as the paper prints them: RMR, RMR@1.0 and RDR over L0, L1, L2 and Avg., then refusals.
PRINTED = {
    3: """
GPT-5.5 | 70.7 56.8 32.9 54.2 54.0 35.3 12.9 34.9 10.3 15.3 30.8 19.7 7.9
Claude-Opus-4.7 | 73.8 51.1 31.0 52.9 58.1 30.4 13.7 35.0 9.4 20.9 36.8 23.9 5.1
Kimi-K2.6 | 68.3 54.1 33.1 52.3 50.4 29.6 12.5 31.3 12.5 18.1 31.5 21.4 3.4
DeepSeek-V4-Pro | 70.8 54.5 30.6 52.2 53.8 30.1 10.6 31.7 11.0 18.9 32.1 21.7 6.1
Doubao-Seed-2.0-Pro | 63.1 54.1 32.9 50.0 45.4 30.6 12.4 29.5 14.7 18.6 30.6 22.1 2.2
Gemini-3.5-Flash | 61.4 53.9 33.5 49.6 41.0 30.2 13.1 28.1 15.4 20.1 31.6 23.3 0.4
Hunyuan-HY3-Preview | 60.6 55.9 30.9 49.1 39.2 31.9 11.1 27.4 15.9 16.8 32.5 22.6 3.6
Qwen-3.6-Max-Preview | 68.9 46.5 26.4 47.4 51.9 24.8 10.7 29.2 11.7 25.2 43.9 29.4 1.1
GLM-5.1 | 67.0 41.3 17.0 42.7 48.7 20.3 6.1 25.8 12.0 26.8 50.9 33.5 6.0
Grok-4.3 | 70.6 39.4 11.9 40.6 52.7 19.3 3.5 25.1 11.0 29.5 53.4 36.0 0.2
GPT-OSS-Safeguard-120B | 56.8 12.1 2.1 23.6 38.6 2.0 0.2 13.6 18.0 52.3 67.7 51.9 0.5
GPT-OSS-Safeguard-20B | 55.7 8.8 0.9 22.5 36.8 2.3 0.0 13.5 18.9 53.3 68.5 52.5 4.0
""",
    4: """
GPT-5.5 | 64.5 69.9 32.1 55.5 47.8 51.5 12.1 37.1 13.1 11.3 27.1 18.1 2.1
GPT-OSS-Safeguard-120B | 65.3 64.7 27.2 52.4 46.5 42.3 8.0 32.3 13.6 13.6 32.0 20.9 0.1
GPT-OSS-Safeguard-20B | 58.3 53.4 21.9 44.5 37.5 28.4 5.2 23.7 16.4 18.6 35.1 24.6 1.0
FlexGuard-Qwen3-8B | 46.9 25.8 10.0 27.6 26.7 6.2 1.4 11.4 22.2 34.0 45.6 35.6 7.0
DynaGuard-8B | 17.1 1.4 1.1 6.5 6.5 0.0 0.1 2.2 47.1 61.9 64.2 59.5 0.4
ShieldLM-14B-Qwen | 1.3 0.3 0.3 0.6 0.0 0.0 0.1 0.0 64.0 70.2 69.7 68.4 0.0
""",
    5: """
GPT-5.4 | 75.5 55.6 36.4 56.0 60.5 32.8 15.7 36.5 9.3 17.1 28.8 19.4
Codex (v0.130.0) | 75.8 59.4 38.6 58.0 60.0 36.8 19.1 38.8 9.2 15.6 28.2 18.7
Claude Code (v2.1.142) | 74.8 60.2 38.9 57.9 59.3 38.7 18.7 38.9 9.4 15.4 27.3 18.4
Claude-Opus-4.7 | 74.2 52.6 35.4 55.2 58.3 33.3 19.4 38.0 9.3 20.9 36.2 23.5
Claude Code (v2.1.142) | 75.5 62.0 42.6 60.4 58.6 41.1 20.4 40.4 8.8 15.5 25.8 17.4
""",
}


def printed(number):
    return [
        (name.strip(), values.split())
        for name, values in (line.split("|") for line in PRINTED[number].strip().split("\n"))
    ]


RENDERED = {
    "text": lambda table: to_text(table, width=400),
    "markdown": to_markdown,
    "latex": to_latex,
}


@pytest.mark.parametrize("form", RENDERED)
@pytest.mark.parametrize("number", PRINTED)
def test_every_number_stands_where_the_paper_has_it(number, form):
    lines = [
        line
        for line in RENDERED[form](lay_out_published(number)).split("\n")
        if re.search(r"\d\.\d\D.*\d\.\d", line) and "arXiv" not in line
    ]
    rows = printed(number)
    assert len(lines) >= len(rows)
    found = [line for line in lines if "RMR@" not in line]
    assert len(found) == len(rows)
    for line, (name, values) in zip(found, rows, strict=True):
        assert name in line
        cells = line[line.index(name) + len(name) :]
        assert re.findall(r"(?<![\w.(])\d+\.\d(?![\w.])", cells) == values


def test_there_are_as_many_numbers_as_printed():
    assert [sum(len(values) for _, values in printed(n)) for n in (3, 4, 5)] == [156, 78, 60]


@pytest.mark.parametrize(
    ("number", "column", "best", "second"),
    [
        # Table 3, RMR L0: 73.8 before 70.8; refusals: the fewest are best.
        (3, 0, "Claude-Opus-4.7", "DeepSeek-V4-Pro"),
        (3, 3, "GPT-5.5", "Claude-Opus-4.7"),
        (3, 10, "Doubao-Seed-2.0-Pro", "GPT-5.5"),
        (3, 12, "Grok-4.3", "Gemini-3.5-Flash"),
        (4, 0, "GPT-OSS-Safeguard-120B", "GPT-5.5"),
    ],
)
def test_best_and_second(number, column, best, second):
    table = lay_out_published(number)
    lines = to_markdown(table).split("\n")

    def cell(name):
        row = next(line for line in lines if line.startswith(f"| {name} "))
        return row.strip("| ").split(" | ")[column + len(table.labels)]

    assert cell(best).startswith("**")
    assert cell(second).startswith("<u>")


def test_equal_values_share_the_second_place():
    # 75.5 stands twice below 75.8 in RMR L0 of table 5.
    lines = to_markdown(lay_out_published(5)).split("\n")
    assert sum("<u>75.5</u>" in line for line in lines) == 2
    assert sum("**75.8**" in line for line in lines) == 1


def test_rows_are_marked_and_say_what_they_stand_on():
    frame = published_frame(5)
    assert set(frame["section"]) == {"published"}
    assert "900 cases" in frame["block"][0]
    assert list(frame[frame["level"] == "ALL"]["total"]) == [900] * 5
    assert list(frame[frame["level"] == "L0"]["total"]) == [300] * 5
    assert frame["scored"].isna().all()


def test_what_goes_with_which_runs():
    assert table_numbers(["per_policy"]) == [3]
    assert table_numbers(["per_rule"]) == [4]
    assert table_numbers(["per_policy"], harness=True) == [3, 5]
    assert table_numbers([]) == []
    assert result_rows([]) == []


def test_changes_by_effort_as_printed():
    changes = {(f["level"], f["rmr_change"], f["rdr_change"]) for f in facts()["effort"]}
    assert changes == {("L1", 5.5, -3.9), ("L2", 14.5, -15.7)}
