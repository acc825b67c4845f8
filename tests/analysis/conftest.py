"""Real logs, made once: a mock model answers on part of the sample."""

import json
from pathlib import Path
from typing import Any

import pytest

CASES = 6


@pytest.fixture(scope="session")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Name -> log: `policy` with two epochs, `rule`, and `lexical`, which calls no model."""
    from inspect_ai import eval as inspect_eval
    from inspect_ai.model import ModelOutput, ModelUsage, get_model

    def reply(text: str) -> ModelOutput:
        output = ModelOutput.from_content("mockllm/model", text)
        output.usage = ModelUsage(
            input_tokens=1000,
            output_tokens=50,
            total_tokens=1150,
            input_tokens_cache_read=100,
            reasoning_tokens=30,
        )
        return output

    def answer(*_: Any) -> ModelOutput:
        return reply(json.dumps({"violated_rules": [1, 2, 99]}))

    def verdict(messages: Any, *_: Any) -> ModelOutput:
        odd = len(str(messages[-1].text)) % 2
        return reply(json.dumps({"verdict": "violated" if odd else "not_violated"}))

    folder = tmp_path_factory.mktemp("logs")
    found = {}
    for name, task, custom, epochs, guard in (
        ("policy", "per_policy", answer, 2, "chat"),
        ("rule", "per_rule", verdict, 1, "chat"),
        ("lexical", "per_policy", None, 1, "lexical"),
    ):
        model = get_model("mockllm/model", custom_outputs=custom) if custom else "none/none"
        (log,) = inspect_eval(
            f"safepyramid/{task}",
            model=model,
            task_args={"dataset": "sample", "limit_cases": CASES, "guard": guard},
            epochs=epochs,
            log_dir=str(folder / name),
            display="none",
        )
        assert log.status == "success"
        found[name] = Path(log.location)
    return found
