"""The models of a run: made, tried, and asked in a form. Imports Inspect."""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import anyio
from inspect_ai.model import GenerateConfig, Model, ResponseSchema
from inspect_ai.util import JSONSchema, json_schema
from pydantic import BaseModel

from safepyramid.construct.settings import Role, Settings
from safepyramid.construct.work import STEPS
from safepyramid.errors import RunError
from safepyramid.guards.base import Message, Prompt
from safepyramid.providers.calls import open_model
from safepyramid.providers.watched import watched
from safepyramid.runs.trial import reach
from safepyramid.schema import Level

DEFAULTS = {"max_retries": 8, "timeout": 1800, "attempt_timeout": 600}
"""How hard to knock, unless a role says otherwise."""

_TRIAL = (Message("user", 'Answer with this JSON object and nothing else: {"ready": true}'),)
_TRIAL_FORM = {
    "type": "object",
    "properties": {"ready": {"type": "boolean"}},
    "required": ["ready"],
    "additionalProperties": False,
}


def key_of(role: Role) -> str:
    """What tells a role's model from others: its name, settings and address."""
    return role.model_dump_json()


def make_models(roles: Iterable[Role], max_connections: int | None) -> dict[str, Model]:
    """The model of each role, by `key_of`, made before anything is spent.

    Raises:
        RunError: One cannot be used: an unknown setting, a missing key or package.
    """
    distinct = {key_of(role): role for role in roles}
    return {key: _model(role, max_connections) for key, role in distinct.items()}


def _model(role: Role, max_connections: int | None) -> Model:
    given = {**DEFAULTS, **role.config}
    if max_connections is not None:
        given["max_connections"] = max_connections
    if unknown := sorted(set(given) - set(GenerateConfig.model_fields)):
        raise RunError(f"model {role.model!r}: no such generation setting: {', '.join(unknown)}")
    model = open_model(
        role.model,
        role.base_url,
        role.args,
        given,
        memoize=False,  # a client of an earlier run is bound to that run's event loop
    )
    return watched(model)


def needed_roles(settings: Settings, last: str) -> list[Role]:
    """The roles that a run may ask up to a step, each once."""
    models = settings.models
    roles = [models.conversation]
    for level in Level:
        if STEPS.index(level) <= STEPS.index(last):
            roles += [models.author(level), *models.checkers(level)]
    return list({key_of(role): role for role in roles}.values())


async def try_models(models: Mapping[str, Model], roles: Iterable[Role]) -> None:
    """Call the model of each role once, with a question of a few words, all at the same time.

    Raises:
        RunError: Some are of no use now; the reason of the first, in one line without secrets.
    """
    faults: dict[str, RunError] = {}
    roles = list(roles)

    async def ask(role: Role) -> None:
        model = models[key_of(role)]
        prompt = Prompt(_TRIAL, schema=_TRIAL_FORM if role.structured else None)
        try:
            reply = await reach(model, prompt, model.config.model_dump(exclude_none=True))
            if reply.error:
                raise RunError(f"{role.model}: the trial call failed ({reply.error})")
            if not reply.text.strip() and not reply.reasoning.strip():
                raise RunError(
                    f"{role.model} answers the trial call with nothing; check the model, its "
                    "template and max_tokens"
                )
        except RunError as error:
            faults[key_of(role)] = error

    async with anyio.create_task_group() as group:
        for role in roles:
            group.start_soon(ask, role)
    for role in roles:
        if key_of(role) in faults:
            raise faults[key_of(role)]


@cache
def asked_form(stage: str, form: type[BaseModel]) -> GenerateConfig:
    """The setting that asks a provider to keep its answer to a form."""
    schema = _Schema(name=stage, json_schema=_plain(json_schema(form)), strict=True)
    return GenerateConfig(response_schema=schema)


class _Schema(ResponseSchema):
    def __deepcopy__(self, memo: Any = None) -> "_Schema":
        return self  # never changed, and Inspect copies the settings of every call


def _plain(schema: JSONSchema) -> JSONSchema:
    """A schema with structure only: what else a value must be is checked here, not there."""
    return JSONSchema(
        type=schema.type,
        enum=schema.enum,
        items=_plain(schema.items) if schema.items else None,
        properties={name: _plain(part) for name, part in schema.properties.items()}
        if schema.properties
        else None,
        additionalProperties=False if schema.properties else None,
        anyOf=[_plain(part) for part in schema.anyOf] if schema.anyOf else None,
        required=schema.required,
    )
