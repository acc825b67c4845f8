"""What a plan promises: no run that goes as it says takes fewer calls than its least, or more
than its most."""

import json
from collections import Counter

import pytest
from scripted_models import author, stage_of

from safepyramid.construct.estimate import estimate
from safepyramid.construct.runs import load_run
from safepyramid.construct.settings import settings_from


def planned(settings):
    """Model -> least and most calls."""
    least, most = Counter(), Counter()
    for (_, model), need in estimate(load_run(settings_from(settings, "test"))).items():
        least[model] += need.calls[0]
        most[model] += need.calls[1]
    return {model: (least[model], most[model]) for model in most}


def made(lab):
    return Counter(f"scripted/{name}" for name, _ in lab.calls)


@pytest.mark.parametrize("per_call", [1, 2, 8])
def test_a_run_without_trouble_takes_the_least(lab, per_call):
    lab.settings = {**lab.settings, "conversations": 3, "rules_per_call": per_call}
    lab.make()
    least = {model: low for model, (low, _) in planned(lab.settings).items()}
    assert made(lab) == least


def one_fails(told):
    """An author whose first rule fails a check, in each policy."""
    reply = author(told)
    kind = {"l0": "decisive", "l1": "exception", "l2": "decisive"}.get(stage_of(told))
    if kind is None:
        return reply
    rules = json.loads(reply)
    rules[kind][0]["text"] = rules[kind][0]["text"].replace("observable", "dim")
    return json.dumps(rules)


@pytest.mark.parametrize("conversations", [1, 3, 9])
def test_a_run_with_repairs_takes_no_more_than_the_most(lab, conversations):
    lab.settings = {**lab.settings, "conversations": conversations}
    lab.script(anna=one_fails, ben=one_fails, cleo=one_fails, dora=one_fails)
    lab.make()
    for model, (low, high) in planned(lab.settings).items():
        assert low < made(lab)[model] <= high or model == "scripted/anna"


def test_a_single_conversation_may_need_every_attempt(lab):
    """In a run of one, a second attempt at each level is within the most."""

    def late(told):
        stage = stage_of(told)
        if stage in ("l0", "l1", "framework") and "attempt 2" not in told:
            return "{}"
        return one_fails(told)

    lab.script(ben=late, cleo=late)
    (outcome,) = lab.make()
    assert outcome.standing == "complete"
    for model, (_, high) in planned(lab.settings).items():
        assert made(lab)[model] <= high
