"""The guide's own files work: its catalogue, its settings, and every setting it lists."""

import re
from pathlib import Path

from safepyramid.construct.estimate import estimate
from safepyramid.construct.runs import load_run
from safepyramid.construct.settings import Settings, read_settings

PAGE = (Path(__file__).parents[2] / "docs" / "construction.md").read_text(encoding="utf-8")


def test_the_banks_files_are_read_and_planned(tmp_path):
    scenarios, settings = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "bank").mkdir()
    (tmp_path / "bank" / "bank_support.yaml").write_text(scenarios, encoding="utf-8")
    (tmp_path / "bank.yaml").write_text(settings, encoding="utf-8")
    run = load_run(read_settings(tmp_path / "bank.yaml"))

    assert [made.id for made in run.made[:2]] == ["bank-001", "bank-002"]
    assert len(run.made) == 20
    needs = estimate(run)
    assert all(need.price(model) is not None for (_, model), need in needs.items())


def test_every_setting_is_listed():
    table = PAGE[PAGE.index("## Settings") : PAGE.index("## What to expect")]
    listed = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (.*?) \|", table, re.MULTILINE))))
    assert listed == set(Settings.model_fields)
