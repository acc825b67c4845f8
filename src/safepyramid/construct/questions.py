"""Questions to models: a prompt, the form of the answer, and how it is read."""

import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from pydantic import BaseModel

from safepyramid.construct.reading import Reader
from safepyramid.construct.records import Record
from safepyramid.construct.settings import Role
from safepyramid.guards.base import Message, Prompt
from safepyramid.prompts.render import fill, prompts_hash, replaced


@dataclass(frozen=True, slots=True)
class Question:
    """One thing that one model is asked."""

    stage: str
    id: str
    role: Role
    prompt: Prompt
    templates: str
    """Hash of the templates that the prompt was made from."""
    form: type[BaseModel]
    """The form of the answer; its schema goes to providers that take one."""
    read: Reader
    correction: str
    """Template of the one further try: gap `complaint`."""

    @property
    def asked(self) -> str:
        """A hash of all that decides the answer: model, settings and every word of the prompt."""
        told = [self.role.model_dump(), [(m.role, m.text) for m in self.prompt.messages]]
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode("ascii")).hexdigest()[:16]


Ask = Callable[[Question], Awaitable[Record | None]]
"""Gets a question answered. None where it is not asked now."""


class Templates:
    """The prompt templates of the construction.

    Args:
        folder: Files here replace the bundled ones of the same name.

    Raises:
        GuardError: The folder is missing or empty, or a file in it replaces nothing, cannot be
            read or has other gaps than the one it replaces.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        ours = {
            entry.name.removesuffix(".md"): entry.read_text(encoding="utf-8")
            for entry in resources.files("safepyramid.construct").joinpath("prompts").iterdir()
            if entry.name.endswith(".md")
        }
        self._texts = ours if folder is None else replaced(ours, folder)

    def __getitem__(self, name: str) -> str:
        return self._texts[name]

    def fill(self, name: str, **values: str) -> str:
        """A template with its gaps filled."""
        return fill(self._texts[name], **values)

    def hash(self, *names: str) -> str:
        """A short digest of these templates; of all without a name."""
        return prompts_hash({name: self._texts[name] for name in names or self._texts})

    def hashes(self) -> dict[str, str]:
        """The digest of each template."""
        return {name: self.hash(name) for name in sorted(self._texts)}


def user_prompt(*parts: str) -> Prompt:
    """A prompt of one user message; what several calls share comes first."""
    return Prompt((Message("user", parts[0] if len(parts) == 1 else parts),))
