"""Results of a batch, read back into the predictions that a live run would give."""

from collections.abc import Iterable
from pathlib import Path

from safepyramid.batch.files import some
from safepyramid.batch.replies import read_replies
from safepyramid.batch.write import Batch, Questions, custom_id, output_limit, split_id
from safepyramid.dataset.load import data_hash
from safepyramid.errors import DataError
from safepyramid.guards.base import RuleQuestion
from safepyramid.prompts.render import prompts_hash
from safepyramid.results.read import aggregate, write_judgments, write_results
from safepyramid.schema import Case, Judgment, Prediction, Reply, State, Verdict


def answered_ids(paths: Iterable[str | Path]) -> set[str]:
    """The ids that have a result without an error, in any of the files."""
    notes: list[str] = []
    return {name for path in paths for name, reply in read_replies(path, notes) if not reply.error}


def read_batch(
    batch: Batch, questions: Questions, paths: Iterable[str | Path]
) -> tuple[list[Prediction], list[str]]:
    """Read result files into predictions.

    Files and lines may come in any order and may lack results. Of two results with one id the
    one without an error counts, else the later.

    Args:
        batch: The run that the requests were made from.
        questions: As for `plan_run`.
        paths: Result files: of a batch service, of `vllm run-batch`, or rows of Ray Data.

    Returns:
        One prediction per case, in the cases' order, and what a reader should know. As in a live
        run, a case of which one judgment failed is an `error`; one that lacks a judgment is
        `missing`.

    Raises:
        DataError: A file is broken, or has results that the run did not ask for.
    """
    reader = _Reader(batch, questions)
    limit = output_limit(batch, questions)
    for path in paths:
        for name, reply in read_replies(path, reader.notes, limit):
            reader.take(name, reply)
    reader.note_oddities()
    return [reader.prediction(case) for case in batch.cases], reader.notes


class _Reader:
    """What the result files say so far. Only what was understood of a reply is kept."""

    def __init__(self, batch: Batch, questions: Questions) -> None:
        self.batch = batch
        self.cases = {case.id: case for case in batch.cases}
        self.notes: list[str] = []
        self._questions = questions
        self._asked: dict[str, dict[int, RuleQuestion]] = {}
        self._said: dict[str, Verdict | Prediction] = {}
        self._doubled: list[str] = []
        self._unknown: list[str] = []

    def asked(self, case: Case) -> dict[int, RuleQuestion]:
        """The judgments that a case asks for, by rule."""
        if case.id not in self._asked:
            self._asked[case.id] = {q.target.number: q for q in self._questions(case)}
        return self._asked[case.id]

    def take(self, name: str, reply: Reply) -> None:
        """Understand a reply, and keep it unless a better one with its id is there."""
        said = self._understood(name, reply)
        if said is None:
            self._unknown.append(name)
            return
        earlier = self._said.get(name)
        if earlier is not None:
            self._doubled.append(name)
            if said.state is State.ERROR and earlier.state is not State.ERROR:
                return
        self._said[name] = said

    def _understood(self, name: str, reply: Reply) -> Verdict | Prediction | None:
        case_id, rule = split_id(name, self.batch.run.protocol)
        case = self.cases.get(case_id)
        if case is None:
            return None
        if self.batch.run.protocol == "per_rule":
            question = None if rule is None else self.asked(case).get(rule)
            assert self.batch.guard.per_rule is not None
            return None if question is None else self.batch.guard.per_rule.parse(reply, question)
        assert self.batch.guard.per_policy is not None
        answer = self.batch.guard.per_policy.parse(reply, case)
        return Prediction(
            case_id, answer.state, answer.violated, answer.unknown_rules, answer.strict, answer.note
        )

    def note_oddities(self) -> None:
        """Refuse results that nobody asked for; note those that came twice."""
        if self._unknown:
            raise DataError(
                f"{len(self._unknown)} results that this run did not ask for: "
                f"{some(self._unknown)}; give the results of its own requests"
            )
        if self._doubled:
            self.notes.append(f"{len(self._doubled)} ids came twice: {some(self._doubled)}")
        if self.batch.run.protocol == "per_rule":
            names = [custom_id(c.id, rule) for c in self.batch.cases for rule in self.asked(c)]
        else:
            names = [custom_id(case.id) for case in self.batch.cases]
        missing = [name for name in names if name not in self._said]
        if missing:
            self.notes.append(f"{len(missing)} of {len(names)} have no result: {some(missing)}")

    def prediction(self, case: Case) -> Prediction:
        """What all results say about a case."""
        if self.batch.run.protocol == "per_policy":
            said = self._said.get(custom_id(case.id))
            assert not isinstance(said, Verdict)
            return said or Prediction(case.id, State.MISSING, note="no result")
        judgments, failed, missing = [], [], 0
        asked = self.asked(case)
        for rule in asked:
            verdict = self._said.get(custom_id(case.id, rule))
            if not isinstance(verdict, Verdict):
                missing += 1
            elif verdict.state is State.ERROR:
                failed.append(f"Rule {rule} with: {verdict.note}")
            else:
                judgments.append(Judgment(rule, verdict))
        if missing:
            note = f"{missing} of {len(asked)} judgments have no result"
            return Prediction(case.id, State.MISSING, note=note)
        if failed:
            note = f"{len(failed)} of {len(asked)} judgments failed, {failed[0]}"
            return Prediction(case.id, State.ERROR, note=note)
        return aggregate(case, judgments)


def write_predictions(path: str | Path, batch: Batch, predictions: Iterable[Prediction]) -> None:
    """Write a run's predictions as result lines, as a live run exports them."""
    header = {
        "guard": batch.guard.name,
        "prompts_hash": prompts_hash(batch.guard.prompts),
        "data_hash": data_hash(batch.cases),
        "dataset": batch.run.dataset,
        "selection": {
            "level": list(batch.run.level) or None,
            "domain": list(batch.run.domain) or None,
            "limit": batch.run.limit,
        },
        "config": dict(batch.config),
    }
    write = write_judgments if batch.run.protocol == "per_rule" else write_results
    write(path, predictions, model=batch.run.model, header=header)


def count_states(predictions: Iterable[Prediction]) -> str:
    """How many predictions are in each state, as one line; states that do not occur are left out.

    >>> count_states([Prediction("a", State.ANSWERED), Prediction("b", State.ANSWERED)])
    '2 answered'
    """
    found = [prediction.state for prediction in predictions]
    return ", ".join(f"{found.count(state):,} {state}" for state in State if state in found)
