"""The site as files: complete, linked, the same bytes twice, and free of secrets and traps."""

import html
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from click.testing import CliRunner
from made_up import KEY, benchmark_file, many_cases, result_file, sample

from safepyramid.analysis import tables
from safepyramid.analysis.collect import load_runs
from safepyramid.cli.report import report
from safepyramid.errors import RunError
from safepyramid.policy.parse import parse_policy
from safepyramid.report.build import build_report, to_script


class Page(HTMLParser):
    """What a page holds: ids, links, elements, data."""

    def __init__(self, path: Path) -> None:
        super().__init__(convert_charrefs=True)
        self.path = path
        self.ids: list[str] = []
        self.links: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self._inside: list[str] = []
        self._data = ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.elements.append((tag, found))
        self.ids += [found["id"]] if found.get("id") else []
        self.links += [value for key in ("href", "src") if (value := found.get(key))]
        self._inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._inside and self._inside.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self._inside and self._inside[-1] == "script":
            self._data += data
        else:
            self.text.append(data)

    @property
    def data(self) -> Any:
        return json.loads(self._data)


def pages(site: Path) -> list[Page]:
    return [Page(path) for path in sorted(site.rglob("*.html"))]


def numbers_of(site: Path) -> dict[str, Any]:
    """Name of a run -> its numbers on the leaderboard."""
    page = (site / "index.html").read_text(encoding="utf-8")
    rows = re.findall(r'data-row="([^"]+)"[^>]*>.*?<bdi>(.*?)</bdi>', page, re.DOTALL)
    data = Page(site / "index.html").data
    return {
        html.unescape(name.replace("<wbr>", "")): data[key]
        for key, name in rows
        if key in data and key.count(".") == 1
    }


def test_every_link_leads_somewhere_in_the_site(site: Path) -> None:
    found = {page.path.resolve(): page for page in pages(site)}
    assert len(found) > 36
    for page in found.values():
        assert len(page.ids) == len(set(page.ids)), page.path
        for link in page.links:
            if link == "data:,":
                continue
            parts = urlsplit(link)
            assert not parts.scheme
            assert not parts.netloc, (page.path, link)
            target = (
                (page.path.parent / unquote(parts.path)).resolve()
                if parts.path
                else page.path.resolve()
            )
            assert target.is_file(), (page.path, link)
            if parts.fragment and target in found:
                assert parts.fragment in found[target].ids, (page.path, link)


def test_no_page_holds_a_script_style_or_handler_of_its_own(site: Path) -> None:
    for page in pages(site):
        for tag, attributes in page.elements:
            assert not [key for key in attributes if key.startswith("on") or key == "style"]
            assert tag not in ("style", "iframe", "img", "object")
            if tag == "script":
                assert attributes.get("src") or attributes.get("type") == "application/json"


def test_a_hostile_reply_is_whole_in_the_data_and_nowhere_else(site: Path) -> None:
    said = [
        said.get("reply")
        for page in pages(site / "case")
        for said in page.data["runs"]
        if isinstance(said.get("reply"), str)
    ]
    assert '<script>document.title="owned"</script>{"violated_rules": [1]}' in said
    assert "line\u2028separator\u2029paragraph \u202ereversed\u2066isolate \u200f" in said
    assert "NUL \x00 escape \x1b[31m bell \x07 BOM \ufeff" in said
    longest = max(said, key=len)
    assert longest.startswith('{"violated_rules": [2, 99]} xxx')
    assert re.search(r"\[… 948,\d{3} more characters\]\Z", longest)
    assert len(longest) < 101_000
    for page in pages(site):
        assert 'owned"' not in "".join(page.text)


def test_per_rule_replies_stand_by_rule(site: Path) -> None:
    replies = [
        said["reply"]
        for page in pages(site / "case")
        for said in page.data["runs"]
        if isinstance(said.get("reply"), dict)
    ]
    assert len(replies) == 3
    assert all(rule.isdigit() for reply in replies for rule in reply)


def test_no_key_is_in_any_file(site: Path) -> None:
    for path in site.rglob("*"):
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            assert KEY not in text, path
            assert "abcd1234efgh5678ijkl" not in text, path
    assert any("[secret removed]" in page.path.read_text(encoding="utf-8") for page in pages(site))


