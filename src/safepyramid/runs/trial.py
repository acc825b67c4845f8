"""One call before a long run: does every part work, and is the answer where it is looked for?

The call is made with the longest prompt of the run, so that it also shows whether all prompts
fit. Imports Inspect.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import anyio.to_thread
from inspect_ai.model import GenerateConfig, Model, ModelAPI, get_model_info

from safepyramid.errors import RunError
from safepyramid.guards.base import Guard, Prompt, rule_questions
from safepyramid.providers.calls import call_settings, cause_of, chat_messages, reply_of
from safepyramid.providers.routes import is_too_long, require_route
from safepyramid.providers.templates import Tokenized, tokenize
from safepyramid.providers.watched import watched
from safepyramid.schema import Answer, Case, Protocol, Reply, State, Verdict
from safepyramid.secrets import scrubbed
from safepyramid.tokens import estimate_tokens

SHOWN = 200
"""So many characters of an unreadable reply are shown."""
_RETRIES = 2


@dataclass(frozen=True, slots=True)
class _Asked:
    """A prompt of the run, and how its answer is read."""

    name: str
    prompt: Prompt
    read: Callable[[Reply], Answer | Verdict]

    @property
    def size(self) -> int:
        """Estimated tokens."""
        return sum(estimate_tokens(message.text) for message in self.prompt.messages)


async def trial(
    model: Model,
    guard: Guard,
    protocol: Protocol,
    cases: Sequence[Case],
    config: Mapping[str, Any],
) -> list[str]:
    """Try every part of a run with one call, two where the longest prompt does not fit.

    Args:
        model: The model; not one that other event loops have used.
        guard: The guard.
        protocol: The protocol.
        cases: The cases of the run.
        config: The run's generation settings, by Inspect's names.

    Returns:
        What a person should know before the run, one line each; empty if nothing stands out.

    Raises:
        RunError: The run would be worthless: the key or the model is refused, nothing answers,
            the answer is empty, or no prompt fits. One line, without secrets.
    """
    if guard.predict is not None or not cases:
        return []
    settings = guard.settings(protocol, config)
    longest, shortest = _extremes(guard, protocol, cases)
    require_route(str(model), raw=longest.prompt.raw)
    reply = await reach(model, longest.prompt, settings)
    notes = await _size_notes(model, longest, settings, reply)
    asked = longest
    if reply.stop_reason == "model_length" and shortest.name != longest.name:
        asked, reply = shortest, await reach(model, shortest.prompt, settings)
    if reply.stop_reason == "model_length":
        raise RunError(
            f"{asked.name} does not fit the context of {model}: {scrubbed(reply.text, SHOWN)}"
        )
    return [*notes, *_answer_notes(model, asked, reply), *_reasoning_notes(settings, reply)]


def _extremes(guard: Guard, protocol: Protocol, cases: Sequence[Case]) -> tuple[_Asked, _Asked]:
    """The longest and the shortest prompt, by the length of what they are made from."""
    by_length = sorted(cases, key=lambda case: len(case.policy) + len(case.conversation))
    ends = [
        asked for case in (by_length[0], by_length[-1]) for asked in _prompts(guard, protocol, case)
    ]
    return max(ends, key=lambda asked: asked.size), min(ends, key=lambda asked: asked.size)


def _prompts(guard: Guard, protocol: Protocol, case: Case) -> list[_Asked]:
    policy, rule = guard.per_policy, guard.per_rule
    if protocol == "per_policy":
        assert policy is not None
        return [_Asked(case.id, policy.render(case), lambda reply: policy.parse(reply, case))]
    assert rule is not None
    return [
        _Asked(
            f"{case.id} Rule {question.target.number}",
            rule.render(question),
            lambda reply, question=question: rule.parse(reply, question),  # type: ignore[misc]
        )
        for question in rule_questions(case)
    ]


async def reach(model: Model, prompt: Prompt, settings: Mapping[str, Any]) -> Reply:
    """Ask a model something, with few retries.

    Args:
        model: The model.
        prompt: What to ask.
        settings: Generation settings, by Inspect's names; None counts as not given.

    Returns:
        The reply; one with stop reason `model_length` where the prompt does not fit.

    Raises:
        RunError: The call failed: why, in one line, without secrets.
    """
    given = {
        name: value
        for name, value in settings.items()
        if value is not None and name not in ("batch", "cache")
    }
    given["max_retries"] = min(_RETRIES, given.get("max_retries", _RETRIES))
    given |= call_settings(prompt, given.get("extra_body"))
    try:
        output = await watched(model).generate(
            chat_messages(prompt, str(model)), config=GenerateConfig(**given)
        )
    except Exception as error:
        cause = cause_of(error)
        if is_too_long(str(cause)):
            return Reply(str(cause), stop_reason="model_length")
        raise RunError(f"{model}: {_reason(cause)}") from error
    return reply_of(output)


_ADVICE = {
    401: "the key is refused; check the environment variable that holds it",
    403: "the key has no access; check its rights and the model's name",
    404: "the model or the address is unknown; check its name and its base URL",
    429: "the rate limit or the quota is used up; wait, or lower --max-connections",
}


def _reason(error: BaseException) -> str:
    status = getattr(error, "status_code", None) or getattr(error, "code", None)
    told = scrubbed(f"{type(error).__name__}: {error}", SHOWN)
    if isinstance(status, int) and status in _ADVICE:
        return f"{_ADVICE[status]} ({told})"
    if status is None and "onnect" in told:
        return f"nothing answers; is the server up, and its base URL right? ({told})"
    return f"the trial call failed ({told})"


async def _size_notes(
    model: Model, asked: _Asked, settings: Mapping[str, Any], reply: Reply
) -> list[str]:
    seen = await _tokenized(model, asked.prompt)
    info = get_model_info(model)
    context = (seen and seen.context) or (info.context_length if info else None)
    room = f" of {context:,} in the context" if context else ""
    answer = settings.get("max_tokens") or 0
    notes = []
    if reply.stop_reason == "model_length":
        size = f"{len(seen.tokens):,}" if seen else await _counted(model, asked)
        notes.append(
            f"the longest prompt, {asked.name}, does not fit: {size} tokens{room}; such cases "
            "will be truncated"
        )
    elif seen and context and len(seen.tokens) + answer > context:
        notes.append(
            f"the longest prompt, {asked.name}, has {len(seen.tokens):,} tokens{room}, which "
            f"leaves less than max_tokens={answer} for the answer"
        )
    if seen is None:
        notes.append("first token: not checkable here (only with llama.cpp and vLLM servers)")
    elif seen.is_doubled:
        notes.append(
            f"the prompt begins with the token {seen.tokens[0]} twice: the template writes it and "
            "the tokenizer adds it again, which costs accuracy; mend the server's template"
        )
    return notes


async def _tokenized(model: Model, prompt: Prompt) -> Tokenized | None:
    api = model.api
    if not api.base_url:
        return None
    name = api.service_model_name()
    return await anyio.to_thread.run_sync(tokenize, api.base_url, api.api_key, name, prompt)


async def _counted(model: Model, asked: _Asked) -> str:
    """The prompt's tokens: the provider's own count where it has one, else an estimate."""
    if type(model.api).count_tokens is not ModelAPI.count_tokens:
        try:
            return f"{await model.api.count_tokens(chat_messages(asked.prompt)):,}"
        except Exception:  # A count is a courtesy: no failure of it may stop a run.
            pass
    return f"about {asked.size:,}"


def _answer_notes(model: Model, asked: _Asked, reply: Reply) -> list[str]:
    read = asked.read(reply)
    if read.state is State.ERROR:
        raise RunError(f"{model}: the trial call failed ({scrubbed(read.note, SHOWN)})")
    if read.state is State.UNPARSED and not reply.text.strip() and not reply.reasoning.strip():
        raise RunError(
            f"{model} answers {asked.name} with nothing; check the model, its template and "
            "--max-tokens"
        )
    if read.state is State.ANSWERED:
        return [f"{asked.name}: {read.note}"] if read.note else []
    came = scrubbed(reply.text or reply.reasoning, SHOWN)
    return [
        f"{asked.name} ended {read.state} ({read.note or 'no reason given'}); what came: {came!r}"
    ]


def _reasoning_notes(settings: Mapping[str, Any], reply: Reply) -> list[str]:
    effort = settings.get("reasoning_effort")
    wanted = effort not in (None, "none") or settings.get("reasoning_tokens")
    if not wanted or reply.reasoning_tokens or reply.reasoning:
        return []
    return ["reasoning was asked for, but neither the usage nor the reply shows any"]
