"""`safepyramid build` as a person uses it: over the wire, priced, stopped, resumed, released."""

import json
from importlib.resources import files

import pytest
from scripted_models import author, stage_of
from wired import WRITER, counted, price_of, settings_file, spent

from safepyramid.cli.build import build
from safepyramid.dataset.load import load_benchmark
from servers import Response, completion, serving


def test_the_plan_says_what_each_role_costs(run, tmp_path):
    done = run("plan", "--conversations", "2", "--domain", "fraud", "--domain", "privacy")
    assert done.returncode == 0, done.stderr
    assert "4 conversations, 12 cases" in done.stdout
    assert "anthropic/claude-opus-4-6" in done.stdout

    settings = settings_file(tmp_path)
    found = json.loads(run("plan", "--settings", settings, "--json").stdout)
    rows = {(row["role"], row["model"]): row for row in found["roles"]}
    # in a run of one there may be a second attempt, and a correction
    assert rows["conversation", WRITER]["calls"] == [1, 3]
    # one call a validator and level; the framework is a call of its own
    assert rows["l2", WRITER]["calls"][0] == 2
    for row in rows.values():
        low, high = row["price"]
        assert 0 < low < high
        assert row["input_tokens"][0] <= row["input_tokens"][1]

    unknown = run("plan", "--model", "l0=nowhere/model", "--domain", "fraud")
    assert "No price is known for nowhere/model" in unknown.stdout
    usage = run("plan", "--model", "l3=a/b")
    assert usage.returncode == 2
    assert "roles: conversation, l0, l1, l2" in usage.stderr


def test_a_run_stops_at_its_cost_limit_and_goes_on(run, tmp_path):
    with serving(counted) as server:
        settings = settings_file(tmp_path, server.address)
        run("run", "whole", "--settings", settings)
        assert len(server.calls) == 14
        # conversation and L0 are paid for, and no votes
        limit = sum(map(price_of, server.calls[:2]))
        total = sum(map(price_of, server.calls))
        server.calls.clear()

        stopped = run("run", "folder", "--settings", settings, "--cost-limit", f"{limit:.9f}")
        assert stopped.returncode == 1
        (error,) = [line for line in stopped.stderr.split("\n") if line.startswith("Error")]
        assert "cost limit" in error
        assert "higher --cost-limit" in error
        assert len(server.calls) == 2
        assert "frau-001 at L0: not asked yet" in stopped.stdout

        done = run("run", "folder")  # under the folder's own settings
        assert done.returncode == 0, done.stderr
        assert "1 of 1 conversations complete" in done.stdout
        assert len(server.calls) == 14
        for call in server.calls:  # the schema goes along
            schema = call.body["response_format"]["json_schema"]
            assert schema["strict"] is True
            assert_closed(schema["schema"])
        found = json.loads(run("status", "folder", "--json").stdout)
    assert spent(run, "folder") == pytest.approx(total)
    assert found["standings"] == {"complete": 1}

    made = run("release", "folder", "-o", "out", "--version", "2.0", "--name", "Mine")
    assert made.returncode == 0, made.stderr
    assert "3 cases of 1 conversations in out" in made.stdout
    assert load_benchmark(tmp_path / "out" / "benchmark.json")[0]["version"] == "2.0"
    assert "sk-planted" not in "".join(p.read_text() for p in (tmp_path / "folder").glob("*.js*"))

    again = run("release", "folder", "-o", "out")
    assert (again.returncode, again.stderr.strip()) == (
        1,
        "Error: out is not empty; a release needs a folder of its own",
    )


def assert_closed(schema):
    """What providers ask of a schema that they enforce: every field required, no others."""
    if schema.get("type") == "object":
        assert schema["additionalProperties"] is False
        assert set(schema["required"]) == set(schema["properties"])
    for part in (*schema.get("properties", {}).values(), *schema.get("anyOf", ())):
        assert_closed(part)
    if "items" in schema:
        assert_closed(schema["items"])


def test_a_cached_reply_costs_nothing(run, tmp_path, monkeypatch):
    monkeypatch.setenv("INSPECT_CACHE_DIR", str(tmp_path / "cache"))
    with serving(lambda call: author(call.text)) as server:
        settings = settings_file(tmp_path, server.address, cache=True)
        for folder, calls in (("one", 5), ("two", 5)):
            run("run", folder, "--settings", settings, "--until", "L0")
            assert len(server.calls) == calls
    prices = [
        sum(
            bill["price"]
            for bill in json.loads(run("status", folder, "--json").stdout)["bills"].values()
        )
        for folder in ("one", "two")
    ]
    assert prices[0] > 0
    assert prices[1] == 0


