"""The table of guards: for each name how it is made, and what is known about it.

Facts were read from the makers' papers, model cards and code; where something could not be found,
the entry says so. Nothing here is imported until a guard is used.
"""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from safepyramid.guards.base import Guard
from safepyramid.schema import PROTOCOLS, Protocol

Endpoint = Literal["chat", "completions", "chat or completions", "none"]


@dataclass(frozen=True, slots=True)
class Entry:
    """What the table holds of one guard."""

    maker: str
    """`module:function` of the function that makes it. It takes `prompts`, a folder of templates
    or None, and the guard's own options as keywords."""
    summary: str
    """One line: what it is."""
    protocols: tuple[Protocol, ...]
    endpoint: Endpoint
    """Which of a server's endpoints its prompts are for."""
    models: tuple[str, ...] = ()
    """Hugging Face ids of the weights that speak its format."""
    size: str = ""
    licence: str = ""
    source: str = ""
    """Where the format is described."""
    layout: str = ""
    """How a conversation of several turns is laid out."""
    known: tuple[str, ...] = ()
    """What a user must know, one sentence or two each."""
    free_form: bool = False
    """Whether it answers in the form that its prompt asks for; else in the one it was trained to,
    and no other may be asked of it."""

    def load(self) -> Callable[..., Guard]:
        """Import and return the function that makes the guard."""
        module, _, function = self.maker.partition(":")
        made: Callable[..., Guard] = getattr(importlib.import_module(module), function)
        return made


_HERE = "safepyramid.guards"
_RULE: tuple[Protocol, ...] = ("per_rule",)

