"""What a run costs, and what its cost limit holds."""

import pytest
from scripted_models import author
from wired import WRITER, settings_file, spent

from safepyramid.construct.costs import priced
from servers import Response, completion, serving


@pytest.mark.parametrize("correct", [False, True])
def test_the_cost_limit_counts_what_is_under_way(run, tmp_path, correct):
    """Thirty conversations that start at once, with corrections or without."""

    def reply(call):
        body = completion("Sure!" if correct else author(call.text))
        body["usage"] |= {"prompt_tokens": 3000, "completion_tokens": 100}
        return body

    calls = 2 if correct else 1
    each = calls * priced(WRITER, 3000, 100)
    with serving(reply, latency=0.05) as server:
        settings = settings_file(tmp_path, server.address, conversations=30, attempts=1)
        done = run(
            *("run", "folder", "--settings", settings, "--until", "conversation"),
            *("--cost-limit", f"{5.5 * each:.9f}", "--max-connections", "30"),
        )
        assert done.returncode == 1
        assert len(server.calls) == 5 * calls
        assert server.most_in_flight > 1
        assert spent(run, "folder") == pytest.approx(5 * each)

        # the same limit again lets nothing through
        run("run", "folder", "--cost-limit", f"{5.5 * each:.9f}", "--until", "conversation")
        assert len(server.calls) == 5 * calls


def test_a_cost_limit_ends_where_a_server_does_not_count(run, tmp_path):
    def reply(call):
        body = completion(author(call.text))
        del body["usage"]
        return body

    with serving(reply) as server:
        settings = settings_file(tmp_path, server.address, conversations=5)
        limited = ("run", "folder", "--settings", settings, "--cost-limit", "100")
        done = run(*limited)
        assert (done.returncode, len(server.calls)) == (1, 1)
        assert "a reply came without its tokens" in done.stderr
        again = run(*limited)
        assert (again.returncode, len(server.calls)) == (1, 1)
        assert "earlier replies came without their tokens (1)" in again.stderr
    assert "1 calls, $0.00 and 1 call of unknown price" in run("status", "folder").stdout


def test_a_failed_correction_hides_no_price(run, tmp_path):
    """The paid first reply of a record whose second call failed counts on the bill and the limit."""

    def reply(call):
        if "cannot be used" in call.text:
            return Response(400, {"error": {"message": "no more today"}})
        body = completion("Sure!")
        body["usage"] |= {"prompt_tokens": 3000, "completion_tokens": 100}
        return body

    first = priced(WRITER, 3000, 100)
    with serving(reply) as server:
        settings = settings_file(tmp_path, server.address)
        run("run", "folder", "--settings", settings)
        assert len(server.calls) == 2
        assert spent(run, "folder") == pytest.approx(first)
        shown = run("status", "folder").stdout
        assert f"2 calls, ${first:.2f} and 1 call of unknown price" in shown
        done = run("run", "folder", "--cost-limit", f"{first * 1.01:.9f}")
        assert len(server.calls) == 2
        assert "cost limit" in done.stderr
