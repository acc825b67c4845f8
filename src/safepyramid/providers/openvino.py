"""`openvino/smollm2` and `openvino/gguf`: a model file inside this process, through OpenVINO.

Three to five times as fast on prompts as llama.cpp on x86 processors with AVX-512, one call at a
time. Reads GGUF files of the Llama, Qwen2 and Qwen3 families. Imports Inspect.
"""

from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from inspect_ai.model import ChatMessage, GenerateConfig, ModelAPI, ModelOutput, ModelUsage
from inspect_ai.tool import ToolChoice, ToolInfo

from safepyramid.errors import RunError
from safepyramid.local import SMOLLM2, fetch

DEFAULT_MAX_TOKENS = 2048
_CONTEXT = 8192
_STOPS = {"STOP": "stop", "LENGTH": "max_tokens"}


class OpenVinoAPI(ModelAPI):
    """A GGUF model in this process.

    Args:
        model_name: `smollm2`, or `gguf` with a path.
        base_url: Not used.
        api_key: Not used.
        config: As for every provider.
        path: The GGUF file of `openvino/gguf`.
        context: Tokens that prompt and answer may have together, where the model can hold as many.
        cache_prompt: Reuse the prefixes of earlier prompts: faster, but a reply may then depend
            on the calls before it.
    """

    def __init__(
        self,
        model_name: str,
        base_url: str | None = None,
        api_key: str | None = None,
        config: GenerateConfig = GenerateConfig(),  # noqa: B008
        path: str | None = None,
        context: int = _CONTEXT,
        cache_prompt: bool = False,
    ) -> None:
        super().__init__(model_name=model_name, config=config)
        if (path is not None) != (model_name == "gguf") or model_name not in ("smollm2", "gguf"):
            raise RunError(
                f"openvino/{model_name} cannot be served; allowed: smollm2, or gguf with "
                "-M path=FILE"
            )
        if path is not None and not Path(path).is_file():
            raise RunError(f"no file {path!r}; give the path of a GGUF model file")
        try:
            import openvino_genai
        except ImportError:
            raise RunError("this needs OpenVINO: pip install 'safepyramid[local-fast]'") from None
        self._genai = openvino_genai
        self._path = path
        self._context = context
        self._cache_prompt = cache_prompt
        self._pipeline: Any = None
        # The pipeline fails when it is entered twice, whatever max_connections says.
        self._one_at_a_time = anyio.Lock()

    async def generate(
        self,
        input: list[ChatMessage],
        tools: list[ToolInfo],
        tool_choice: ToolChoice,
        config: GenerateConfig,
    ) -> ModelOutput:
        """Answer a chat."""
        chat = [{"role": message.role, "content": message.text} for message in input]
        async with self._one_at_a_time:
            return await anyio.to_thread.run_sync(self._answer, chat, config)

    def _answer(self, chat: list[dict[str, str]], config: GenerateConfig) -> ModelOutput:
        if self._pipeline is None:
            self._load()
        tokenizer = self._pipeline.get_tokenizer()
        prompt = tokenizer.apply_chat_template(chat, add_generation_prompt=True)
        size = _count(tokenizer, prompt)
        if size >= self._context:
            return ModelOutput.from_content(
                self.model_name,
                f"the prompt has {size} tokens, the context {self._context}",
                stop_reason="model_length",
            )
        settings = self._settings(config, self._context - size)
        done = self._pipeline.generate([prompt], settings)
        reason = done.finish_reasons[0].name
        output = ModelOutput.from_content(
            self.model_name,
            done.texts[0],
            stop_reason=_STOPS.get(reason, "unknown"),  # type: ignore[arg-type]
        )
        made = done.perf_metrics.get_num_generated_tokens()
        output.usage = ModelUsage(input_tokens=size, output_tokens=made, total_tokens=size + made)
        return output

    def _load(self) -> None:
        path = fetch(SMOLLM2) if self._path is None else Path(self._path)
        scheduling = self._genai.SchedulerConfig()
        scheduling.enable_prefix_caching = self._cache_prompt
        self._pipeline = self._genai.LLMPipeline(str(path), "CPU", scheduler_config=scheduling)
        # The tokenizer cuts what is longer than the model's own limit, and says nothing.
        longest = _count(self._pipeline.get_tokenizer(), "a " * (self._context + 1))
        self._context = min(self._context, longest)

    def _settings(self, config: GenerateConfig, room: int) -> Any:
        settings = self._genai.GenerationConfig()
        settings.apply_chat_template = False
        settings.max_new_tokens = min(config.max_tokens or DEFAULT_MAX_TOKENS, room)
        if config.temperature:
            settings.do_sample, settings.temperature = True, config.temperature
            if config.top_p is not None:
                settings.top_p = config.top_p
        if config.seed is not None:
            settings.rng_seed = config.seed
        if config.stop_seqs:
            settings.stop_strings = set(config.stop_seqs)
        if config.response_schema is not None:
            schema = config.response_schema.json_schema.model_dump_json(exclude_none=True)
            settings.structured_output_config = self._genai.StructuredOutputConfig(
                json_schema=schema
            )
        return settings

    def max_connections(self) -> int:
        """One call at a time."""
        return 1


def _count(tokenizer: Any, text: str) -> int:
    tokens: int = tokenizer.encode(text, add_special_tokens=False).input_ids.shape[1]
    return tokens