GUARDS: Mapping[str, Entry] = {
    "chat": Entry(
        maker=f"{_HERE}.chat:chat",
        summary="Any instruction-following model, asked in plain words; the default.",
        protocols=PROTOCOLS,
        endpoint="chat",
        source="this project",
        layout="The conversation as it stands in the data, between tags; markers of chat formats become "
        "look-alikes.",
        free_form=True,
    ),
    "gpt-oss-safeguard": Entry(
        maker=f"{_HERE}.gpt_oss_safeguard:gpt_oss_safeguard",
        summary="OpenAI's open reasoning models for policies of one's own.",
        protocols=PROTOCOLS,
        endpoint="chat",
        models=("openai/gpt-oss-safeguard-20b", "openai/gpt-oss-safeguard-120b"),
        free_form=True,
        size="21B with 3.6B active, 117B with 5.1B active",
        licence="Apache-2.0, with a usage policy",
        source="github.com/openai/gpt-oss-safeguard; OpenAI Cookbook, gpt-oss-safeguard guide; "
        "github.com/openai/harmony, docs/format.md",
        layout="The whole conversation as one piece of content, between tags, in one user message. "
        "The makers show no layout for dialogues.",
        known=(
            "The policy is the system message, written in the sections that the makers advise, "
            "the output form at its top and bottom. Examples, which they also advise, are left "
            "out: they would give answers away.",
            "Set the effort with `--effort low|medium|high`. The makers advise not to cap the "
            "output but to lower the effort.",
            "Their advice is 400 to 600 tokens of policy; level 2 has about ten times that.",
            "vLLM before June 2026 renders the system message differently from the model's own "
            "template (vllm #33210), and puts today's date into the prompt: set "
            "VLLM_SYSTEM_START_DATE for repeatable prompts.",
        ),
    ),
    "dynaguard": Entry(
        maker=f"{_HERE}.dynaguard:dynaguard",
        summary="PASS or FAIL on a list of rules.",
        protocols=_RULE,
        endpoint="chat or completions",
        models=(
            "tomg-group-umd/DynaGuard-8B",
            "tomg-group-umd/DynaGuard-4B",
            "tomg-group-umd/DynaGuard-1.7B",
        ),
        size="8B, 4B, 1.7B (Qwen3)",
        licence="Apache-2.0 (weights), MIT (code)",
        source="arXiv 2509.02563; github.com/montehoover/DynaGuard",
        layout="All turns, one after another, with `'User':` and `'Agent':` before them.",
        known=(
            "FAIL says that some rule is violated, not which: one rule a call.",
            "Mode `fast` goes to a completions endpoint; the score is the probability of FAIL "
            "against PASS. On a chat endpoint the model reasons even when it is not asked to.",
            "The makers force an opening thinking tag in mode `reasoning`; a chat endpoint leaves "
            "that to the model. Serve it without a reasoning parser, which may move the answer.",
            "Their output limit of 1024 tokens cuts long reasoning: such verdicts are `truncated`. "
            "Raise it with `--max-tokens`.",
        ),
    ),
    "shieldlm": Entry(
        maker=f"{_HERE}.shieldlm:shieldlm",
        summary="safe, unsafe or controversial, under rules of one's own.",
        protocols=_RULE,
        endpoint="completions",
        models=("thu-coai/ShieldLM-14B-qwen",),
        size="14B (Qwen-14B-Chat, first generation)",
        licence="MIT on the card; the base model's licence applies too",
        source="arXiv 2402.16444; github.com/thu-coai/ShieldLM",
        layout="All turns in alternating lines, `A:` for the user and `B:` for the chatbot. The "
        "makers describe one query and one response.",
        known=(
            "Its rules change what counts as unsafe. It is no compliance checker: a harmless "
            "reply that breaks a business rule tends to come out safe.",
            "`controversial` is no verdict by default; see the option.",
            "Only the label is generated; give `--max-tokens 1024` to see the analysis too.",
            "Custom modelling code (`--trust-remote-code`); whether current vLLM still runs it "
            "is not known. The makers used transformers 4.36.",
            "The prompt is for the Qwen model. The siblings on other bases use other tokens.",
        ),
    ),
    "flexguard": Entry(
        maker=f"{_HERE}.flexguard:flexguard",
        summary="A risk score from 0 to 100, and a threshold.",
        protocols=_RULE,
        endpoint="chat",
        models=("Tommy-DING/FlexGuard-Qwen3-8B", "Tommy-DING/FlexGuard-Qwen3-4B"),
        size="8B, 4B (Qwen3)",
        licence="Apache-2.0",
        source="arXiv 2602.23636; model card",
        layout="All turns, one after another, with `User:` and `Assistant:` before them, between tags.",
        known=(
            "It has fixed categories and no place for a rule. The rule is put into the request, "
            "which it was not trained on; a high score may mean harmful, not violated.",
            "The makers' prompt, sampling and layout are not public. Ours asks for the output "
            "that they describe. Put theirs into `--prompts` if you have it.",
            "A threshold that others used on this benchmark is not known either. The score is "
            "kept with every verdict: sweep the threshold and report it.",
        ),
    ),
    "gspr": Entry(
        maker=f"{_HERE}.gspr:gspr",
        summary="A reasoned label, and a category from a list of names.",
        protocols=_RULE,
        endpoint="chat",
        models=("teapotlid/GSPR_Qwen2.5",),
        size="7B (Qwen2.5)",
        licence="not found: ask the makers before you use it",
        source="arXiv 2509.24418; github.com/HKUST-KnowComp/GSPR",
        layout="All turns, one after another, with `User:` and `Agent:` before them. The makers "
        "describe single exchanges.",
        known=(
            "Its categories are bare names, so the rule itself becomes a name: far longer than "
            "what it was trained on.",
            "The makers' repetition penalty of 1.2 is sent as an extra request field, as vLLM "
            "and SGLang take it.",
        ),
    ),
    "adaguard": Entry(
        maker=f"{_HERE}.adaguard:adaguard",
        summary="A policy as JSON rules; answers with the ids that are violated.",
        protocols=PROTOCOLS,
        endpoint="chat",
        models=("Yunhao-Feng/AdaGuard-8B", "Yunhao-Feng/AdaGuard-4B"),
        size="8B, 4B (Qwen3Guard-Gen)",
        licence="Apache-2.0",
        source="model card",
        layout="All turns as JSON events: a user's message as `user`, a chatbot's as an `agent` "
        "action without a thought.",
        known=(
            "The only one here that was trained to return a set of rules.",
            "Policies of at most 100 rules; about 16,000 tokens in all.",
            "Ids in another order than the policy's, or repeated, are read and marked as not "
            "strict; the makers count them as invalid.",
            "Greedy decoding is our choice; the makers' sampling was not found.",
        ),
    ),
    "granite-guardian": Entry(
        maker=f"{_HERE}.granite_guardian:granite_guardian",
        summary="yes or no to a criterion of one's own.",
        protocols=_RULE,
        endpoint="chat",
        models=("ibm-granite/granite-guardian-4.1-8b",),
        size="8B (Granite)",
        licence="Apache-2.0",
        source="github.com/ibm-granite/granite-guardian, cookbooks for 4.1",
        layout="All turns as chat messages, then one more with the criterion.",
        known=(
            "It was trained to score the assistant's last text; here the scoring schema says "
            "that any of the assistant's texts may meet the criterion.",
            "Version 3.3 takes its criterion as a template argument and is not covered.",
            "The makers say that custom criteria may need tuning.",
        ),
    ),
    "shieldgemma": Entry(
        maker=f"{_HERE}.shieldgemma:shieldgemma",
        summary="The probability that a guideline is violated.",
        protocols=_RULE,
        endpoint="completions",
        models=("google/shieldgemma-2b", "google/shieldgemma-9b", "google/shieldgemma-27b"),
        size="2B, 9B, 27B (Gemma 2)",
        licence="Gemma terms, gated",
        source="model card; github.com/montehoover/DynaGuard, constants.py",
        layout="All turns as repeated `Human Question` and `Chatbot Response` blocks. The makers "
        "describe one of each.",
        known=(
            "One token a call: the probability of Yes against No is compared with the threshold "
            "and kept as the score.",
            "Without log-probabilities from the server the word itself decides.",
            "The first token is left to the server's tokenizer, which adds it by default.",
        ),
    ),
    "llama-guard": Entry(
        maker=f"{_HERE}.llama_guard:llama_guard",
        summary="safe, or unsafe with category codes; rules as custom categories.",
        protocols=PROTOCOLS,
        endpoint="completions",
        models=(
            "meta-llama/Llama-Guard-3-8B",
            "meta-llama/Llama-Guard-3-1B",
            "meta-llama/Llama-Guard-4-12B",
        ),
        size="1B, 8B, 12B",
        licence="Llama licences, gated",
        source="Meta's model cards and prompt formats",
        layout="All turns, one after another, with `User:` and `Agent:` before them.",
        known=(
            "Category S7 is Rule 7, so the codes are a set of rules.",
            "Its chat template fixes its own categories, so the prompt is sent raw. The first "
            "token is left to the server's tokenizer, which adds it by default.",
            "It hardly follows custom categories: the DynaGuard paper reports an F1 of 13.",
        ),
    ),
    "nemotron": Entry(
        maker=f"{_HERE}.nemotron:nemotron",
        summary="Harmful or not, safe or not, under a custom policy.",
        protocols=_RULE,
        endpoint="chat",
        models=(
            "nvidia/Nemotron-Content-Safety-Reasoning-4B",
            "nvidia/Nemotron-3.5-Content-Safety",
        ),
        size="4B (Gemma 3)",
        licence="NVIDIA Open Model and Gemma terms (4B); OpenMDW-1.1 and Gemma terms (3.5)",
        source="model cards; NeMo Guardrails documentation",
        layout="`reasoning-4b`: all turns with `Human user:` and `AI assistant:` before them. "
        "`3.5`: the user's opening as the prompt, all the rest as the response, later turns with "
        "`User:` and `Assistant:` before them.",
        known=(
            "Only the verdict on the assistant's side is read.",
            "`3.5` takes the policy through `chat_template_kwargs` (`custom_policy`); a server "
            "that drops them judges by the built-in taxonomy. Its whole template was not read.",
        ),
    ),
    "singguard": Entry(
        maker=f"{_HERE}.singguard:singguard",
        summary="safe or unsafe, and a rule's title, under rules of one's own.",
        protocols=_RULE,
        endpoint="chat",
        models=(
            "inclusionAI/Sing-Guard-8b",
            "inclusionAI/Sing-Guard-4b",
            "inclusionAI/Sing-Guard-2b",
        ),
        size="8B, 4B, 2B (Qwen3-VL)",
        licence="Apache-2.0",
        source="arXiv 2606.22873; github.com/inclusionAI/Sing-Guard",
        layout="All turns as chat messages. The makers show a query, or a query and a response; "
        "how earlier turns weigh is not known.",
        known=(
            "The rule goes through `chat_template_kwargs` (`policy`); a server that drops them "
            "judges by the built-in categories.",
            "An unsafe verdict under a title that was not given is `unparsed`.",
        ),
    ),
    "none": Entry(
        maker=f"{_HERE}.baselines:none",
        summary="Calls no rule violated.",
        protocols=PROTOCOLS,
        endpoint="none",
    ),
    "all": Entry(
        maker=f"{_HERE}.baselines:every",
        summary="Calls every rule violated.",
        protocols=PROTOCOLS,
        endpoint="none",
    ),
    "random": Entry(
        maker=f"{_HERE}.baselines:uniform",
        summary="Calls rules violated by chance, as often as in the published data.",
        protocols=PROTOCOLS,
        endpoint="none",
        known=("One seeded draw. Result tables and `safepyramid stats` have the expectation.",),
    ),
    "lexical": Entry(
        maker=f"{_HERE}.baselines:lexical",
        summary="Calls the rules violated whose words the chatbot uses most.",
        protocols=PROTOCOLS,
        endpoint="none",
    ),
    "similarity": Entry(
        maker=f"{_HERE}.similarity:similarity",
        summary="Calls the rules violated that sound most like what the chatbot says.",
        protocols=PROTOCOLS,
        endpoint="none",
        known=(
            "Sentence embeddings on the processor; needs `safepyramid[similarity]` and fetches "
            "its model on first use.",
        ),
    ),
}
"""Guard name -> entry. A guard's templates are the files in `prompts/` that begin with its name."""