def test_status_tells_what_failed_and_why(run, tmp_path):
    def reply(call):
        if stage_of(call.text) == "l0":
            return completion("I'm sorry, but I can't help with that.")
        if "privacy" in call.text:
            return Response(401, {"error": {"message": "invalid key sk-planted-0123456789"}})
        return author(call.text)

    with serving(reply) as server:
        settings = settings_file(tmp_path, server.address, domains=["fraud", "privacy"])
        run("run", "folder", "--settings", settings)
    shown = run("status", "folder").stdout

    assert "0 of 2 conversations complete" in shown
    assert "frau-001 at L0: openai/gpt-5.4: refused: declined in words" in shown
    assert "priv-001 at conversation: openai/gpt-5.4: " in shown
    assert "sk-planted" not in shown
    assert "l0: 2 refused" in shown
    assert "attempts set aside: L0/refused 2" in shown


def test_a_stage_can_be_made_again(run, tmp_path):
    with serving(lambda call: author(call.text)) as server:
        settings = settings_file(tmp_path, server.address)
        run("run", "folder", "--settings", settings, "--until", "L0")
        assert len(server.calls) == 5
        set_aside = run("again", "folder", "vote", "--only", "frau-001")
        assert "3 answers set aside" in set_aside.stdout
        run("run", "folder", "--until", "L0")
        assert len(server.calls) == 8
        run("again", "folder", "l0")
        run("run", "folder", "--until", "L0")
        # the same rules again: the votes on them still hold
        assert len(server.calls) == 9
        unknown = run("again", "folder", "l0", "--only", "priv-001")
        assert (
            "unknown conversation priv-001; this run makes frau-001 to frau-001" in unknown.stderr
        )


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("status", "."), "is no run folder; begin one with `safepyramid build run`"),
        (("run", "x", "--settings", "none.yaml"), "cannot read settings 'none.yaml'"),
        (("run", "x", "--domain", "frog"), "unknown domain frog; the catalogue has"),
        (
            ("run", "x", "--domain", "fraud", "--model", "conversation=nope/m"),
            "model 'nope/m' cannot be used: Model API nope",
        ),
        (("run", "x", "--validator", "a/b"), "validators: 1 are left for L0"),
    ],
)
def test_errors_are_one_line_before_anything_is_spent(run, arguments, error):
    done = run(*arguments)
    assert done.returncode == 1
    (line,) = [line for line in done.stderr.strip().split("\n") if line.startswith("Error")]
    assert error in line


def test_a_cost_limit_needs_prices(run, tmp_path):
    settings = settings_file(tmp_path)
    done = run("run", "x", "--settings", settings, "--validator", "openai/gpt-4.1", "--validator",
               "openai/gpt-4o", "--model", "l0=mockllm/model", "--cost-limit", "5")  # fmt: skip
    assert done.returncode == 1
    assert "no price is known for mockllm/model, so --cost-limit cannot hold" in done.stderr


def test_sources_are_compiled_and_checked(run, tmp_path):
    sources = tmp_path / "sources"
    sources.mkdir()
    bundled = files("safepyramid") / "data" / "sample" / "frau-001.yaml"
    path = sources / "frau-001.yaml"
    path.write_text(bundled.read_text(encoding="utf-8"), encoding="utf-8")

    missing = run("assemble", sources, "-o", "out", "--check")
    assert (missing.returncode, "is missing: run" in missing.stderr) == (1, True)
    assert "3 cases in out" in run("assemble", sources, "-o", "out").stdout
    assert run("assemble", sources, "-o", "out", "--check").returncode == 0
    metadata, cases = load_benchmark(tmp_path / "out" / "benchmark.json")
    assert (metadata["version"], len(cases)) == ("0.1", 3)

    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("Good. One more thing.", "Good. Another thing."), encoding="utf-8")
    stale = run("assemble", sources, "-o", "out", "--check")
    assert "benchmark.json is stale" in stale.stderr


def test_the_demo_needs_no_model(run, tmp_path):
    pytest.importorskip("safepyramid.construct.procedural")
    done = run("demo", "--conversations", "2", "-o", "out")
    assert done.returncode == 0, done.stderr
    assert len(load_benchmark(tmp_path / "out" / "benchmark.json")[1]) == 6


def test_every_command_and_option_says_what_it_is_for():
    for command in build.commands.values():
        assert command.help
        assert all(p.help for p in command.params if p.param_type_name == "option")
