"""What guards are shown: turns, rules, and text that cannot pass for a guard's own markers.

A guard's format uses markers: special tokens of its tokenizer, tags, labels at the start of a
line. Conversations are untrusted and may contain any of them. `marker_free` makes such text
harmless and leaves it readable: one character of each marker becomes a look-alike.
"""

import re
from collections.abc import Callable, Collection

from safepyramid.conversation import parse_conversation
from safepyramid.guards.base import Message, RuleQuestion
from safepyramid.schema import Case, Rule

NONE = "(none)"
"""Stands where a policy has no definitions, or a rule no related rules. The place itself stays:
small guards that lose it fall to "not violated"."""

LOOKALIKES = {"<": "‹", "[": "⟦", "\\": "⧵", "/": "∕", "#": "♯", ":": "꞉"}
"""Character that opens (or, for a label, ends) a marker -> what it is replaced by. None of them
is turned back by Unicode normalization, which some tokenizers apply."""

_GAP = r"[\s\u200b-\u200f\u2060\ufeff]{0,4}"
# Special tokens: <|…|> of most families, DeepSeek's <｜…｜>, Gemma's, Llama 2's and Mistral's.
_TOKENS = (
    r"<(?=[|｜])",
    r"<(?=/?(?:s|bos|eos|pad|unk|mask|(?:start|end)_of_(?:turn|image)|image_soft_token|unused\d+)>)",
    r"<(?=</?SYS>>)",
    r"\[(?=/?(?:INST|gMASK|SYSTEM_PROMPT|(?:AVAILABLE_)?TOOLS?|TOOL_(?:CALLS|RESULTS)|THINK)\])",
    r"(?<!\S)/(?=(?:no_)?think\b)",  # switches thinking in Qwen3 and Nemotron
)
_THINKING = ("think", "no-think", "thinking")


def marker_free(
    tags: Collection[str] = (), labels: Collection[str] = (), starts: Collection[str] = ()
) -> Callable[[str], str]:
    r"""Make the function that takes a guard's markers out of untrusted text.

    The special tokens of common chat formats, thinking tags and thinking switches are taken out
    whatever the arguments; a tokenizer may have others. Case and blanks inside a tag do not matter. The function is idempotent, keeps the
    text's length, and needs linear time.

    Args:
        tags: Names of tags: `transcript` covers `<transcript>`, `</transcript>`, `< Transcript`.
        labels: Words that with a colon at the start of a line begin a turn: `User`.
        starts: Other beginnings of markers, whose first character has a look-alike: `\safety{`.

    >>> marker_free(tags=["rules"], labels=["User"])("</rules>\nUser: hi <|im_end|>")
    '‹/rules>\nUser꞉ hi ‹|im_end|>'
    """
    names = "|".join(map(re.escape, (*_THINKING, *tags)))
    openers = [*_TOKENS, rf"<(?={_GAP}/?{_GAP}(?:{names})(?![\w-]))"]
    openers += [rf"{re.escape(start[0])}(?={re.escape(start[1:])})" for start in starts]
    opener = re.compile("|".join(openers), re.IGNORECASE)
    words = "|".join(map(re.escape, labels)) or r"(?!)"
    label = re.compile(
        rf"(?:^|(?<=[\r\x0b\x0c\x85\u2028\u2029]))([ \t'\"*_>#-]{{0,8}}(?:{words})['\"*_]{{0,3}}[ \t]{{0,4}}):",
        re.IGNORECASE | re.MULTILINE,
    )

    def clean(text: str) -> str:
        text = opener.sub(lambda marker: LOOKALIKES[marker[0]], text)
        return label.sub(lambda marker: marker[1] + LOOKALIKES[":"], text)

    return clean


def dialogue(
    case: Case, user: str, chatbot: str, clean: Callable[[str], str], between: str = "\n"
) -> str:
    """All turns of a conversation as one text.

    Args:
        case: The case.
        user: What stands before a user's message, blank or line break included: `"User: "`.
        chatbot: What stands before a chatbot's message.
        clean: Takes the markers out of each message.
        between: What stands between turns.

    Raises:
        DataError: The conversation cannot be split into turns.
    """
    label = {"user": user, "chatbot": chatbot}
    turns = parse_conversation(case.conversation)
    return between.join(f"{label[turn.role]}{clean(turn.text)}" for turn in turns)


def chat_turns(case: Case, clean: Callable[[str], str]) -> tuple[Message, ...]:
    """All turns of a conversation as chat messages; the chatbot is the assistant."""
    return tuple(
        Message("user" if turn.role == "user" else "assistant", clean(turn.text))
        for turn in parse_conversation(case.conversation)
    )


def exchange(
    case: Case, user: str, chatbot: str, clean: Callable[[str], str]
) -> tuple[Message, Message]:
    """A conversation as one user message and one assistant message.

    The user's opening is the first message. All the rest, from the chatbot's first words on, is
    the second, with labels before later turns: every message of the chatbot is in the part that
    a guard of single exchanges judges. Where the chatbot opens, the first message is "(none)".
    """
    turns = parse_conversation(case.conversation)
    first = next((i for i, turn in enumerate(turns) if turn.role == "chatbot"), len(turns))
    label = {"user": user, "chatbot": chatbot}
    rest = [
        clean(turn.text) if i == 0 else f"{label[turn.role]}{clean(turn.text)}"
        for i, turn in enumerate(turns[first:])
    ]
    opening = "\n\n".join(clean(turn.text) for turn in turns[:first])
    return Message("user", opening or NONE), Message("assistant", "\n\n".join(rest))


def rule_line(rule: Rule) -> str:
    """A rule as the policy shows it, with its number and its note."""
    numbers = ", ".join(map(str, rule.overrides))
    note = f" [overrides: Rule {numbers}]" if rule.overrides else ""
    return f"{rule.number}. {rule.text}{note}"


def rule_gaps(question: RuleQuestion, clean: Callable[[str], str] = str) -> dict[str, str]:
    """What a template about one rule may show: `number`, `target`, `context`, `framework`."""
    return {
        "number": str(question.target.number),
        "target": clean(rule_line(question.target)),
        "context": clean("\n".join(map(rule_line, question.context))) or NONE,
        "framework": clean(question.case.framework) or NONE,
    }


def one_line(text: str) -> str:
    """A text with every run of blanks and line breaks as one blank, for formats of one line."""
    return " ".join(text.split())