def test_names_of_runs_are_text_and_isolated(site: Path) -> None:
    for name in ("compare.html", "cases.html"):
        assert "b" not in [tag for tag, _ in Page(site / name).elements]
    page = (site / "index.html").read_text(encoding="utf-8")
    assert "<bdi>openai-api/<wbr>local/<wbr>&lt;b&gt;" in page
    assert "local/<b>" not in page


def test_the_leaderboard_has_the_numbers_of_the_analysis(
    site: Path, files: list[Path], logs: Path
) -> None:
    runs = load_runs([*files, logs], "sample")
    shown = numbers_of(site)
    assert set(shown) >= {run.name for run in runs}
    for frame, domain in (
        (tables.results(runs, published=False, draws=500), False),
        (tables.domains(runs, draws=500), True),
    ):
        for row in frame[frame["section"] == "runs"].to_dict("records"):
            where = f"{row['domain'] if domain else ''}|{row['level']}"
            numbers = shown[row["run"]]
            assert numbers["scored"][where] == [row["scored"], row["total"]]
            for metric in tables.RESULT_METRICS:
                for value, name in zip(
                    numbers["cells"][f"{metric}|{where}"],
                    (metric, f"{metric}_low", f"{metric}_high"),
                    strict=True,
                ):
                    expected = row[name]
                    if value is None:
                        assert expected is None or expected != expected
                    else:
                        assert value == pytest.approx(expected, abs=1e-5)


def test_blocks_are_apart_with_their_reason(site: Path) -> None:
    page = (site / "index.html").read_text(encoding="utf-8")
    reasons = re.findall(r"<b>Kept apart:</b> (.*?)</p>", page, re.DOTALL)
    assert any("another protocol, per-rule" in reason for reason in reasons)
    assert any("12 of its 12 are among the 36 of the first block" in reason for reason in reasons)
    assert sum("printed in the paper" in reason for reason in reasons) == 2
    assert len(reasons) == page.count('<section class="block"') - 1


def test_a_place_is_shared_by_equals_and_none_for_what_is_not_ranked(tmp_path: Path) -> None:
    cases = sample()
    same = {"seed": 5, "skill": 0.9}
    paths = [
        result_file(tmp_path / f"{i}.jsonl", cases, model=f"lab/{i}", **same) for i in range(2)
    ]
    paths.append(result_file(tmp_path / "2.jsonl", cases, model="lab/2", seed=6, skill=0.2))
    paths.append(result_file(tmp_path / "3.jsonl", cases, model="lab/3", seed=6, failing=1.0))
    build_report(paths, tmp_path / "site", dataset="sample", draws=200)
    shown = numbers_of(tmp_path / "site")
    assert [shown[f"lab/{i}"]["place"]["|ALL"][0] for i in range(4)] == [1, 1, 3, 3]
    assert shown["lab/3"]["cells"]["rmr||ALL"] == [None, None, None]
    assert shown["none"]["place"] == {}


def test_a_case_page_shows_policy_order_links_and_evidence(site: Path) -> None:
    for case in sample(evidence=True)[:6]:
        page = Page(site / "case" / f"{case.id}.html")
        text = page.path.read_text(encoding="utf-8")
        policy = parse_policy(case.policy, case.framework)
        order = [rule.number for rule in policy.rules]
        assert [int(n) for n in re.findall(r'data-rule="(\d+)"', text)] == order
        assert page.data["rules"] == [[n, int(n in case.ground_truth_violations)] for n in order]
        for rule in policy.rules:
            assert all(f'<a href="#r{n}">{n}</a>' in text for n in rule.references)
        assert (
            html.escape(policy.framework.split("\n")[0], quote=True).replace("&#x27;", "&#39;")
            in text
        )
        quotes = [
            quote for entry in case.rubric for each in entry.evidence for quote in each["quotes"]
        ]
        assert quotes
        for quote in quotes:
            assert f'id="t{quote["turn"]}-{quote["role"]}"' in text
        assert text.count("<mark ") >= len({quote["text"] for quote in quotes}) / 2


