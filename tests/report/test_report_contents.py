"""What a report is on: names of pages, codes of outcomes, versions of cases."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up import KEY, benchmark_file, result_file, sample

from safepyramid.analysis.collect import load_runs
from safepyramid.analysis.runs import Runs
from safepyramid.metrics.failures import FAILURE_MODES, failure_modes, wrong_rules
from safepyramid.report.contents import (
    ERROR_TYPES,
    MOST_UNKNOWN,
    gather,
    index_data,
    make_slug,
    outcome,
    run_data,
    shown_rules,
)
from safepyramid.report.pairs import make_pairs
from safepyramid.schema import Prediction, State
from safepyramid.secrets import make_scrub


@given(st.lists(st.text(max_size=200), max_size=20))
def test_slugs_are_unique_file_names(texts: list[str]) -> None:
    taken: set[str] = set()
    slugs = [make_slug(text, taken) for text in texts]
    assert len({slug.lower() for slug in slugs}) == len(texts)
    for slug in slugs:
        assert slug.isascii()
        assert 0 < len(slug) < 100
        assert not set(slug) - set("abcdefghijklmnopqrstuvwxyz0123456789.-~")
        assert slug[0] not in ".-"


def test_a_slug_says_what_it_is_for() -> None:
    assert make_slug("openai/GPT-5.5 · xhigh", set()) == "openai-gpt-5.5-xhigh"
    assert make_slug("../../etc/passwd", set()) == "etc-passwd"
    assert make_slug("模型", set()) == "x"


@given(st.data())
def test_an_outcome_holds_the_errors_and_modes(data: st.DataObject) -> None:
    case = data.draw(st.sampled_from(sample()))
    said = data.draw(st.frozensets(st.sampled_from([*case.rule_types, 99])))
    mask, *errors = outcome(case, Prediction(case.id, State.ANSWERED, said)).split(" ")
    modes = [mode for i, mode in enumerate(FAILURE_MODES) if int(mask, 16) & (1 << i)]
    assert modes == failure_modes(case, said)
    codes = dict(zip("dtecu", ERROR_TYPES, strict=True))
    found = [(int(e[1:-1]), "fp" if e[0] == "+" else "fn", codes[e[-1]]) for e in errors]
    assert found == [tuple(wrong) for wrong in wrong_rules(case, said)]
    assert (mask == "0" and not errors) == (said == case.ground_truth_violations)


@pytest.mark.parametrize("unknown", [0, 1, MOST_UNKNOWN, MOST_UNKNOWN + 1, 1_000])
def test_only_numbers_that_the_policy_lacks_are_left_out(unknown: int) -> None:
    case = sample()[2]
    said = frozenset(case.rule_types) | frozenset(range(1_000, 1_000 + unknown))
    shown, more = shown_rules(case, said)
    assert shown == frozenset(case.rule_types) | set(range(1_000, 1_000 + unknown - more))
    assert more == max(0, unknown - MOST_UNKNOWN)
    assert outcome(case, Prediction(case.id, State.ANSWERED, said)).endswith(f" ~{more}") == (
        more > 0
    )


def test_a_case_without_an_answer_has_its_state() -> None:
    case = sample()[0]
    for state in State:
        if state is not State.ANSWERED:
            assert outcome(case, Prediction(case.id, state)) == state.value


def test_two_versions_of_a_case_have_a_page_each_and_are_not_compared(tmp_path: Path) -> None:
    cases = sample()[:6]
    other = [replace(cases[0], policy=f"{cases[0].policy}\n"), *cases[1:]]
    runs = [
        load_runs(
            [result_file(tmp_path / f"{i}.jsonl", version, model=f"lab/{i}", seed=i)],
            benchmark_file(tmp_path / f"{i}.json", version),
        )[0]
        for i, version in enumerate((cases, other))
    ]
    report = gather(Runs(tuple(runs)), str)
    assert [page.slug for page in report.pages][:2] == [cases[0].id, f"{cases[0].id}~2"]
    assert len(report.pages) == 7
    first, second = run_data(report, 0), run_data(report, 1)
    assert (first[0] is None, second[0] is None) == (False, True)
    assert (first[1] is None, second[1] is None) == (True, False)
    pairs = make_pairs(runs, seed=0, draws=100)
    assert "only the 5 of 6" in pairs["warnings"]["0|1"]
    pooled = next(
        r for r in pairs["rows"]["0|1"] if (r["metric"], r["level"]) == ("rmr_lower_bound", "ALL")
    )
    assert pooled["cases"] == 5


def test_names_settings_and_notes_are_scrubbed_and_stay_apart(tmp_path: Path) -> None:
    cases = sample()[:3]
    data = benchmark_file(tmp_path / "data.json", cases)
    paths = [
        result_file(
            tmp_path / f"{KEY}-{i}.jsonl",
            cases,
            model=f"lab/{KEY}{i}",
            seed=i,
            failing=1.0,
            config={"extra": {"api_key": KEY}, "temperature": i},
        )
        for i in range(2)
    ]
    loaded = load_runs(paths, data)
    noted = [
        replace(
            run,
            predictions={
                i: replace(p, note=f"failed with {KEY}") for i, p in run.predictions.items()
            },
        )
        for run in loaded
    ]
    report = gather(Runs(tuple(noted), (f"note {KEY}",)), make_scrub({}))
    assert len({each.name for each in report.runs}) == len({each.slug for each in report.runs}) == 2
    shown = str(
        [[r.name, r.slug, r.file, r.origin.settings, r.run.predictions] for r in report.runs]
    )
    assert KEY not in shown
    assert KEY not in str(index_data(report))
    assert KEY not in str(report.notes)
    assert '"temperature": 1' in report.runs[1].origin.settings


def test_pairs_hold_what_the_analysis_finds(tmp_path: Path) -> None:
    from safepyramid.analysis.compare import differences

    cases = sample()
    paths = [
        result_file(tmp_path / f"{i}.jsonl", cases, model=f"lab/{i}", seed=i, skill=0.8 + i / 10)
        for i in range(2)
    ]
    runs = load_runs(paths, "sample")
    found = make_pairs(runs, seed=0, draws=400)["rows"]["0|1"]
    expected = list(differences(runs[0], runs[1], cases, seed=0, draws=400))
    assert len(found) == len(expected) == 16
    for ours, theirs in zip(found, expected, strict=True):
        assert (ours["metric"], ours["level"]) == (theirs["metric"], theirs["level"])
        assert ours["cases"] == theirs["cases"]
        assert ours["dropped"] == theirs["dropped"]
        for name, other in (
            ("first", "first"),
            ("second", "second"),
            ("difference", "difference"),
            ("low", "difference_low"),
            ("high", "difference_high"),
            ("p", "p"),
        ):
            assert abs(ours[name] - theirs[other]) < 1e-5


@pytest.mark.parametrize(("afforded", "tested"), [(36, "all"), (3, "pooled"), (2, "none")])
def test_pairs_say_what_was_tested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, afforded: int, tested: str
) -> None:
    from safepyramid.report import pairs

    monkeypatch.setattr(pairs, "_AFFORDED", afforded)
    cases = sample()
    paths = [
        result_file(tmp_path / f"{i}.jsonl", cases, model=f"lab/{i}", seed=i, failing=0)
        for i in range(3)
    ]
    made = pairs.make_pairs(load_runs(paths, "sample"), seed=0, draws=50)
    assert made["tested"] == tested
    assert made["least"] == round(3 / 51, 5)
    found = [row for rows in made["rows"].values() for row in rows if row["p"] is not None]
    assert len(found) == {"all": 3 * 16, "pooled": 3, "none": 0}[tested]
    assert all(row["p_holm"] >= made["least"] - 1e-5 for row in found)
