"""Runs over a real wire: settings that point at a local server, and what its answers cost."""

import json
from math import fsum

from scripted_models import author, small

from safepyramid.construct.costs import priced
from safepyramid.tokens import estimate_tokens
from servers import completion

WRITER, CHECKERS = "openai/gpt-5.4", ("openai/gpt-4.1", "openai/gpt-4.1-mini", "openai/gpt-4o")


def settings_file(tmp_path, address="http://127.0.0.1:9", **more):
    def role(model):
        return {
            "model": model,
            "base_url": f"{address}/v1",
            "args": {"responses_api": False},
            "config": {"max_retries": 0},
        }

    settings = small(**more)
    settings["models"] = {
        **{name: role(WRITER) for name in ("conversation", "l0", "l1", "l2")},
        "validators": [role(name) for name in CHECKERS],
    }
    path = tmp_path / "mine.yaml"
    path.write_text(json.dumps(settings), encoding="utf-8")
    return path


def counted(call):
    """A good answer, with the tokens that its prompt and text come to."""
    body = completion(author(call.text), output_tokens=100)
    body["usage"]["prompt_tokens"] = estimate_tokens(call.text)
    return body


def price_of(call):
    return priced(f"openai/{call.body['model']}", estimate_tokens(call.text), 100)


def spent(run, folder):
    found = json.loads(run("status", folder, "--json").stdout)
    return fsum(bill["price"] or 0 for bill in found["bills"].values())
