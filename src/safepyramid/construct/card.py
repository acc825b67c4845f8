"""The data card of a release: README.md, made from the release's own numbers."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any

import yaml

from safepyramid import __version__
from safepyramid.construct.costs import Bill, dollars
from safepyramid.construct.draws import Assignment
from safepyramid.construct.measures import (
    ALL,
    agreement_table,
    check_table,
    drop_reasons,
    drop_table,
    modifier_kinds,
    setbacks,
    voters,
)
from safepyramid.construct.runs import Run
from safepyramid.construct.source import SourceConversation
from safepyramid.construct.work import Outcome
from safepyramid.schema import Level, RuleType

CONTENT_WARNING = (
    "The conversations show users who ask for what a chatbot should not give, and chatbots that "
    "sometimes give it, in sensitive domains. They are meant for research on safety and its "
    "evaluation. All persons, firms, places and laws in them, and the frameworks of level 2, are "
    "meant to be fictional; they were written by language models and may carry their biases."
)
SPDX = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]*")
"""The form of a license's id."""


@dataclass(frozen=True, slots=True)
class CardData:
    """What a card is made from."""

    name: str
    version: str
    license: str | None
    run: Run
    outcomes: Sequence[Outcome]
    """Of every conversation of the run, released or not."""
    sources: Sequence[SourceConversation]
    """The released ones."""
    left_out: Mapping[str, str]
    """Finished conversations that are not released -> why."""
    reviewed: int
    """Released cases that at least one person has decided about."""
    statistics: Mapping[str, Any]
    bills: Mapping[tuple[str, str], Bill]


def card(data: CardData) -> str:
    """The card as Markdown."""
    parts = [
        front_matter(data.name, data.license),
        _head(data),
        _statistics(data),
        _construction(data),
        _validation(data),
    ]
    return "\n\n".join([*parts, _drops(data), _costs(data), _provenance(data)]) + "\n"


def front_matter(name: str, license: str | None) -> str:
    """What the Hub reads of a card: YAML between two lines of dashes."""
    front = {
        "pretty_name": name,
        **_license(license),
        "task_categories": ["text-classification"],
        "tags": ["safety", "guardrails", "policy"],
        "configs": [{"config_name": "default", "data_files": "benchmark.parquet"}],
    }
    text = yaml.safe_dump(front, sort_keys=False, allow_unicode=True, width=10_000)
    return f"---\n{text}---"


def _license(license: str | None) -> dict[str, str]:
    """As the Hub writes them: ids in lower case, anything else as a link."""
    if license is None:
        return {}
    if SPDX.fullmatch(license):
        return {"license": license.lower()}
    return {"license": "other", "license_link": license}


def _head(data: CardData) -> str:
    stats = data.statistics
    return f"""# {data.name}

Version {data.version} · license: {data.license or "not stated"}

A benchmark for guardrails that must follow a policy given in context: a model gets a conversation and a policy, and names exactly the rules that the conversation violates. {stats["conversations"]:,} conversations, each with a policy at three levels (single rules; rules that waive and tighten each other; all of it in the terms of an invented framework), {stats["levels"][ALL]["cases"]:,} cases in all. The form is that of SafePyramid (arXiv:2606.29887).

{CONTENT_WARNING}

## Files

| file | what |
|---|---|
| `benchmark.json` | all cases, without evidence: what a run loads |
| `benchmark_with_evidence.json` | the same cases, with every vote of every validator on every rule |
| `benchmark.parquet` | a flat table for data viewers; `rubric` and `failure_mode_metadata` are JSON text |
| `croissant.json` | a description for machines |
| `errata.json` | what has changed since earlier versions, case by case |
| `SHA256SUMS` | checksums: `sha256sum -c SHA256SUMS` |

```sh
safepyramid validate benchmark.json
safepyramid eval --model provider/name --dataset benchmark.json
```"""


def _statistics(data: CardData) -> str:
    levels = data.statistics["levels"]
    rows = []
    for name, row in levels.items():
        kinds = [f"{row['types'][kind.value]:,}" for kind in RuleType]
        rows.append(
            [
                name,
                f"{row['cases']:,}",
                *kinds,
                f"{row['rules_distinct']:,}",
                f"{row['rules_full']:,}",
                *(
                    _number(row[key][which])
                    for key in ("rules_per_policy", "violated_per_policy", "input_tokens")
                    for which in ("mean", "max")
                ),
            ]
        )
    head = ["level", "cases", *(kind.value for kind in RuleType), "distinct", "full"]
    head += ["rules, mean", "max", "violated, mean", "max", "tokens, mean", "max"]
    baselines = [
        [name, level, *(_percent(cell[key]) for key in ("rmr", "rmr_at_1", "rdr", "rule_accuracy"))]
        for name, cells in data.statistics["baselines"].items()
        for level, cell in cells.items()
    ]
    domains = [[name, f"{count:,}"] for name, count in data.statistics["domains"].items()]
    kinds_head = ["level", "type", "triggered, met", "triggered, not met", "not triggered"]
    kinds_rows = [
        [level, kind, *(str(counts[name]) for name in kinds_head[2:])]
        for (level, kind), counts in modifier_kinds(data.sources).items()
    ]
    return f"""## Statistics

L1 inherits L0's rules: distinct counts leave them out, full counts hold them. Tokens are estimates of policy and conversation together. A conversation has {_number(levels[ALL]["turns_mean"])} exchanges on average; {_percent(levels[ALL]["positive_share"])} of all rules are violated.

{_table(head, rows)}

{_table(["domain", "cases"], domains)}

How exceptions and conditionals stand in their conversations:

{_table(kinds_head, kinds_rows)}

What a guard scores that does not read (per cent):

{_table(["prediction", "level", "RMR", "RMR@1.0", "RDR", "rules right"], baselines)}"""


