"""Authors and validators that follow a script, behind the model seam.

A scripted rule says of itself how it is to be judged: its text ends in `‹broken engaged …›`, the
ids of the questions to which an honest validator answers yes. So what a pipeline must keep, drop
and count can be worked out by hand.
"""

import hashlib
import json
import re
from collections.abc import Callable, Sequence

import anyio
from inspect_ai.model import ModelAPI, ModelOutput, ModelUsage, modelapi

Script = Callable[[str], "str | ModelOutput | Exception"]
"""From all that is told to a reply."""

SCRIPTS: dict[str, Script] = {}
"""Name after `scripted/` -> script."""
CALLS: list[tuple[str, str]] = []
"""Model and what it was told, in order."""
LATENCY = 0.0
"""Seconds before an answer."""
POOLED = False
"""Whether all scripted models share one pool of connections."""

INPUT_TOKENS, OUTPUT_TOKENS = 1000, 100

BASE_YES = "observable"
MODIFIER_YES = "observable several_conditions names_its_rules own_standard stricter"


@modelapi(name="scripted")
def scripted() -> type[ModelAPI]:
    return Scripted


class Scripted(ModelAPI):
    def connection_key(self) -> str:
        return "all" if POOLED else self.model_name

    async def generate(self, input, tools, tool_choice, config):
        told = "\n\n".join(message.text for message in input)
        CALLS.append((self.model_name, told))
        if LATENCY:
            await anyio.sleep(LATENCY)
        reply = SCRIPTS[self.model_name](told)
        if isinstance(reply, Exception):
            raise reply
        return as_output(reply)


def as_output(reply: str | ModelOutput) -> ModelOutput:
    output = ModelOutput.from_content("scripted", reply) if isinstance(reply, str) else reply
    output.usage = ModelUsage(
        input_tokens=INPUT_TOKENS,
        output_tokens=OUTPUT_TOKENS,
        total_tokens=INPUT_TOKENS + OUTPUT_TOKENS,
    )
    return output


NAMES = ("anna", "ben", "cleo", "dora")
"""The models of `small`: who write conversations, L0, L1 and L2."""


def small(**more: object) -> dict[str, object]:
    """Settings of a small run: one conversation; 3 + 2 rules, 2 modifiers, 3 + 2 + 2 rules."""
    roles = dict(zip(("conversation", "l0", "l1", "l2"), NAMES, strict=True))
    return {
        "conversations": 1,
        "domains": ["fraud"],
        "models": {
            **{role: f"scripted/{name}" for role, name in roles.items()},
            "validators": [f"scripted/{name}" for name in NAMES],
        },
        "levels": {
            "L0": {"decisive": [3, 3], "distractor": [2, 2], "rules": [4, 5], "violated": [1, 3]},
            "L1": {"exception": [1, 1], "conditional": [1, 1], "rules": [5, 7], "violated": [1, 4]},
            "L2": {
                "decisive": [3, 3],
                "distractor": [2, 2],
                "exception": [1, 1],
                "conditional": [1, 1],
                "rules": [5, 7],
                "violated": [1, 4],
            },
        },
        **more,
    }


# --- Authors -------------------------------------------------------------------------------------


def stage_of(told: str) -> str:
    """Which template a prompt was made from."""
    for stage, opening in {
        "conversation": "You write a conversation",
        "l0": "You write the base rules",
        "l1": "You add exceptions",
        "framework": "You invent a regulatory framework",
        "l2": "You rewrite a chatbot's policy",
        "repair": "You mend rules",
        "vote": "You check rules",
    }.items():
        if told.startswith(opening):
            return stage
    raise AssertionError(f"no template begins {told[:60]!r}")


def conversation(told: str, **more: object) -> str:
    """A conversation whose words depend on the prompt; its messages are `u1 …`, `c1 …`."""
    count = int(re.search(r"Exactly (\d+) exchanges", told)[1])
    tag = hashlib.sha256(told.encode()).hexdigest()[:8]
    exchanges = [
        {
            "user": f"{tag} asks in {n}, {tag}: so, {tag}?",
            "chatbot": f"{tag} replies in {n}, {tag}: yes.",
        }
        for n in range(1, count + 1)
    ]
    return json.dumps({"title": f"Talk {tag}", "exchanges": exchanges, **more})


def tag_of(told: str) -> str:
    return re.search(r"Turn 1 - User: (\w+)", told)[1]


def quote(told: str, turn: int = 2) -> dict[str, object]:
    return {"turn": turn, "role": "chatbot", "text": f"{tag_of(told)} replies in {turn}"}


def base(told: str, key: str, yes: str, broken: bool = False, **more: object) -> dict[str, object]:
    marks = f"{BASE_YES} {yes}{' broken' if broken else ''}"
    return {
        "key": key,
        "text": f"The chatbot must not do what {key} is about. ‹{marks}›",
        "broken": broken,
        "quotes": [quote(told)],
        "reason": f"Because of {key}.",
        **more,
    }


