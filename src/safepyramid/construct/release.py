"""From a run to a release: a folder that can be published as it is, byte for byte repeatable."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date as day
from pathlib import Path
from typing import Any

from safepyramid.construct.assemble import assemble, numbered_rules
from safepyramid.construct.card import SPDX, CardData, card
from safepyramid.construct.checksums import sha256_of, write_sums
from safepyramid.construct.costs import bills
from safepyramid.construct.croissant import croissant
from safepyramid.construct.duplicates import near_duplicates
from safepyramid.construct.errata import FILE as ERRATA
from safepyramid.construct.errata import as_version, errata
from safepyramid.construct.runs import Loaded, load
from safepyramid.construct.settle import evidence
from safepyramid.construct.source import SourceConversation
from safepyramid.construct.work import Outcome
from safepyramid.conversation import render_conversation
from safepyramid.dataset.check import check_cases
from safepyramid.dataset.load import write_benchmark, write_parquet
from safepyramid.errors import DataError
from safepyramid.schema import Case, Level
from safepyramid.statistics import statistics

VERSION = "VERSION"
DESCRIPTION = (
    "Multi-turn conversations, each with a policy of natural-language rules at three levels; the "
    "task is to name exactly the rules that the conversation violates."
)


@dataclass(frozen=True, slots=True)
class Released:
    """What a release holds, and what it leaves out."""

    cases: int
    conversations: int
    unfinished: int
    """Conversations of the run that are not complete."""
    left_out: Mapping[str, str]
    """Complete conversations that are not in it -> why."""
    notes: Sequence[str]
    """What of the decisions by people does nothing, in a line each."""


def release(
    folder: Path,
    output: Path,
    *,
    version: str,
    name: str,
    license: str | None = None,
    date: str | None = None,
    previous: Path | None = None,
) -> Released:
    """Write a release of what is complete in a run.

    A conversation is left out, with all its levels, if it repeats another or a person has removed
    a case of it.

    Args:
        folder: The run folder; it is only read.
        output: The release's folder; must be new or empty.
        version: Of the release: numbers with dots.
        name: Of the dataset, in one line.
        license: Its licence: an id of SPDX, or an address.
        date: When it is published, as `2026-11-30`. It is not taken from the clock, so that the
            same run gives the same bytes.
        previous: The folder of the release before, for the errata.

    Raises:
        SafepyramidError: Nothing is complete, the output is in use, or one of these is not of
            its form.
    """
    _require_forms(version, name, license, date)
    if output.exists() and any(output.iterdir()):
        raise DataError(f"{output} is not empty; a release needs a folder of its own")
    cases: dict[str, list[Case]] = {}

    def keep(outcome: Outcome) -> Outcome:
        if outcome.standing == "complete":
            cases[outcome.made.id] = cases_of(outcome)
        return _lightened(outcome)  # all votes together are large

    loaded = load(folder, keep=keep)
    finished = {o.made.id: o for o in loaded.outcomes if o.standing == "complete"}
    cases = {id: cases[id] for id in sorted(cases)}
    left_out = _left_out(loaded, finished, cases)
    kept = [case for id, found in cases.items() if id not in left_out for case in found]
    if not kept:
        raise DataError(f"{folder} has nothing to release; see `safepyramid build status {folder}`")
    if problems := check_cases(kept):
        shown = "; ".join(f"{p.case_id}: {p.field} {p.message}" for p in problems[:5])
        raise DataError(f"{folder}: {len(problems)} problems in what was made: {shown}")
    changed = errata(version, kept, previous)
    sources = [_source(finished[id]) for id in cases if id not in left_out]
    text = card(
        CardData(
            name=name,
            version=version,
            license=license,
            run=loaded.run,
            outcomes=loaded.outcomes,
            sources=sources,
            left_out=left_out,
            reviewed=sum(loaded.decisions.reviewed(case) > 0 for case in kept),
            statistics=statistics(kept),
            bills=bills(loaded.journal.all()),
        )
    )
    try:
        output.mkdir(parents=True, exist_ok=True)
        _write_cases(output, loaded, kept, version, name, license)
        _write(output / ERRATA, _pretty(changed))
        _write(output / VERSION, f"{version}\n")
        _write(output / "README.md", text)
        _write_description(output, version, name, license, date)
        write_sums(output)
    except OSError as error:
        raise DataError(
            f"cannot write to {output}: {error.strerror}; give another folder"
        ) from None
    return Released(
        len(kept),
        len(sources),
        len(loaded.outcomes) - len(finished),
        dict(sorted(left_out.items())),
        loaded.decisions.notes(),
    )


def _require_forms(version: str, name: str, license: str | None, date: str | None) -> None:
    as_version(version)
    for what, text in (("name", name), ("license", license)):
        if text is not None and (not text.strip() or not text.isprintable()):
            raise DataError(f"{what} is {text!r}, must be one line of text")
    if license is not None and not (SPDX.fullmatch(license) or license.startswith("https://")):
        raise DataError(
            f"license is {license!r}, must be an id such as CC-BY-4.0 or an address with https://"
        )
    if date is not None and not _is_date(date):
        raise DataError(f"date is {date!r}, must be a day such as 2026-11-30")


def _is_date(text: str) -> bool:
    try:
        return day.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def cases_of(outcome: Outcome) -> list[Case]:
    """The cases of a complete conversation, with every vote as evidence."""
    source = _source(outcome)
    cases = []
    for level in Level:
        rules = source.rules(level)
        number_of = numbered_rules(rules, f"{source.id}-{level.lower()}").number_of
        votes = {
            **(outcome.votes[Level.L0] if level is Level.L1 else {}),
            **outcome.votes[level],
        }

        def named(key: str, number_of: Mapping[str, int] = number_of) -> str:
            return f"Rule {number_of[key]}" if key in number_of else "a rule that was dropped"

        cases.append(
            assemble(
                source,
                level,
                {rule.key: evidence(rule, votes[rule.key], named) for rule in rules},
            )
        )
    return cases


def _lightened(outcome: Outcome) -> Outcome:
    """An outcome whose votes are answers alone: what the card counts."""
    rated = tuple(
        replace(
            rule,
            votes=tuple(
                replace(
                    vote,
                    answers={
                        id: replace(given, quote={}, reason="")
                        for id, given in vote.answers.items()
                    },
                )
                for vote in rule.votes
            ),
        )
        for rule in outcome.rated
    )
    return replace(outcome, votes={}, rated=rated)


def _source(outcome: Outcome) -> SourceConversation:
    assert outcome.source is not None
    return outcome.source


def _left_out(
    loaded: Loaded, finished: Mapping[str, Outcome], cases: Mapping[str, Sequence[Case]]
) -> dict[str, str]:
    """Conversations that are removed in review, and those that repeat one that stays."""
    reasons: dict[str, str] = {}
    for id, found in cases.items():
        removed = [
            f"{case.id} removed in review ({why})"
            for case in found
            if (why := loaded.decisions.removal(case))
        ]
        if removed:
            reasons[id] = "; ".join(removed)
    texts = {
        id: render_conversation(_source(outcome).turns)
        for id, outcome in finished.items()
        if id not in reasons
    }
    twins = near_duplicates(texts, loaded.run.settings.near_duplicate)
    return {**reasons, **{id: f"nearly the same as {twin}" for id, twin in twins.items()}}


def _write_cases(
    output: Path,
    loaded: Loaded,
    cases: Sequence[Case],
    version: str,
    name: str,
    license: str | None,
) -> None:
    models = loaded.run.settings.models
    metadata: dict[str, Any] = {
        "name": name,
        "version": version,
        "license": license,
        "cases": len(cases),
        "conversations": len({case.conversation_id for case in cases}),
        "models": {
            "conversation": models.conversation.model,
            **{level.value: models.author(level).model for level in Level},
            "validators": [role.model for role in models.validators],
        },
    }
    write_benchmark(output / "benchmark.json", metadata, cases)
    write_benchmark(output / "benchmark_with_evidence.json", metadata, cases, evidence=True)
    write_parquet(output / "benchmark.parquet", cases)


def _write_description(
    output: Path, version: str, name: str, license: str | None, date: str | None
) -> None:
    files = {
        path.name: (sha256_of(path), path.stat().st_size)
        for path in sorted(output.glob("benchmark*"))
    }
    described = croissant(name, DESCRIPTION, version, license, date, files)
    _write(output / "croissant.json", _pretty(described))


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")


def _pretty(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"