def _construction(data: CardData) -> str:
    models = data.run.settings.models
    rows = [
        ["conversations", models.conversation.model, ""],
        *(
            [
                f"{level} policies",
                models.author(level).model,
                ", ".join(role.model for role in models.checkers(level)),
            ]
            for level in Level
        ),
    ]
    scenarios = len({made.scenario.id for made in _released(data)})
    return f"""## How it was made

{scenarios:,} scenarios were turned into conversations, with persona, tone, aim, pressure and knowledge drawn at random. One model a level wrote the policies, in a fixed form for each rule type. The other models checked every rule by a checklist of yes/no questions, without being told its type or what its author thought, each answer with a quote and a reason. A check passes, and a label stands, by majority. Rules that failed were mended once and checked again, then dropped.

{_table(["what", "written by", "checked by"], rows)}"""


def _released(data: CardData) -> Iterable[Assignment]:
    ids = {source.id for source in data.sources}
    return (outcome.made for outcome in data.outcomes if outcome.made.id in ids)


def _validation(data: CardData) -> str:
    names = sorted(role.model for role in data.run.settings.models.validators)
    agreements = [
        [
            which,
            level,
            str(found.compared),
            _percent(found.prevalence),
            _percent(found.raw),
            *(_number(value, 3) for value in (found.alpha, found.ac1)),
        ]
        for which, cells in agreement_table(data.outcomes, names).items()
        for level, found in cells.items()
    ]
    each = [
        [name, str(m.votes), _share(m.unreadable, m.votes), _share(m.with_majority, m.labels)]
        for name, m in voters(data.outcomes, names).items()
    ]
    checks = [
        [kind.value, question, str(counted), _share(expected, counted)]
        for (kind, question), (counted, expected) in check_table(
            data.outcomes, data.run.materials.checklists
        ).items()
    ]
    cases = data.statistics["levels"][ALL]["cases"]
    return f"""## Validation

Agreement between validators on raw labels (is it broken by its own text; do its conditions hold; is its standard met), over all rules that were voted on and over those that were kept. With one class rare, read alpha beside raw agreement and AC1.

{_table(["rules", "level", "labels compared", "said yes", "raw agreement", "alpha", "AC1"], agreements)}

{_table(["validator", "votes", "unreadable", "with the majority"], each)}

Answers as expected, of all that were given:

{_table(["rule type", "question", "answers", "as expected"], checks)}

People have reviewed {data.reviewed:,} of the {cases:,} cases."""


def _drops(data: CardData) -> str:
    stages = ("draft", "check", "repair", "base", "review")
    rows = [
        [level, str(counts["drafted"]), *(_share(counts[s], counts["drafted"]) for s in stages)]
        for level, counts in drop_table(data.outcomes).items()
    ]
    reasons = [[*about, str(count)] for about, count in sorted(drop_reasons(data.outcomes).items())]
    aside = [
        [step, why, str(count)] for (step, why), count in sorted(setbacks(data.outcomes).items())
    ]
    lost = [
        [outcome.made.id, outcome.standing, outcome.step, _cell(outcome.reason)]
        for outcome in data.outcomes
        if outcome.standing != "complete"
    ] + [[id, "left out", "release", _cell(why)] for id, why in sorted(data.left_out.items())]
    return f"""## What was dropped

Rules that were written, all attempts together, and the share of them that was dropped: unusable or surplus as written (draft), failed a check and not mended (check), failed again (repair), acted on a rule that was dropped (base), by a person or without a majority (review).

{_table(["level", "written", *stages], rows)}

Why: the checks that they failed, each counted, or what else was wrong with them.

{_table(["rule type", "stage", "reason", "dropped rules"], reasons)}

Attempts that were set aside:

{_table(["step", "reason", "attempts"], aside)}

Conversations that are not in this release:

{_table(["conversation", "state", "step", "reason"], lost)}"""


def _costs(data: CardData) -> str:
    rows = [
        [
            stage,
            model,
            f"{bill.calls:,}",
            f"{bill.corrections:,}",
            f"{bill.input_tokens:,}",
            f"{bill.output_tokens:,}",
            dollars(bill.price, bill.unpriced),
        ]
        for (stage, model), bill in data.bills.items()
    ]
    everything = data.bills.values()
    total = dollars(
        fsum(bill.price or 0.0 for bill in everything), sum(bill.unpriced for bill in everything)
    )
    unmeasured = sum(bill.unmeasured for bill in everything)
    tokens = f" Tokens of {unmeasured:,} calls are not known and not in the sums." * bool(
        unmeasured
    )
    head = ["stage", "model", "calls", "corrections", "input tokens", "output tokens", "US dollars"]
    return f"""## Models and cost

At list prices: {total}.{tokens}

{_table(head, rows)}"""


def _provenance(data: CardData) -> str:
    manifest = data.run.manifest
    rows = [
        ["safepyramid", __version__],
        ["seed", str(data.run.settings.seed)],
        *([f"template {name}", digest] for name, digest in manifest["prompts"].items()),
        *([name, str(manifest[name])] for name in ("checklists", "variation", "scenarios")),
    ]
    return f"""## Provenance

Hashes of what it was made from:

{_table(["what", "value"], rows)}"""


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return "None."
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(text: str) -> str:
    flat = " ".join(text.split()).replace("|", "\\|")
    return flat if len(flat) <= 200 else f"{flat[:199]}…"


def _number(value: float | int | None, digits: int = 1) -> str:
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.{digits}f}"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


def _share(part: int, whole: int) -> str:
    return f"{part:,} ({_percent(part / whole)})" if whole else f"{part:,}"
