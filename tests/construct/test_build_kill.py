"""A run that is killed over and over: nothing is paid for twice, and the release is the same."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest
from scripted_models import NAMES, author, small

from safepyramid.construct.release import release
from servers import Call, serving

KILLS = 20
CONNECTIONS = 4

# Imports once, then makes a run in a process of its own for each line: a start is not what is
# tested, and would take most of the time.
STARTER = """
import json, os, sys
from pathlib import Path
from safepyramid.construct.pipeline import BuildRequest, build
from safepyramid.construct.settings import read_settings
for line in sys.stdin:
    folder, settings = json.loads(line)
    pid = os.fork()
    if pid == 0:
        asked = read_settings(settings)
        build(BuildRequest(Path(folder), asked, max_connections=4, trial=False, quiet=True))
        os._exit(0)
    print(pid, flush=True)
    print(os.waitpid(pid, 0)[1], flush=True)
"""


class Starter:
    def __init__(self, environment):
        self.process = subprocess.Popen(
            [sys.executable, "-c", STARTER],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, folder, settings):
        self.process.stdin.write(json.dumps([str(folder), str(settings)]) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def status(self):
        """How the last one ended: its wait status."""
        return int(self.process.stdout.readline())


def settings_file(tmp_path, address, conversations):
    def role(name):
        return {"model": f"openai-api/local/{name}", "base_url": f"{address}/v1"}

    settings = small(conversations=conversations)
    settings["models"] = {
        **{r: role(n) for r, n in zip(("conversation", "l0", "l1", "l2"), NAMES, strict=True)},
        "validators": [role(name) for name in NAMES],
    }
    path = tmp_path / "settings.yaml"
    path.write_text(json.dumps(settings), encoding="utf-8")
    return path


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that fork")
def test_killed_runs_lose_no_more_than_what_is_in_flight(tmp_path, environment):
    chance = random.Random(7)

    def reply(call: Call):
        return author(call.text)

    starter = Starter(environment)
    with serving(reply, latency=0.05) as server:
        settings = settings_file(tmp_path, server.address, conversations=8)
        killed, whole = tmp_path / "killed", tmp_path / "whole"
        in_flight = 0
        for _ in range(KILLS):
            wanted = len(server.calls) + chance.randint(1, 6)
            pid = starter.start(killed, settings)
            while len(server.calls) < wanted:
                time.sleep(0.005)
            time.sleep(chance.random() * 0.1)
            os.kill(pid, signal.SIGKILL)
            assert starter.status() == signal.SIGKILL
            in_flight += server.most_in_flight
            while server.in_flight:
                time.sleep(0.01)
        starter.start(killed, settings)
        assert starter.status() == 0
        calls = [json.dumps(call.body, sort_keys=True) for call in server.calls]

        starter.start(whole, settings)
        assert starter.status() == 0
        needed = [json.dumps(c.body, sort_keys=True) for c in server.calls[len(calls) :]]
    starter.process.stdin.close()
    starter.process.wait()

    assert set(calls) == set(needed)
    assert len(needed) == len(set(needed)) == 8 * 14
    assert server.most_in_flight <= CONNECTIONS * len(NAMES)
    # one call a kill may have been answered and not yet written down
    assert len(calls) <= len(needed) + in_flight + KILLS

    for folder in (killed, whole):
        release(folder, folder.with_name(f"{folder.name}-release"), version="1", name="Killed")
    made, same = (
        {path.name: path.read_bytes() for path in (tmp_path / f"{name}-release").iterdir()}
        for name in ("killed", "whole")
    )
    assert made == same
    assert len(made) == 8
    print(f"{len(calls)} calls for {len(needed)} answers, at most {in_flight} lost in flight")
