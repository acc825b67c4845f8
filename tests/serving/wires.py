"""Answers on the wire, as each provider documents them."""

import json
from typing import Any

from servers import Response

RULE_ONE = json.dumps({"violated_rules": [{"rule": 1, "explanation": "certain date"}]})


def raw_completion(
    text: str, finish: str = "stop", logprobs: dict[str, Any] | None = None
) -> dict[str, Any]:
    """An answer of `/v1/completions`."""
    return {
        "id": "cmpl-1",
        "object": "text_completion",
        "created": 0,
        "model": "scripted",
        "choices": [{"index": 0, "text": text, "finish_reason": finish, "logprobs": logprobs}],
        "usage": {"prompt_tokens": 900, "completion_tokens": 3, "total_tokens": 903},
    }


def claude(
    blocks: list[dict[str, Any]], stop: str = "end_turn", output_tokens: int = 30
) -> dict[str, Any]:
    """A message of Anthropic's API."""
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-4-6",
        "content": blocks,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"input_tokens": 900, "output_tokens": output_tokens},
    }


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def thinking_block(text: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": text, "signature": "c2lnbmF0dXJl"}


def claude_stream(message: dict[str, Any]) -> Response:
    """The same message as server-sent events, each block in two deltas."""
    start = {**message, "content": [], "stop_reason": None}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": start}]
    for index, block in enumerate(message["content"]):
        key = block["type"]
        empty = {**block, key: "", **({"signature": ""} if key == "thinking" else {})}
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        half = len(block[key]) // 2
        for part in (block[key][:half], block[key][half:]):
            delta = {"type": f"{key}_delta", key: part}
            events.append({"type": "content_block_delta", "index": index, "delta": delta})
        if key == "thinking":
            delta = {"type": "signature_delta", "signature": block["signature"]}
            events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    events.append(
        {
            "type": "message_delta",
            "delta": {"stop_reason": message["stop_reason"], "stop_sequence": None},
            "usage": {"output_tokens": message["usage"]["output_tokens"]},
        }
    )
    events.append({"type": "message_stop"})
    text = "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events)
    return Response(body=text, headers={"Content-Type": "text/event-stream; charset=utf-8"})


def gemini(
    parts: list[dict[str, Any]] | None, finish: str = "STOP", thoughts: int = 0
) -> dict[str, Any]:
    """An answer of Gemini's generateContent; `parts` None: a content without any."""
    content: dict[str, Any] = {"role": "model"}
    if parts is not None:
        content["parts"] = parts
    return {
        "candidates": [{"content": content, "finishReason": finish, "index": 0}],
        "usageMetadata": {
            "promptTokenCount": 900,
            "candidatesTokenCount": 20 if parts else 0,
            "thoughtsTokenCount": thoughts,
            "totalTokenCount": 920 + thoughts,
        },
        "modelVersion": "gemini-3-pro",
    }


def gemini_blocked_prompt() -> dict[str, Any]:
    """An answer of Gemini's generateContent for a prompt that its filter stopped."""
    return {
        "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
        "usageMetadata": {"promptTokenCount": 900, "totalTokenCount": 900},
        "modelVersion": "gemini-3-pro",
    }


RAW_GUARD = """
from safepyramid.answers.parse import answer_from_reply
from safepyramid.guards.base import Guard, Message, PolicyAdapter, Prompt

def read(reply, case):
    assert reply.stop_reason == "model_length" or reply.logprobs, "they were asked for"
    return answer_from_reply(reply, frozenset(case.rule_types))

def ask(case):
    return Prompt((Message("user", f"<|raw|>{case.conversation}\\nAnswer:"),), raw=True)

CONFIG = {"max_tokens": 50, "logprobs": True, "top_logprobs": 5, "temperature": 0.0}
guard = Guard("raw", per_policy=PolicyAdapter(ask, read, CONFIG))
"""
"""A guard file whose prompt is raw and whose parser insists on log-probabilities."""
