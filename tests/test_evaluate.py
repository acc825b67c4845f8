"""Both protocols end to end, against a real server over a real socket, good replies and bad."""

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from running import KEY, Run, command
from safepyramid.dataset.load import load_benchmark, write_benchmark
from safepyramid.errors import RunError
from safepyramid.results.logs import read_header
from safepyramid.results.read import read_results
from safepyramid.runs.evaluate import Request, _lock
from safepyramid.schema import Case, RuleType, State
from servers import Call, Response, completion, serving

MY_GUARD = Path(__file__).parents[1] / "examples/my_guard.py"
GOOD = '{"analysis": "…", "violated_rules": [{"rule": 3, "explanation": "turn 2"}]}'


def case_in(call: Call, cases: list[Case]) -> Case:
    """Which case a request is about."""
    found = [case for case in cases if case.policy in call.text]
    if not found:  # per rule: the framework and the conversation tell the level only in part
        found = [case for case in cases if case.conversation in call.text]
    return found[0]


def of_model(address: str) -> list[str]:
    return ["--model", "openai-api/local/m", "--model-base-url", f"{address}/v1", "--no-trial"]


def exported(safepyramid: Run, logs: Path) -> list[dict[str, Any]]:
    """The result lines of the newest log, header left out."""
    log = max(logs.glob("*.eval"), key=lambda path: path.stat().st_mtime)
    done = safepyramid("export", log, "-o", logs / "lines.jsonl")
    assert done.returncode == 0, done.stderr
    lines = (logs / "lines.jsonl").read_text(encoding="utf-8").split("\n")
    return [row for line in lines if line and (row := json.loads(line)).get("kind") != "header"]


