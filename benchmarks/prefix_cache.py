"""What it is worth that the prompts of a case share their beginning.

    python benchmarks/prefix_cache.py --case frau-001-l2 --rules 12

SmolLM2 on a llama.cpp server that reuses what the last prompt began with. The judgments of one case
are asked twice: as the chat guard renders them, with the conversation first and the target rule
last, and with the same parts the other way round. Each order begins on a slot that holds another
prompt. Needs the extra `local`; the model is fetched on first use.
"""

import argparse
import json
import sys
import time
from urllib.request import Request, urlopen

from safepyramid.dataset.load import load_benchmark
from safepyramid.guards import load_guard
from safepyramid.guards.base import Prompt
from safepyramid.local import SMOLLM2, fetch
from safepyramid.providers.server import Server, Settings, serve
from safepyramid.solvers import rule_questions

FACTOR = 5.0


def ask(server: Server, messages: list[dict[str, str]], tokens: int) -> dict[str, int]:
    body = {
        "messages": messages,
        "max_tokens": tokens,
        "temperature": 0.0,
        "cache_prompt": True,
    }
    request = Request(f"{server.address}/v1/chat/completions", json.dumps(body).encode())
    request.add_header("Content-Type", "application/json")
    request.add_header("Authorization", f"Bearer {server.key}")
    with urlopen(request) as response:
        usage = json.load(response)["usage"]
    return {
        "prompt": usage["prompt_tokens"],
        "cached": usage["prompt_tokens_details"]["cached_tokens"],
    }


def messages(prompt: Prompt, target_first: bool) -> list[dict[str, str]]:
    system, user = prompt.messages
    shared, own = user.content
    text = f"{own}\n\n{shared.strip()}" if target_first else f"{shared}{own}"
    return [{"role": "system", "content": system.text}, {"role": "user", "content": text}]


def timed(server: Server, prompts: list[Prompt], target_first: bool, tokens: int) -> float:
    ask(server, [{"role": "user", "content": "Say hello."}], 1)
    start = time.perf_counter()
    used = [ask(server, messages(prompt, target_first), tokens) for prompt in prompts]
    seconds = time.perf_counter() - start
    total, cached = (sum(each[name] for each in used) for name in ("prompt", "cached"))
    name = "target first" if target_first else "shared part first"
    print(f"{name:18} {seconds:7.1f} s   {total:,} prompt tokens, {cached / total:.0%} reused")
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--case", default="frau-001-l2")
    parser.add_argument(
        "--rules", type=int, default=12, help="judgments of the case that are asked"
    )
    parser.add_argument("--tokens", type=int, default=8, help="length of an answer")
    parser.add_argument("--threads", type=int, default=0)
    given = parser.parse_args()
    _, (case,) = load_benchmark("sample", ids=[given.case])
    guard = load_guard("chat")
    assert guard.per_rule is not None
    prompts = [guard.per_rule.render(q) for q in rule_questions(case)][: given.rules]
    server = serve(Settings(str(fetch(SMOLLM2)), 8192, 1, given.threads))
    print(f"{case.id}, {len(prompts)} judgments, {given.tokens} tokens an answer")
    shared = timed(server, prompts, False, given.tokens)
    reverse = timed(server, prompts, True, given.tokens)
    print(f"shared part first is {reverse / shared:.1f} times as fast")
    sys.exit(reverse / shared < FACTOR)


if __name__ == "__main__":
    main()
