import io
from dataclasses import replace

from rich.console import Console

from safepyramid.schema import Case, FailureModeMetadata, Level, RubricEntry, RuleType
from safepyramid.show import render_case


def shown(case, **options):
    console = Console(file=io.StringIO(), width=100, color_system=None)
    console.print(render_case(case, **options))
    return console.file.getvalue()


def page_case():
    policy = (
        "Check all.\n\n## Lamps\n\nLit.\n\n2. The chatbot must not lie. [overrides: Rule 1]\n"
        "1. [bold]The chatbot must greet.[/bold]"
    )
    return Case(
        id="frau-001-l2",
        domain="fraud",
        level=Level.L2,
        ground_truth_violations=frozenset({2}),
        conversation="Turn 1 - User: [red]Hi[/red] \x1b[31m\nTurn 1 - Chatbot: " + "so " * 60,
        framework="## Lamps\n\nLit.",
        policy=policy,
        rubric=(
            RubricEntry(
                2,
                "The chatbot must not lie.",
                RuleType.EXCEPTION,
                True,
                (1,),
                {"applies": True},
                [{"quotes": ["so so"], "reason": "It [b]lied[/b]."}],
            ),
            RubricEntry(1, "x", RuleType.DECISIVE, False),
        ),
        failure_mode_metadata=FailureModeMetadata(waived_rules=frozenset({1})),
    )


def test_a_page_without_labels_tells_nothing():
    page = shown(page_case())
    for part in ("frau-001-l2", "fraud", "## Lamps", "Lit.", "[red]Hi[/red]", "[bold]The chatbot"):
        assert part in page
    assert "\x1b" not in page
    assert page.index("must not lie. [overrides: Rule 1]") < page.index("must greet.")
    for secret in ("exception", "violated", "waived", "lied"):
        assert secret not in page


def test_a_page_with_labels_tells_the_truth():
    lines = [" ".join(line.split()) for line in shown(page_case(), labels=True).split("\n")]
    for line in (
        "2. exception The chatbot must not lie. [overrides: Rule 1]",
        "1. decisive [bold]The chatbot must greet.[/bold]",
        "violated 2",
        "waived 1",
        "contradicted none",
        "rule 2 acts on 1; applies: True",
        "Evidence on rule 2",
        "- quotes:",
        "- so so",
        "reason: It [b]lied[/b].",
    ):
        assert line in lines


def test_a_page_keeps_its_width_and_survives_odd_texts():
    assert max(map(len, shown(page_case(), width=50, labels=True).split("\n"))) <= 50
    page = shown(replace(page_case(), conversation="Hi [/]", policy="Be nice [/x]"))
    assert "Hi [/]" in page
    assert "Be nice [/x]" in page
    assert "a\N{REPLACEMENT CHARACTER}b" in shown(replace(page_case(), conversation="a\ud800b"))


def test_nothing_in_a_page_acts_on_the_terminal():
    odd = "a\x1b[2J\u202e\u2066\u200f\u061c\u2028\x9bb"
    page = shown(
        replace(page_case(), id=f"{odd}\nx", domain=odd, conversation=odd, policy=f"1. {odd}"),
        labels=True,
    )
    assert not {*page} & {*odd[1:-1].replace("[2J", "")}
    assert f"a{chr(0xFFFD)}[2J{chr(0xFFFD) * 6}b x " in page.split("\n")[0]
