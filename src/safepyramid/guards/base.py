"""What a guard is: how to ask it, and how to read what it says.

A guard is translate, call, translate back. The two translations are plain functions on plain
values and stand here; the call between them belongs to Inspect (`solvers.py`). A guard that is
no language model has only `predict`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, SupportsIndex

from safepyramid.errors import GuardError
from safepyramid.policy.parse import parse_policy, related_rules
from safepyramid.schema import PROTOCOLS, Answer, Case, Protocol, Reply, Rule, RuleType, Verdict


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a prompt."""

    role: Literal["system", "user", "assistant"]
    content: str | tuple[str, ...]
    """Text, or parts of it: each part but the last ends where a prefix cache may."""

    @property
    def text(self) -> str:
        """The content as one string."""
        return self.content if isinstance(self.content, str) else "".join(self.content)


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a guard is sent."""

    messages: tuple[Message, ...]
    """Chat messages. What many calls of one case share comes first, byte-identical."""
    raw: bool = False
    """Send the one message's content as it is to a completions endpoint, without a template."""
    template_args: Mapping[str, Any] = field(default_factory=dict)
    """What the server's own chat template takes beside the messages (`chat_template_kwargs`):
    where a guard's template has a place for the policy, the policy goes here."""
    schema: Mapping[str, Any] | None = None
    """A JSON schema that the provider is asked to hold the answer to; None: no schema."""

    def further_keys(self, given: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The request's keys beside the messages and the usual settings (`extra_body`).

        Args:
            given: The run's own, which all stay. Of the template's arguments this prompt's win:
                they carry the policy, without which nothing is judged.
        """
        keys = dict(given or {})
        if self.template_args:
            own = keys.get("chat_template_kwargs") or {}
            keys["chat_template_kwargs"] = {**own, **self.template_args}
        return keys


@dataclass(frozen=True, slots=True)
class RuleQuestion:
    """One judgment of the per-rule protocol: a target rule and the rules that touch it."""

    case: Case
    target: Rule
    context: tuple[Rule, ...]
    """The rules that modify the target or that it modifies, by number; may be empty."""


def rule_questions(case: Case) -> list[RuleQuestion]:
    """The judgments of a case, by rule number: every rule that is no conditional."""
    policy = parse_policy(case.policy, case.framework)
    context = related_rules(policy, case.rubric)
    types = case.rule_types
    return [
        RuleQuestion(case, rule, tuple(context[rule.number]))
        for rule in sorted(policy.rules, key=lambda rule: rule.number)
        if types[rule.number] is not RuleType.CONDITIONAL
    ]


@dataclass(frozen=True, slots=True)
class PolicyAdapter:
    """How a guard judges a whole policy in one call."""

    render: Callable[[Case], Prompt]
    parse: Callable[[Reply, Case], Answer]
    config: Mapping[str, Any] = field(default_factory=dict)
    """Generation settings that the guard's makers prescribe, as names of Inspect's
    `GenerateConfig` (temperature, max_tokens, stop_seqs, logprobs, …). The user's own win."""


@dataclass(frozen=True, slots=True)
class RuleAdapter:
    """How a guard judges one rule in one call."""

    render: Callable[[RuleQuestion], Prompt]
    parse: Callable[[Reply, RuleQuestion], Verdict]
    config: Mapping[str, Any] = field(default_factory=dict)
    """As for `PolicyAdapter`."""


@dataclass(frozen=True, slots=True)
class Guard:
    """A guard, ready to be asked. At least one of the three ways must be given."""

    name: str
    per_policy: PolicyAdapter | None = None
    per_rule: RuleAdapter | None = None
    predict: Callable[[Case], Collection[int]] | None = None
    """A guard that needs no model: the violated rules of a case. Serves both protocols."""
    prompts: Mapping[str, str] = field(default_factory=dict)
    """The templates it renders, name -> text: their hash goes into each log."""

    def supports(self, protocol: Protocol) -> bool:
        """Whether the guard can be run under the protocol."""
        return self.predict is not None or getattr(self, protocol) is not None

    def adapter(self, protocol: Protocol) -> PolicyAdapter | RuleAdapter | None:
        """How the guard is asked under the protocol; None for a guard without a model.

        Raises:
            GuardError: It cannot be run under the protocol.
        """
        if not self.supports(protocol):
            able = ", ".join(each for each in PROTOCOLS if self.supports(each))
            raise GuardError(
                f"guard {self.name!r} does not support {protocol}; it supports: {able}"
            )
        return self.per_policy if protocol == "per_policy" else self.per_rule

    def settings(self, protocol: Protocol, own: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The generation settings that its makers prescribe, with a run's own over them.

        Args:
            protocol: Which protocol.
            own: The run's settings, by Inspect's names. They win, `extra_body` key by key.

        Raises:
            GuardError: The guard cannot be run under the protocol.
        """
        adapter, own = self.adapter(protocol), own or {}
        prescribed = adapter.config if adapter else {}
        further = {**(prescribed.get("extra_body") or {}), **(own.get("extra_body") or {})}
        return {**prescribed, **own, **({"extra_body": further} if further else {})}


def predicted_rules(guard: Guard, case: Case) -> list[int]:
    """What a guard without a model calls violated, in ascending order, without repeats.

    Raises:
        GuardError: It returned anything but a collection of integers, which may be empty.
    """
    assert guard.predict is not None
    said: Any = guard.predict(case)
    if isinstance(said, str | bytes | Mapping) or not isinstance(said, Iterable):
        raise _no_rules(guard, f"a {type(said).__name__}" if said is not None else "None")
    rules = set()
    for rule in said:
        if isinstance(rule, bool) or not isinstance(rule, SupportsIndex):
            raise _no_rules(guard, f"a collection with {rule!r:.60}")
        rules.add(rule.__index__())
    return sorted(rules)


def _no_rules(guard: Guard, returned: str) -> GuardError:
    returned = " ".join(returned.split())
    return GuardError(
        f"guard {guard.name!r} returned {returned}; return the numbers of the violated rules as "
        "integers, an empty list for none"
    )