def test_the_same_runs_give_the_same_bytes(files: list[Path], tmp_path: Path) -> None:
    for name in ("one", "two"):
        build_report(files[:2], tmp_path / name, dataset="sample", draws=200)
    one, two = (
        {
            p.relative_to(root).as_posix(): p.read_bytes()
            for p in sorted(root.rglob("*"))
            if p.is_file()
        }
        for root in (tmp_path / "one", tmp_path / "two")
    )
    assert one == two


def test_an_earlier_report_is_replaced_and_nothing_else(files: list[Path], tmp_path: Path) -> None:
    built = build_report(files[:1], tmp_path / "site", dataset="sample", draws=100)
    stale = tmp_path / "site" / "case" / "gone.html"
    stale.write_text("old", encoding="utf-8")
    build_report(files[:1], tmp_path / "site", dataset="sample", draws=100)
    assert not stale.exists()
    assert built.first_page.is_file()
    other = tmp_path / "mine"
    other.mkdir()
    (other / "thesis.txt").write_text("years of work", encoding="utf-8")
    with pytest.raises(RunError, match="holds other files than a report"):
        build_report(files[:1], other, dataset="sample")
    assert [path.name for path in other.iterdir()] == ["thesis.txt"]
    assert not list(tmp_path.glob(".*"))


