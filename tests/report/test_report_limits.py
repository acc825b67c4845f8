"""What stands beside the numbers follows from the run."""

from pathlib import Path
from typing import Any

import pytest
from made_up import result_file, sample

from safepyramid.analysis.collect import load_runs
from safepyramid.analysis.tables import results
from safepyramid.report.limits import report_limits, run_limits
from safepyramid.report.run_sections import rows_of


def limits(tmp_path: Path, *, repeats: int = 1, count: int = 36, **made: Any) -> str:
    cases = sample()[:count]
    path = result_file(tmp_path / "run.jsonl", cases, **{"model": "lab/m", "seed": 1, **made})
    runs = load_runs([path], "sample")
    frame = results(runs, published=False, draws=200)
    pooled = next(row for row in rows_of(frame) if row["level"] == "ALL")
    return "\n".join(run_limits(runs[0], pooled, repeats))


def test_what_holds_for_a_run_that_answers_everything(tmp_path: Path) -> None:
    text = limits(tmp_path, failing=0)
    assert "36 cases of 12 conversations" in text
    assert "were not answered" not in text
    assert "this is one run of it" in text
    assert "not on its 3,000" in text
    assert "lab/m" in text
    assert "calling nothing violated is right on" in text


def test_unanswered_cases_are_named_with_what_they_hide(tmp_path: Path) -> None:
    text = limits(tmp_path, failing=0.5, skill=0.99)
    assert " of 36 were not answered (" in text
    assert "Counted as misses" in text


def test_one_case_is_one(tmp_path: Path) -> None:
    assert "stands on 1 case with" in limits(tmp_path, failing=0, count=1)


def test_nothing_answered_has_no_interval(tmp_path: Path) -> None:
    text = limits(tmp_path, failing=1.0)
    assert "not one of its 36 cases was answered (" in text
    assert "RMR –" not in text
    assert "could as well have been" not in text


@pytest.mark.parametrize(("repeats", "said"), [(1, True), (2, False)])
def test_repetitions_lift_the_limit_of_a_single_run(
    tmp_path: Path, repeats: int, said: bool
) -> None:
    assert ("this is one run of it" in limits(tmp_path, repeats=repeats)) is said


def test_protocols_and_published_rows(tmp_path: Path) -> None:
    assert "hands over with each rule" in limits(tmp_path, protocol="per_rule")
    cases = sample()
    paths = [
        result_file(tmp_path / f"{p}.jsonl", cases, model="lab/m", seed=1, protocol=p)
        for p in ("per_policy", "per_rule")
    ]
    runs = load_runs(paths, "sample")
    assert any("per-rule is better or worse" in limit for limit in report_limits(runs))
    assert not any("per-rule is better or worse" in limit for limit in report_limits(runs[:1]))
    assert any("published row" in limit for limit in report_limits(runs))
