"""`local/smollm2` and `local/gguf`: a model file on this machine, served while the run lasts.

The server is started with the first call and shared by all that ask for the same settings. Chat
goes through Inspect's OpenAI-compatible provider; a raw prompt goes to the same server's
completions endpoint. Imports Inspect.
"""

import importlib.util
from pathlib import Path
from typing import Any

import anyio.to_thread
from inspect_ai.model import ChatMessage, GenerateConfig, ModelOutput
from inspect_ai.model._providers.openai_compatible import OpenAICompatibleAPI
from inspect_ai.tool import ToolChoice, ToolInfo
from openai import APIStatusError

from safepyramid.errors import RunError
from safepyramid.local import SMOLLM2, fetch
from safepyramid.providers.completions import Generated, complete, too_long
from safepyramid.providers.routes import RAW, is_too_long
from safepyramid.providers.server import Server, Settings, serve

MODELS = ("smollm2", "gguf")
_NOT_STARTED = "http://127.0.0.1:0/v1"


class LocalAPI(OpenAICompatibleAPI):
    """A GGUF model behind a llama.cpp server in a child process.

    Args:
        model_name: `smollm2`, or `gguf` with a path.
        base_url: Not used.
        api_key: Not used; each server gets a random key.
        config: As for every provider.
        path: The GGUF file of `local/gguf`.
        context: Tokens of prompt and answer together. The longest published cases need about
            6,500 and what the model thinks.
        slots: Calls that are worked on at once. Each has its own context, so memory grows.
        threads: Processor threads; 0: all cores.
        cache_prompt: Reuse the prompt prefix that a slot has seen. Much faster for the per-rule
            protocol; but a reply may then depend on the calls before it, so it is off.
    """

    def __init__(
        self,
        model_name: str,
        base_url: str | None = None,
        api_key: str | None = None,
        config: GenerateConfig = GenerateConfig(),  # noqa: B008
        path: str | None = None,
        context: int | None = None,
        slots: int = 1,
        threads: int = 0,
        cache_prompt: bool = False,
        **unknown: Any,
    ) -> None:
        _check(model_name, base_url, path, slots, unknown)
        self._path = path
        self._context = context or (8192 if path is None else 16384)
        self._slots = slots
        self._threads = threads
        self._cache_prompt = bool(cache_prompt)
        self._server: Server | None = None
        super().__init__(
            model_name=model_name,
            base_url=_NOT_STARTED,
            api_key="not started",
            config=config,
            service="local",
            max_retries=0,  # Inspect's are the ones that the user sets
        )

    async def generate(
        self,
        input: list[ChatMessage],
        tools: list[ToolInfo],
        tool_choice: ToolChoice,
        config: GenerateConfig,
    ) -> Generated:
        """Answer a chat, or complete a message that is marked as raw."""
        await self.start()
        if (input[0].metadata or {}).get(RAW):
            extra = {"cache_prompt": self._cache_prompt, **(config.extra_body or {})}
            return await complete(self, input, config.model_copy(update={"extra_body": extra}))
        return await super().generate(input, tools, tool_choice, config)

    async def start(self) -> None:
        """Fetch the model and start its server, where that is still to do."""
        server = await anyio.to_thread.run_sync(self._serve)
        if server is not self._server:
            self._server = server
            self.base_url, self.api_key = f"{server.address}/v1", server.key
            self.http_client = self._create_http_client()
            self.initialize()

    def _serve(self) -> Server:
        path = fetch(SMOLLM2) if self._path is None else Path(self._path)
        return serve(Settings(str(path), self._context, self._slots, self._threads))

    def completion_params(self, config: GenerateConfig, tools: bool) -> dict[str, Any]:
        """What goes into a chat request."""
        params = super().completion_params(config, tools)
        params["extra_body"] = {
            "cache_prompt": self._cache_prompt,
            **params.get("extra_body", {}),
        }
        return params

    def handle_bad_request(self, ex: APIStatusError) -> ModelOutput | Exception:
        """What a 4xx answer means."""
        return too_long(self, ex) if is_too_long(str(ex)) else super().handle_bad_request(ex)

    def max_connections(self) -> int:
        """As many calls as the server has slots: others would only wait there."""
        return self._slots


def _check(
    model_name: str, base_url: str | None, path: str | None, slots: int, unknown: dict[str, Any]
) -> None:
    if importlib.util.find_spec("xllamacpp") is None:
        raise RunError("local models need llama.cpp: pip install 'safepyramid[local]'")
    if unknown:
        raise RunError(
            f"local/{model_name} has no argument {sorted(unknown)[0]!r}; allowed: path, context, "
            "slots, threads, cache_prompt"
        )
    if model_name not in MODELS:
        raise RunError(
            f"unknown local model {model_name!r}; allowed: smollm2, or gguf with -M path=FILE"
        )
    if base_url is not None:
        raise RunError(
            "local models start a server of their own: leave --model-base-url out, or use "
            "openai-api/NAME/MODEL for a server that runs already"
        )
    if (path is not None) != (model_name == "gguf"):
        raise RunError("local/gguf needs -M path=FILE, and no other local model takes a path")
    if path is not None and not Path(path).is_file():
        raise RunError(f"no file {path!r}; give the path of a GGUF model file")
    if slots < 1:
        raise RunError(f"slots is {slots}, must be at least 1")