def result_of(safepyramid: Run, logs: Path, dataset: Path | str = "sample") -> dict[str, Any]:
    log = max(logs.glob("*.eval"), key=lambda path: path.stat().st_mtime)
    done = safepyramid("score", log, "--dataset", dataset, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_nothing_but_eval_shows_the_lexical_baseline_on_the_sample(safepyramid: Run) -> None:
    done = safepyramid("eval")
    assert done.returncode == 0, done.stderr
    assert "lexical · per_policy · sample" in done.stdout
    assert "random" in done.stdout
    assert "36/36" in done.stdout
    assert "answered 36" in done.stdout


def test_a_perfect_model_scores_all_in_both_protocols(
    safepyramid: Run, sample: list[Case], tmp_path: Path
) -> None:
    by_policy = {case.policy: case for case in sample}

    def script(call: Call) -> str:
        case = next(case for policy, case in by_policy.items() if policy in call.text)
        return json.dumps({"violated_rules": sorted(case.ground_truth_violations)})

    with serving(script) as server:
        done = safepyramid("eval", *of_model(server.address), "--log-dir", tmp_path / "logs")
    assert done.returncode == 0, done.stderr
    groups = result_of(safepyramid, tmp_path / "logs")["groups"]
    assert groups["ALL"]["rmr"] == groups["ALL"]["rmr_at"]["1.0"] == 1.0
    assert groups["ALL"]["rdr"] == 0.0
    assert len(server.calls) == 36


def test_per_rule_asks_every_rule_but_conditionals_and_aggregates(
    safepyramid: Run, sample: list[Case], tmp_path: Path
) -> None:
    first = sample[0]
    texts = {entry.text: entry for entry in first.rubric}

    def script(call: Call) -> str:
        target = call.text.split("The target rule:")[1].split("Other rules")[0]
        entry = next(entry for text, entry in texts.items() if text in target)
        return json.dumps({"verdict": "violated" if entry.violated else "not_violated"})

    with serving(script) as server:
        done = safepyramid(
            *("eval", "--protocol", "per_rule", "--limit", "1", "--log-dir", tmp_path / "logs"),
            *of_model(server.address),
        )
    assert done.returncode == 0, done.stderr
    targets = [entry for entry in first.rubric if entry.type is not RuleType.CONDITIONAL]
    assert len(server.calls) == len(targets)
    lines = exported(safepyramid, tmp_path / "logs")
    assert {line["rule"] for line in lines if line["pred"]} == first.ground_truth_violations
    # the type decides the label for distractors: it must not be in the prompt
    for call in server.calls:
        assert not any(kind.value in call.text.lower() for kind in RuleType)


def test_per_rule_prompts_of_a_case_share_their_beginning(
    safepyramid: Run, sample: list[Case], tmp_path: Path
) -> None:
    with serving(lambda call: '{"verdict": "violated"}') as server:
        safepyramid(
            *("eval", "--protocol", "per_rule", "--limit", "3", "--log-dir", tmp_path / "logs"),
            *of_model(server.address),
        )
    beginnings: dict[str, set[str]] = {}
    for call in server.calls:
        before, _, _ = call.text.partition("The target rule:")
        conversation = case_in(call, sample[:3]).conversation_id
        beginnings.setdefault(conversation, set()).add(before)
        assert len(before) >= 0.80 * len(call.text)
    # at one conversation: one beginning for L0 and L1 together, one for L2's framework
    assert all(len(found) <= 2 for found in beginnings.values())


STATES: dict[str, tuple[Any, State, int]] = {
    # reply on the wire -> state, number of calls
    "plain": (GOOD, State.ANSWERED, 1),
    "empty set": ('{"violated_rules": []}', State.ANSWERED, 1),
    "bare list": ("[1]", State.ANSWERED, 1),
    "fenced": (f"```json\n{GOOD}\n```", State.ANSWERED, 1),
    "thinking in the text": (f"<think>Rule 1?</think>{GOOD}", State.ANSWERED, 1),
    "thinking apart": (completion(GOOD, reasoning="Rule 1?"), State.ANSWERED, 1),
    "harmony channels": (
        f"<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>{GOOD}",
        State.ANSWERED,
        1,
    ),
    "line separator and markup": (GOOD.replace("…", "\u2028 [bold]<b>"), State.ANSWERED, 1),
    "prose": ("I checked rules 1 to 12; none is violated.", State.UNPARSED, 1),
    "two answers": ('{"violated_rules": [3]} wait {"violated_rules": []}', State.UNPARSED, 1),
    "null content": (completion(None), State.UNPARSED, 1),
    "empty content": (completion(""), State.UNPARSED, 1),
    "refusal in words": ("I’m sorry, but I can’t help with that.", State.REFUSED, 1),
    "refusal field": (completion(None, refusal="I can't help with that."), State.REFUSED, 1),
    "content filter": (completion(None, finish="content_filter"), State.BLOCKED, 1),
    "content filter after some text": (
        completion('{"violated_rules": [', finish="content_filter"),
        State.BLOCKED,
        1,
    ),
    "cut by length": (completion(GOOD[:40], finish="length"), State.TRUNCATED, 1),
    "thinking ate the length": (
        completion("", finish="stop", output_tokens=4000, reasoning_tokens=3999),
        State.TRUNCATED,
        1,
    ),
    "bad request": (
        Response(400, {"error": {"message": "unsupported", "code": "unsupported_value"}}),
        State.ERROR,
        1,
    ),
    # a rate limit to Inspect: two retries are two more calls, the client adds none
    "quota is gone": (
        Response(429, {"error": {"message": "no", "code": "insufficient_quota"}}),
        State.ERROR,
        3,
    ),
}
RETRIED: dict[str, Any] = {
    "rate limit": Response(429, {"error": {"message": "slow down"}}, {"Retry-After": "1"}),
    "internal error": Response(500, {"error": {"message": "oops"}}),
    "bad gateway": Response(502, "<html>bad gateway</html>"),
    "unavailable": Response(503, {"error": {"message": "later"}}),
    "overloaded": Response(529, {"error": {"message": "overloaded"}}),
    "dead connection": Response(hang_up=True),
}


def test_every_reply_ends_in_its_state_and_no_case_is_lost(
    safepyramid: Run, sample: list[Case], tmp_path: Path
) -> None:
    """One run, one case a kind of reply: the right state and the right number of calls each."""
    kinds = list(STATES) + list(RETRIED)
    assert len(kinds) <= len(sample)
    chosen = dict(zip((case.id for case in sample), kinds, strict=False))

    def script(call: Call) -> Any:
        kind = chosen.get(case_in(call, sample).id, "plain")
        if kind in RETRIED:
            return RETRIED[kind] if call.attempt == 1 else GOOD
        return STATES[kind][0]

    with serving(script) as server:
        done = safepyramid(
            *("eval", "--max-retries", "2", "--log-dir", tmp_path / "logs"),
            *of_model(server.address),
        )
    assert done.returncode == 0, done.stderr
    calls: dict[str, int] = {}
    for call in server.calls:
        case_id = case_in(call, sample).id
        calls[case_id] = calls.get(case_id, 0) + 1
    states = {line["id"]: line["state"] for line in exported(safepyramid, tmp_path / "logs")}
    found = {kind: (states[case_id], calls[case_id]) for case_id, kind in chosen.items()}
    expected = {kind: (state.value, count) for kind, (_, state, count) in STATES.items()}
    expected |= {kind: (State.ANSWERED.value, 2) for kind in RETRIED}
    assert found == expected
    result = result_of(safepyramid, tmp_path / "logs")
    assert sum(result["states"]["ALL"].values()) == 36 if "ALL" in result["states"] else True
    assert result["groups"]["ALL"]["total"] == 36
    assert result["groups"]["ALL"]["scored"] == list(states.values()).count("answered")
    for path in [*(tmp_path / "logs").iterdir(), *(tmp_path / "home").rglob("*")]:
        if path.is_file():
            assert KEY.encode() not in path.read_bytes(), path
    assert KEY not in done.stdout + done.stderr


def test_failed_cases_are_asked_again_by_the_same_command_and_the_others_are_not(
    safepyramid: Run, sample: list[Case], tmp_path: Path
) -> None:
    broken = {sample[2].id, sample[5].id}
    healthy = False

    def script(call: Call) -> Any:
        if case_in(call, sample).id in broken and not healthy:
            return Response(400, {"error": {"message": "no", "code": "x"}})
        return GOOD

    with serving(script) as server:
        arguments = ("eval", *of_model(server.address), "--limit", "8", "--log-dir", "logs")
        first = safepyramid(*arguments)
        assert "error 2" in first.stdout
        healthy = True
        calls = len(server.calls)
        second = safepyramid(*arguments)
        assert "answered 8" in second.stdout, second.stderr
        assert len(server.calls) == calls + 2
        third = safepyramid(*arguments)
        assert "already complete" in third.stdout
        assert len(server.calls) == calls + 2


def test_a_run_without_any_reply_is_a_failure_and_bad_answers_are_replies(
    safepyramid: Run, tmp_path: Path
) -> None:
    gone = Response(403, {"error": {"message": "account closed"}})
    with serving(lambda call: gone) as server:
        arguments = ("eval", *of_model(server.address), "--limit", "3", "--log-dir", "logs")
        dead = safepyramid(*arguments)
    assert dead.returncode == 1
    assert "error 3" in dead.stdout
    assert dead.stderr.startswith("Error: no case got a reply (3 failed: ")
    assert "account closed" in dead.stderr
    assert dead.stderr.count("\n") == 1
    answers = iter(["I'm sorry, I can't.", "Hm.", completion(GOOD[:40], finish="length")])
    with serving(lambda call: next(answers)) as server:
        arguments = ("eval", *of_model(server.address), "--limit", "3", "--log-dir", "bad")
        bad = safepyramid(*arguments)
    assert bad.returncode == 0, bad.stderr
    assert "0/3" in bad.stdout


def test_batch_mode_is_taken_up_by_a_resumed_run_and_kept(
    safepyramid: Run, sample: list[Case], tmp_path: Path
) -> None:
    def script(call: Call) -> Any:
        is_broken = case_in(call, sample).id == sample[1].id
        return Response(400, {"error": {"message": "no", "code": "x"}}) if is_broken else GOOD

    # this provider has no batches and ignores the setting: what counts is that it arrives
    with serving(script) as server:
        arguments = ("eval", *of_model(server.address), "--limit", "2")
        for more in ((), ("--batch",), ()):
            done = safepyramid(*arguments, *more)
            assert done.returncode == 0, done.stderr
    assert len(server.calls) == 2 + 1 + 1
    logs = sorted((tmp_path / "logs").glob("*.eval"), key=lambda path: path.stat().st_mtime)
    assert [read_header(path).plan.config.batch for path in logs] == [None, True, True]


@pytest.fixture
def sixty(sample: list[Case], tmp_path: Path) -> Iterator[Path]:
    """Sixty cases: the sample and some of it again, under other conversation ids."""
    from dataclasses import replace

    again = [
        replace(case, id=f"{case.id[:5]}9{case.id[6:]}") for case in sample if case.level != "L2"
    ]
    path = tmp_path / "sixty.json"
    write_benchmark(path, {}, [*sample, *again])
    assert len(load_benchmark(path)[1]) == 60
    return path


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_killed_at_twenty_moments_and_resumed_the_result_is_that_of_an_unbroken_run(
    safepyramid: Run, environment: dict[str, str], sixty: Path, tmp_path: Path
) -> None:
    _, cases = load_benchmark(sixty)

    def script(call: Call) -> str:
        case = case_in(call, cases)
        return json.dumps({"violated_rules": sorted(case.ground_truth_violations)[:4]})

    generator = random.Random(7)
    connections = 4
    in_flight = kills = 0
    with serving(script, latency=0.4) as server:
        arguments = (
            *("eval", *of_model(server.address), "--dataset", sixty, "--log-dir", "logs"),
            *("--max-connections", str(connections)),
        )
        while kills < 20:
            before = len(server.calls)
            process = subprocess.Popen(
                command(*arguments),
                env=environment,
                cwd=tmp_path,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            # two moments in three fall into the calls, the others anywhere from the start on
            if kills % 3:
                while len(server.calls) == before and process.poll() is None:
                    time.sleep(0.02)
            time.sleep(generator.uniform(0.05, 0.9))
            process.send_signal(signal.SIGKILL)
            process.wait()
            in_flight += server.in_flight
            kills += 1
            time.sleep(0.5)
        last = safepyramid(*arguments)
        assert last.returncode == 0, last.stderr
        paid = len(server.calls)
    assert paid <= len(cases) + kills * connections, (paid, in_flight)
    broken = result_of(safepyramid, tmp_path / "logs", sixty)
    with serving(script) as server:
        whole = safepyramid(
            *("eval", *of_model(server.address), "--dataset", sixty, "--log-dir", "whole")
        )
        assert whole.returncode == 0, whole.stderr
    assert broken == result_of(safepyramid, tmp_path / "whole", sixty)


def test_an_interrupted_run_says_how_to_go_on(environment: dict[str, str], tmp_path: Path) -> None:
    with serving(lambda call: GOOD, latency=1.0) as server:
        process = subprocess.Popen(
            command("eval", *of_model(server.address), "--max-connections", "2"),
            env=environment,
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        while len(server.calls) < 4:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "the same command goes on from here" in error
    assert "Traceback" not in error


@pytest.mark.parametrize("what", ["prompts", "settings", "data", "guard files"])
def test_a_changed_run_refuses_to_resume(
    safepyramid: Run, environment: dict[str, str], sample: list[Case], tmp_path: Path, what: str
) -> None:
    data = tmp_path / "data.json"
    write_benchmark(data, {}, sample[:6])
    prompts = tmp_path / "prompts"
    prompts.mkdir()
    template = prompts / "chat-policy-user.md"
    template.write_text("{{ policy }}\n\n{{ conversation }}", encoding="utf-8")
    own = tmp_path / "own.py"
    own.write_text(MY_GUARD.read_text(encoding="utf-8"), encoding="utf-8")
    with serving(lambda call: GOOD if len(server.calls) != 3 else Response(400, {})) as server:
        arguments = ["eval", *of_model(server.address), "--dataset", data]
        arguments += ["--guard", "own.py:MyGuard"] if what == "guard files" else []
        arguments += ["--prompts", prompts] if what != "guard files" else []
        assert safepyramid(*arguments).returncode == 0
        calls = len(server.calls)
        if what == "prompts":
            template.write_text("{{ conversation }}\n\n{{ policy }}", encoding="utf-8")
        elif what == "settings":
            arguments += ["--temperature", "0.5"]
        elif what == "guard files":
            own.write_text(own.read_text(encoding="utf-8") + "TASK = 'Else?'\n", encoding="utf-8")
        else:
            write_benchmark(data, {}, sample[1:7])
        refused = safepyramid(*arguments)
        assert refused.returncode == 1
        assert f"unfinished run of this command with other {what}" in refused.stderr
        assert "--fresh" in refused.stderr
        assert refused.stderr.count("\n") == 1
        assert len(server.calls) == calls
        fresh = safepyramid(*arguments, "--fresh")
        assert fresh.returncode == 0, fresh.stderr
        assert len(server.calls) == calls + 6


def test_two_processes_never_share_a_log_but_other_runs_may_share_the_folder(
    safepyramid: Run, tmp_path: Path
) -> None:
    first = Request(guard="lexical", log_dir=str(tmp_path / "logs"))
    with _lock(first):
        other = safepyramid("eval", "--guard", "none", "--limit", 1)
        assert other.returncode == 0, other.stderr
        with pytest.raises(RunError, match="another process is at work on this evaluation"):
            _lock(first)
    _lock(first).release()
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(RunError, match="cannot be written to"):
        _lock(replace(first, log_dir=str(tmp_path / "file" / "logs")))


def test_another_model_is_another_run(safepyramid: Run, tmp_path: Path) -> None:
    with serving(lambda call: GOOD) as server:
        first = ["eval", *of_model(server.address), "--limit", "2"]
        safepyramid(*first)
        second = ["openai-api/local/other" if a == "openai-api/local/m" else a for a in first]
        done = safepyramid(*second)
    assert "already complete" not in done.stdout
    assert [call.body["model"] for call in server.calls] == ["m", "m", "other", "other"]


BEFORE_SPENDING = {
    "no model for a guard that needs one": (
        ["--guard", "chat"],
        {},
        "needs a model; give --model",
    ),
    "a model for a guard that needs none": (
        ["--guard", "none", "--model", "openai/gpt-5.5"],
        {},
        "calls no model; leave --model out",
    ),
    "a missing key": (["--model", "openai/gpt-5.5"], {}, "OPENAI_API_KEY"),
    "an unknown provider": (["--model", "opanai/gpt-5.5"], {}, "opanai"),
    "an unknown guard": (["--guard", "chta"], {}, "unknown guard 'chta'; allowed: "),
    "an unknown level": (["--level", "L3"], {}, "L3"),
    "an unknown domain": (["--domain", "piracy"], {}, "privacy"),
    "a missing file": (["--dataset", "nowhere.json"], {}, "nowhere.json"),
    "a cost limit without a price": (
        [
            "--model",
            "openai-api/local/m",
            "--model-base-url",
            "http://127.0.0.1:9/v1",
            "--cost-limit",
            "1",
        ],
        {},
        "no price is known for 'openai-api/local/m'",
    ),
    "prompts for a baseline": (["--prompts", "."], {}, "sends no prompts"),
}


@pytest.mark.parametrize("name", BEFORE_SPENDING)
def test_what_is_wrong_is_said_in_one_line_before_anything_is_spent(
    safepyramid: Run, name: str
) -> None:
    arguments, env, expected = BEFORE_SPENDING[name]
    done = safepyramid("eval", *arguments, **env)
    assert done.returncode in (1, 2)
    assert expected in done.stderr
    assert "Traceback" not in done.stderr
    assert KEY not in done.stderr
    if done.returncode == 1:
        assert done.stderr.count("\n") == 1, done.stderr


def test_a_dry_run_counts_and_spends_nothing(safepyramid: Run, tmp_path: Path) -> None:
    with serving(lambda call: GOOD) as server:
        unknown = safepyramid("eval", *of_model(server.address), "--dry-run")
        assert not server.calls
    assert unknown.returncode == 0, unknown.stderr
    assert "calls           36" in unknown.stdout
    assert "price           unknown" in unknown.stdout
    known = safepyramid("eval", "--model", "openai/gpt-5", "--dry-run", OPENAI_API_KEY=KEY)
    assert "price           $" in known.stdout, known.stderr
    assert "note" not in known.stdout
    keyless = safepyramid("eval", "--model", "openai/gpt-5", "--dry-run")
    assert keyless.returncode == 0, keyless.stderr
    before, _, note = keyless.stdout.rstrip().rpartition("\n")
    assert before == known.stdout.rstrip()
    assert note.startswith("note            model 'openai/gpt-5' cannot be used")
    assert "OPENAI_API_KEY" in note
    misspelt = safepyramid("eval", "--model", "opanai/gpt-5", "--dry-run")
    assert misspelt.returncode == 1
    assert not (tmp_path / "logs").exists()


def test_a_cost_limit_ends_the_run_and_the_same_command_with_more_goes_on(
    safepyramid: Run, tmp_path: Path
) -> None:
    # 1,000 + 20 tokens a call at gpt-5's list price are 1000*1.25e-6 + 20*1e-5 = $0.00145
    with serving(lambda call: GOOD) as server:
        arguments = (
            *("eval", "--model", "openai/gpt-5", "--model-base-url", f"{server.address}/v1"),
            *("-M", "responses_api=false", "--limit", "8", "--max-connections", "1", "--no-trial"),
        )
        cut = safepyramid(*arguments, "--cost-limit", "0.004", OPENAI_API_KEY=KEY)
        assert cut.returncode == 0, cut.stderr
        assert len(server.calls) == 2  # a third call would bring 0.00435, over the limit
        assert "6 cases not asked: cost limit reached" in cut.stdout
        assert "failed:" not in cut.stdout
        assert "answered 2" in cut.stdout
        assert "missing 6" in cut.stdout
        assert [line["state"] for line in exported(safepyramid, tmp_path / "logs")] == [
            "answered",
            "answered",
        ]
        whole = safepyramid(*arguments, "--cost-limit", "1", OPENAI_API_KEY=KEY)
        assert "answered 8" in whole.stdout, whole.stderr
        assert len(server.calls) == 8


def test_inspect_itself_finds_and_runs_the_tasks(
    environment: dict[str, str], tmp_path: Path
) -> None:
    with serving(lambda call: '{"verdict": "violated"}') as server:
        for task in ("per_policy", "per_rule"):
            done = subprocess.run(
                [
                    *(sys.executable, "-m", "inspect_ai", "eval", f"safepyramid/{task}"),
                    *("-T", "dataset=sample", "-T", "level=L0", "-T", "limit_cases=1"),
                    *("--model", "openai-api/local/m", "--display", "plain"),
                    *(
                        "--model-base-url",
                        f"{server.address}/v1",
                        "--log-dir",
                        str(tmp_path / task),
                    ),
                ],
                env=environment,
                cwd=tmp_path,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr
            (log,) = (tmp_path / task).glob("*.eval")
            results = read_results([log])
            assert results.protocol == task
            assert len(results.predictions) == 1