def modifier(
    told: str, key: str, on: str, triggered: bool, met: bool | None, yes: str = "", **more: object
) -> dict[str, object]:
    marks = f"{MODIFIER_YES} {yes}{' triggered' if triggered else ''}{' met' if met else ''}"
    return {
        "key": key,
        "modifies": [on],
        "text": f"If (a) one and (b) two, [[{on}]] is waived. Instead, the chatbot must bow. ‹{marks}›",
        "triggered": triggered,
        "met": met,
        "quotes": [quote(told)],
        "reason": f"Because of {key}.",
        **more,
    }


def asked(told: str, what: str) -> int:
    """How many rules of a type a prompt asks for."""
    return int(re.search(rf"(\d+) {what}", told)[1])


def bases(told: str) -> dict[str, list[dict[str, object]]]:
    """Decisive rules, every second one broken, and distractors."""
    return {
        "decisive": [
            base(told, f"d{n}", "engaged", broken=n % 2 == 1)
            for n in range(1, asked(told, "decisive") + 1)
        ],
        "distractor": [base(told, f"x{n}", "") for n in range(1, asked(told, "distractors") + 1)],
    }


def modifiers(told: str, on: Sequence[str]) -> dict[str, list[dict[str, object]]]:
    """In turn: triggered and not met, not triggered, triggered and met."""
    kinds = [(True, True), (True, False), (False, None)]
    return {
        kind: [
            modifier(told, f"{kind[0]}{n}", on[n % len(on)], *kinds[n % 3])
            for n in range(1, asked(told, f"{kind}s") + 1)
        ]
        for kind in ("exception", "conditional")
    }


def framework(told: str) -> str:
    terms = [
        {"term": f"term{n}", "definition": f"What {n} is in {tag_of(told)}."} for n in range(4)
    ]
    return json.dumps(
        {"name": "The Code", "purpose": "For order.", "terms": terms, "precedence": "term0 first."}
    )


def mended(told: str) -> str:
    """Each failed rule, with the marks of a rule of its type that passes."""
    reply: dict[str, list[object]] = {
        k: [] for k in ("decisive", "distractor", "exception", "conditional")
    }
    failed = told.split("The rules to mend")[1].split("Rewrite each of these")[0]
    for line in failed.split("\n"):
        if not line.startswith("{"):
            continue
        rule = json.loads(line)
        if rule["type"] in ("decisive", "distractor"):
            engaged = "engaged" if rule["type"] == "decisive" else ""
            fixed = base(told, rule["key"], engaged, broken=bool(rule["broken"]) and bool(engaged))
        else:
            fixed = modifier(told, rule["key"], rule["modifies"][0], False, None)
        fixed["text"] = fixed["text"].replace("do what", "mended do what").replace("bow", "mend")
        reply[rule["type"]].append(fixed)
    return json.dumps(reply)


def author(told: str) -> str:
    """An author of every stage that does all it is asked."""
    stage = stage_of(told)
    if stage == "conversation":
        return conversation(told)
    if stage == "framework":
        return framework(told)
    if stage == "repair":
        return mended(told)
    if stage == "vote":
        return votes(told)
    rules = bases(told) if stage in ("l0", "l2") else {}
    if stage == "l1":
        rules = modifiers(told, re.findall(r'"key": "(d\d+)", "type": "decisive"', told))
    elif stage == "l2":
        rules |= modifiers(told, [str(rule["key"]) for rule in rules["decisive"]])
    return json.dumps(rules)


# --- Validators ----------------------------------------------------------------------------------


def targets(told: str) -> dict[int, tuple[list[str], set[str]]]:
    """Rule number -> the ids that are asked, and those that its text marks as yes."""
    part = told.split("Check these rules, and no others:")[1].split("Answer every question")[0]
    found: dict[int, tuple[list[str], set[str]]] = {}
    for block in part.strip().split("\n\n"):
        ids = re.findall(r"^- (\w+):", block, re.MULTILINE)
        for number, marks in re.findall(r"^Rule (\d+):.*‹(.*)›$", block, re.MULTILINE):
            found[int(number)] = (ids, set(marks.split()))
    return found


def ballot(told: str, **answers: str) -> dict[str, object]:
    """An honest ballot; `answers` overrides single questions, for every rule."""
    words = quote(told)

    def says(id: str, yes: set[str]) -> str:
        if id == "met" and "triggered" not in yes:
            return "does_not_apply"
        return answers.get(id, "yes" if id in yes else "no")

    def answer(number: int, id: str, yes: set[str]) -> dict[str, object]:
        reason = f"{id} of Rule {number}"
        return {"question": id, "answer": says(id, yes), "quote": dict(words), "reason": reason}

    return {
        "rules": [
            {"rule": number, "answers": [answer(number, id, yes) for id in ids]}
            for number, (ids, yes) in targets(told).items()
        ]
    }


def votes(told: str, **answers: str) -> str:
    return json.dumps(ballot(told, **answers))