def test_a_report_can_be_made_where_the_shell_stands(
    files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder must stay the same one: a shell, a link or a mount would be left behind."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    for paths in (files[1:2], files[:1]):
        build_report(paths, ".", dataset="sample", draws=100)
        assert here.stat().st_ino == Path.cwd().stat().st_ino
        assert len(list(here.glob("run/*.html"))) == 1
        assert not list(here.glob(".*"))
    assert "lab/<wbr>strong" in Path("index.html").read_text(encoding="utf-8")
    (tmp_path / "link").symlink_to(here, target_is_directory=True)
    build_report(files[1:2], tmp_path / "link", dataset="sample", draws=100)
    assert (tmp_path / "link").is_symlink()
    assert "lab/<wbr>weak" in Path("index.html").read_text(encoding="utf-8")


def test_one_is_not_many(tmp_path: Path) -> None:
    path = result_file(tmp_path / "a.jsonl", sample()[:1], model="lab/a", seed=1)
    build_report([path], tmp_path / "site", dataset="sample", draws=100)
    for page in pages(tmp_path / "site"):
        assert not re.search(r"\b1 (runs|cases|conversations|files)\b", " ".join(page.text))
        assert "compare.html?" not in page.path.read_text(encoding="utf-8")


def test_sections_without_anything_to_show_are_left_out(tmp_path: Path) -> None:
    cases = sample()[:3]
    paths = [
        result_file(tmp_path / "none.jsonl", cases, model="lab/none", seed=1, failing=1.0),
        result_file(tmp_path / "all.jsonl", cases, model="lab/all", seed=1, failing=0, skill=1.0),
        result_file(tmp_path / "l0.jsonl", cases[:1], model="lab/l0", seed=1, failing=0, skill=0.1),
    ]
    build_report(paths, tmp_path / "site", dataset="sample", draws=100)
    sections = {
        name: [i for i in Page(tmp_path / "site" / "run" / f"lab-{name}-per-policy.html").ids if i]
        for name in ("none", "all", "l0")
    }
    empty = {"rule-types", "thresholds", "domains", "errors", "modes"}
    assert not empty & set(sections["none"])
    assert empty <= set(sections["all"])
    assert empty <= set(sections["l0"])
    run = tmp_path / "site" / "run"
    assert "No answered case has an error." in (run / "lab-all-per-policy.html").read_text("utf-8")
    text = Page(run / "lab-l0-per-policy.html").text
    assert "L0" in text
    assert not {"L1", "L2"} & set(text)
    for path in run.glob("*.html"):
        assert "<tbody></tbody>" not in path.read_text("utf-8")


def test_notes_and_numbers_without_end_are_cut(tmp_path: Path) -> None:
    case = sample()[0]
    path = result_file(tmp_path / "a.jsonl", [case], model="lab/a", seed=1)
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
    lines[1] |= {"state": "answered", "violated_rules": list(range(1, 50_001))}
    lines[1]["note"] = f"{KEY} " + "x" * 1_000_000
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    build_report([path], tmp_path / "site", dataset="sample", draws=100)
    sizes = [p.stat().st_size for p in (tmp_path / "site").rglob("*") if p.is_file()]
    assert max(sizes) < 100_000
    (said,) = Page(tmp_path / "site" / "case" / f"{case.id}.html").data["runs"]
    assert re.search(r"x\n\[… 99\d,\d{3} more characters\]\Z", said["note"])
    assert set(case.rule_types) <= set(said["said"])
    assert len(said["said"]) + said["more"] == 50_000
    assert said["outcome"].endswith(f" ~{said['more']}")


def test_a_build_that_fails_leaves_no_folder(files: list[Path], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(RunError, match="is a file"):
        build_report(files[:1], tmp_path / "file", dataset="sample")
    with pytest.raises(RunError, match="cannot write the report"):
        build_report(files[:1], tmp_path / "file" / "site", dataset="sample", draws=100)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_value_of_the_environment_is_removed_wherever_it_stands(
    files: list[Path], tmp_path: Path
) -> None:
    case = sample()[0]
    word = case.conversation.split(": ", 1)[1][:20]
    built = build_report(
        files[:1], tmp_path / "site", dataset="sample", draws=100, environ={"MY_SECRET": word}
    )
    assert built.cases == 36
    page = (tmp_path / "site" / "case" / f"{case.id}.html").read_text(encoding="utf-8")
    assert word not in page
    assert "[secret removed]" in page


def test_cases_of_two_versions_of_the_data_have_a_page_each(tmp_path: Path) -> None:
    cases = sample()
    other = [
        type(case)(**{**_fields(case), "conversation": case.conversation + "!"}) for case in cases
    ]
    paths = [
        result_file(tmp_path / "a.jsonl", cases, model="lab/a", seed=1),
        result_file(tmp_path / "b.jsonl", other, model="lab/b", seed=1),
    ]
    merged = benchmark_file(tmp_path / "data.json", cases)
    build_report(paths[:1], tmp_path / "site", dataset=merged, draws=100)
    assert len(list((tmp_path / "site" / "case").glob("*.html"))) == 36


def _fields(case: Any) -> dict[str, Any]:
    return {name: getattr(case, name) for name in type(case).__slots__}


def test_the_size_stays_small_with_many_runs(tmp_path: Path) -> None:
    """Bytes that a run adds: 20 runs on 3,000 cases must keep the first page under 2 MiB."""
    cases = many_cases(40)
    data = benchmark_file(tmp_path / "data.json", cases)
    paths = [
        result_file(tmp_path / f"{i}.jsonl", cases, model=f"lab/{i}", seed=i) for i in range(5)
    ]
    build_report(paths, tmp_path / "site", dataset=data, draws=50)
    sizes = {
        name: (tmp_path / "site" / name).stat().st_size
        for name in ("index.html", "compare.html", "cases.html")
    }
    assert sizes["index.html"] < 150_000
    assert sizes["compare.html"] / 10 < 4_000  # 10 pairs
    per_case = (tmp_path / "site" / "data" / "lab-0-per-policy.js").stat().st_size / len(cases)
    assert per_case < 60
    added = [len(to_script(page.data["runs"][0])) for page in pages(tmp_path / "site" / "case")]
    assert max(added) < 1_000


@pytest.mark.parametrize(
    "value", ["</script>", "<!--", "]]>", "\u2028", "\ud800", "\x00", "&amp;", "é", "'\"\\"]
)
def test_data_in_a_page_is_plain_ascii_and_reads_back(value: str) -> None:
    text = to_script({"x": value})
    assert text.isascii()
    assert not set("<>&") & set(text)
    assert json.loads(text) == {"x": value}


def test_the_command_makes_a_report(files: list[Path], tmp_path: Path) -> None:
    done = CliRunner().invoke(
        report, [*map(str, files[:1]), "-o", str(tmp_path / "site"), "--dataset", "sample"]
    )
    assert done.exit_code == 0, done.output
    assert done.output.startswith("1 run, 36 cases, ")
    assert (tmp_path / "site" / "index.html").is_file()
