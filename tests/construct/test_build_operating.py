"""A run in a rough world: dead servers, odd replies, caches, answers that are set aside."""

import io
import json
import re
from pathlib import Path

import anyio
import pytest
from scripted_models import author, ballot, stage_of, votes
from wired import CHECKERS, WRITER, settings_file, spent

from safepyramid.construct.asking import _read
from safepyramid.construct.progress import Progress
from safepyramid.construct.questions import Question, user_prompt
from safepyramid.construct.records import Call, Journal
from safepyramid.construct.settings import Role
from safepyramid.errors import RunError
from servers import Response, completion, serving

READY = '{"ready": true}'


def is_trial(call):
    return "Answer with this JSON object" in call.text


# --- The trial -----------------------------------------------------------------------------------


def test_every_model_is_tried_once_before_anything_is_asked(run, tmp_path):
    with serving(lambda call: READY if is_trial(call) else author(call.text)) as server:
        settings = settings_file(tmp_path, server.address)
        done = run("run", "folder", "--settings", settings, "--trial")
        assert done.returncode == 0, done.stderr
        tried = [call for call in server.calls if is_trial(call)]
        assert sorted(call.body["model"] for call in tried) == sorted(
            name.partition("/")[2] for name in (WRITER, *CHECKERS)
        )
        assert server.calls[: len(tried)] == tried
        assert all("response_format" in call.body for call in tried)
        assert len(server.calls) == 4 + 14
        # nothing is left to ask: nothing is tried
        run("run", "folder", "--trial")
        assert len(server.calls) == 4 + 14
    assert "14 calls" in run("status", "folder").stdout


def test_only_models_that_may_be_asked_are_tried(run, tmp_path):
    with serving(lambda call: READY if is_trial(call) else author(call.text)) as server:
        settings = settings_file(tmp_path, server.address)
        run("run", "folder", "--settings", settings, "--trial", "--until", "conversation")
    assert [call.body["model"] for call in server.calls if is_trial(call)] == ["gpt-5.4"]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (
            Response(401, {"error": {"message": "bad key sk-planted-0123456789"}}),
            "openai/gpt-4o: the key is refused",
        ),
        (Response(404, {"error": {"message": "no such model"}}), "openai/gpt-4o: the model or the"),
        (completion(""), "openai/gpt-4o answers the trial call with nothing"),
    ],
)
def test_a_model_that_is_of_no_use_is_found_before_anything_is_paid(run, tmp_path, answer, why):
    def reply(call):
        return answer if call.body["model"] == "gpt-4o" else READY

    with serving(reply) as server:
        settings = settings_file(tmp_path, server.address)
        done = run("run", "folder", "--settings", settings, "--trial")
        assert all(map(is_trial, server.calls))
    assert done.returncode == 1
    (error,) = [line for line in done.stderr.split("\n") if line.startswith("Error")]
    assert why in error
    assert "sk-planted" not in done.stderr + done.stdout
    assert list(Journal(Path("folder")).all()) == []


# --- A dead server -------------------------------------------------------------------------------


def test_a_run_in_which_nothing_answers_fails_with_the_reason(run, tmp_path):
    with serving(lambda call: Response(500, {"error": {"message": "all is lost"}})) as server:
        settings = settings_file(tmp_path, server.address, conversations=3)
        done = run("run", "folder", "--settings", settings)
    assert done.returncode == 1
    (error,) = [line for line in done.stderr.split("\n") if line.startswith("Error")]
    assert error.startswith("Error: no question got a reply (3 failed: InternalServerError: ")
    assert "all is lost" in error
    # equal failures are one line, in the provider's words
    shown = run("status", "folder").stdout
    assert "3 × conversation: openai/gpt-5.4: error: InternalServerError" in shown
    assert "RetryError" not in shown
    assert "0x" not in shown


def test_one_reply_is_enough_for_a_run_not_to_be_in_vain(run, tmp_path):
    def reply(call):
        if "privacy" in call.text:
            return Response(500, {"error": {"message": "all is lost"}})
        return "I'm sorry, but I can't help with that."

    with serving(reply) as server:
        settings = settings_file(tmp_path, server.address, domains=["fraud", "privacy"])
        done = run("run", "folder", "--settings", settings)
    assert done.returncode == 0


def test_a_line_comes_also_while_nothing_comes_back(monkeypatch, capsys):
    monkeypatch.setattr("safepyramid.construct.progress.EVERY", 0.5)

    async def wait() -> None:
        with progress.asking():
            async with anyio.create_task_group() as group:
                group.start_soon(progress.beat)
                await anyio.sleep(2.5)
                group.cancel_scope.cancel()

    progress = Progress(3)
    anyio.run(wait)
    lines = capsys.readouterr().err.strip().split("\n")
    assert len(lines) >= 2
    assert re.search(r"0 of 3 complete · .*1 under way, the oldest for \d s", lines[0])
    assert "under way" not in progress.line()


# --- Odd replies ---------------------------------------------------------------------------------


class _Full(io.StringIO):
    """A terminal whose other end is gone."""

    def isatty(self):
        return True

    def write(self, text):
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize("stderr", [_Full(), None])
def test_a_line_that_cannot_be_shown_ends_no_run(monkeypatch, lab, stderr):
    monkeypatch.setattr("safepyramid.construct.progress.RENEWED", 0.0)
    monkeypatch.setattr("sys.stderr", stderr)
    assert all(each.standing == "complete" for each in lab.make(quiet=False))


