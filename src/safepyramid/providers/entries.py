"""The names under which Inspect finds our model providers. Imports Inspect.

What a provider needs is imported when a model of it is asked for.
"""

from inspect_ai.model import ModelAPI, modelapi


@modelapi(name="completions")
def completions() -> type[ModelAPI]:
    """Raw prompts to an OpenAI-compatible server."""
    from safepyramid.providers.completions import CompletionsAPI

    return CompletionsAPI


@modelapi(name="local")
def local() -> type[ModelAPI]:
    """A model file on this machine, through llama.cpp."""
    from safepyramid.providers.local import LocalAPI

    return LocalAPI


@modelapi(name="openvino")
def openvino() -> type[ModelAPI]:
    """A model file on this machine, through OpenVINO: faster on x86."""
    from safepyramid.providers.openvino import OpenVinoAPI

    return OpenVinoAPI