def test_the_last_line_on_a_terminal_leaves_nothing_of_the_one_before(monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: True)
    monkeypatch.setattr("sys.stderr", screen)
    with Progress(3):
        pass
    assert screen.getvalue().endswith("\x1b[K\n")


def test_a_reply_that_breaks_its_reader_is_malformed():
    def read(text):
        raise ValueError("too many digits")

    question = Question("vote", "x", Role(model="a/b"), user_prompt("?"), "", Role, read, "")
    assert _read(question, Call("hello", "stop")) == (
        "malformed",
        "ValueError: too many digits",
        None,
    )
    assert _read(question, Call("hello", "max_tokens"))[0] == "truncated"


def test_a_reason_with_a_number_of_any_length_costs_nothing_else(lab):
    def script(told):
        if stage_of(told) != "vote":
            return author(told)
        said = ballot(told)
        said["rules"][0]["answers"][0]["reason"] = "As in Rule " + "9" * 5000
        return json.dumps(said)

    lab.script(anna=script)
    (outcome,) = lab.make()
    assert outcome.standing == "complete"
    paid = sum(len(record.calls) for record in Journal(lab.folder).all())
    assert paid == len(lab.calls)


# --- Secrets -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "role",
    [
        {"args": {"default_headers": {"X-Api-Key": "planted"}}},
        {"config": {"extra_headers": {"X-Mine": "Bearer sk-planted-0123456789"}}},
        {"base_url": "https://host/v1?api_key=planted-0123456789"},
    ],
)
def test_a_key_in_an_older_manifest_is_not_shown(lab, role):
    lab.make(last="conversation")
    path = lab.folder / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    manifest["settings"]["models"]["l0"] |= role
    path.write_text(json.dumps(manifest), encoding="utf-8")
    with pytest.raises(RunError, match="was begun otherwise") as error:
        lab.make()
    assert "planted" not in str(error.value)


# --- Caches --------------------------------------------------------------------------------------


def test_what_a_policys_calls_share_is_marked_for_the_providers_cache(run, tmp_path, monkeypatch):
    pytest.importorskip("anthropic")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-planted-0123456789")

    def reply(call):
        if call.path != "/v1/messages":
            return author(call.text)
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-opus-4-6",
            "content": [{"type": "text", "text": votes(call.text)}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 1000, "output_tokens": 100},
        }

    with serving(reply) as server:
        path = settings_file(tmp_path, server.address)
        settings = json.loads(path.read_text(encoding="utf-8"))
        settings["models"]["validators"][0] = {
            "model": "anthropic/claude-opus-4-6",
            "base_url": server.address,
            "structured": False,
            "config": {"max_tokens": 4000, "max_retries": 0},
        }
        path.write_text(json.dumps(settings), encoding="utf-8")
        run("run", "folder", "--settings", path, "--until", "L0")
        (call,) = [call for call in server.calls if call.path == "/v1/messages"]
    shared, own = call.body["messages"][0]["content"]
    assert shared["cache_control"]["type"] == "ephemeral"
    assert "Check these rules" not in shared["text"]
    assert "Check these rules" in own["text"]


def test_what_is_set_aside_does_not_come_from_the_cache_again(run, tmp_path, monkeypatch):
    monkeypatch.setenv("INSPECT_CACHE_DIR", str(tmp_path / "cache"))
    with serving(lambda call: author(call.text)) as server:
        settings = settings_file(tmp_path, server.address, cache=True)
        until = ("--until", "conversation")
        run("run", "folder", "--settings", settings, *until)
        for calls in (2, 3):
            run("again", "folder", "CONVERSATION")
            run("run", "folder", *until)
            assert len(server.calls) == calls
        run("run", "other", "--settings", settings, *until)
        assert len(server.calls) == 3


def test_a_correction_after_a_cached_reply_is_paid_for(run, tmp_path, monkeypatch):
    monkeypatch.setenv("INSPECT_CACHE_DIR", str(tmp_path / "cache"))
    fails = {"on": True}

    def reply(call):
        if "cannot be used" not in call.text:
            return "Sure!"
        if fails["on"]:
            return Response(400, {"error": {"message": "no more today"}})
        return author(call.text)

    with serving(reply) as server:
        settings = settings_file(tmp_path, server.address, cache=True)
        until = ("--settings", settings, "--until", "conversation")
        run("run", "one", *until)
        fails["on"] = False
        run("run", "two", *until)
        assert len(server.calls) == 3
    assert spent(run, "two") == spent(run, "one") > 0  # one first reply, one correction


# --- Answers that nothing rests on any more ------------------------------------------------------


def test_status_leaves_out_answers_that_are_no_longer_used(run, tmp_path):
    refusing = {"on": True}

    def reply(call):
        if stage_of(call.text) == "l0" and refusing["on"]:
            return "I'm sorry, but I can't help with that."
        return author(call.text)

    with serving(reply) as server:
        settings = settings_file(tmp_path, server.address)
        run("run", "folder", "--settings", settings, "--until", "L0")
        assert "l0: openai/gpt-5.4: refused" in run("status", "folder").stdout
        refusing["on"] = False
        run("again", "folder", "l0")
        shown = run("status", "folder").stdout
        assert "refused" not in shown.split("rules written")[0].split("answers by stage")[1]
        assert "no longer used, set aside or put otherwise since: 2" in shown
        run("run", "folder", "--until", "L0")
    shown = run("status", "folder").stdout
    assert "answers that could not be used" not in shown
    found = json.loads(run("status", "folder", "--json").stdout)
    assert (found["unused"], found["unreadable"]) == (1, {})  # the second attempt's
