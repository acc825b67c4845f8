"""Which modifiers act on which rules of a procedural policy, and what is to be true of them.

Decided before anything is worded: a plan is a small graph with truth values, and `policy.resolve`
says what it comes to.
"""

import random
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from safepyramid.errors import DataError
from safepyramid.policy.parse import RawJudgment, resolve
from safepyramid.schema import RuleType

_STATES = ((True, True), (True, False), (False, True))
"""Of a modifier: whether it is triggered, and whether its standard is met if it is."""
_CHAINS = 3
"""At most so many base rules of a policy carry modifiers one upon another."""
_CONSEQUENTIAL = 0.8
"""Share of those that come to something else if not all of their modifiers are read."""
_FLIPPING = 0.85
"""Share of the lower modifiers of those that change what is violated by themselves."""
_ON_DISTRACTORS = 0.15
"""Share of the other modifiers that act on a distractor."""
_PLANS = 40
"""At most so many plans are drawn for the one whose number of violations comes nearest to the goal."""


class Root(NamedTuple):
    """A base rule, as far as a plan needs to know it."""

    type: RuleType
    broken: bool


class Link(NamedTuple):
    """A modifier to be written."""

    type: RuleType
    target: int
    """Position of a rule: the base rules come first, then the modifiers in their order."""
    triggered: bool
    met: bool
    """Of no effect when it is not triggered."""


def plan_links(
    roots: Sequence[Root],
    exceptions: int,
    conditionals: int,
    depth: int,
    goal: int,
    rng: random.Random,
) -> list[Link]:
    """Decide which modifiers act on which rules, and what is true of them.

    Args:
        roots: The base rules.
        exceptions: How many modifiers are exceptions.
        conditionals: How many are conditionals.
        depth: Modifiers that stand one upon another on some of the base rules.
        goal: How many rules should be violated in the end; approached, not promised.
        rng: All chance comes from it.

    Raises:
        DataError: There are fewer modifiers than the depth takes.
    """
    if depth > exceptions + conditionals:
        raise DataError(
            f"depth is {depth}, but a policy has {exceptions + conditionals} modifiers: "
            "ask for less depth, or for more rules at L1 and L2"
        )
    best: list[Link] = []
    nearest = 2 * (len(roots) + exceptions + conditionals + goal + 1)
    for _ in range(_PLANS):
        links = _plan(roots, exceptions, conditionals, depth, rng)
        excess = len(net(roots, links)) - goal
        distance = 2 * abs(excess) + (excess < 0)  # Of two equally near, the larger.
        if distance < nearest:
            best, nearest = links, distance
        if not distance:
            break
    return best


def net(roots: Sequence[Root], links: Sequence[Link]) -> frozenset[int]:
    """The positions of the rules that are violated together."""
    judgments = [RawJudgment(at, root.type, broken=root.broken) for at, root in enumerate(roots)]
    judgments += [
        RawJudgment(at, link.type, (link.target,), triggered=link.triggered, met=link.met)
        for at, link in enumerate(links, len(roots))
    ]
    return resolve(judgments).violated


def _plan(
    roots: Sequence[Root], exceptions: int, conditionals: int, depth: int, rng: random.Random
) -> list[Link]:
    left = Counter({RuleType.EXCEPTION: exceptions, RuleType.CONDITIONAL: conditionals})
    decisive = [at for at, root in enumerate(roots) if root.type is RuleType.DECISIVE]
    rng.shuffle(decisive)
    links: list[Link] = []
    for height in _heights(depth, left.total(), len(decisive) - 2):
        base, start = decisive.pop(), len(roots) + len(links)
        chain = _chain(roots[base], height, left, rng)
        links += [
            link._replace(target=start + level - 1 if level else base)
            for level, link in enumerate(chain)
        ]
    distractors = [at for at, root in enumerate(roots) if root.type is RuleType.DISTRACTOR]
    return links + _singles(decisive, distractors, left, rng)


def _heights(depth: int, modifiers: int, bases: int) -> list[int]:
    """How many modifiers stand one upon another, for each base rule with more than one.

    The deeper, the more of them, up to three, each lower by one than the one before. To pass over
    one modifier and over three in a row often come to the same, so that equal heights would favour
    a reader that stops an even number below them.
    """
    heights: list[int] = []
    for less in range(min(_CHAINS, depth - 1, max(1, bases))):
        height = max(2, depth - less)
        if sum(heights) + height <= modifiers:
            heights.append(height)
    return heights


def _chain(
    root: Root, height: int, left: Counter[RuleType], rng: random.Random
) -> tuple[Link, ...]:
    """Modifiers one upon another; mostly so that whoever does not read all of them errs.

    To that end the last is chosen so that the violated rules differ from what they were with any
    smaller number of the modifiers. Takes their types from `left`.
    """
    consequential = rng.random() < _CONSEQUENTIAL
    links: tuple[Link, ...] = ()
    seen = [_net_of_chain(root, links)]
    for level in range(height):
        kinds = [kind for kind in left if left[kind] > 0]
        options = [(*links, Link(kind, level, *state)) for kind in kinds for state in _STATES]
        rng.shuffle(options)
        if consequential and (level == height - 1 or rng.random() < _FLIPPING):
            options.sort(key=lambda longer: _net_of_chain(root, longer) in seen)
        links = options[0]
        left[links[-1].type] -= 1
        seen.append(_net_of_chain(root, links))
    return links


@lru_cache(maxsize=10_000)
def _net_of_chain(root: Root, links: tuple[Link, ...]) -> frozenset[int]:
    return net([root], links)


def _singles(
    decisive: Sequence[int], distractors: Sequence[int], left: Counter[RuleType], rng: random.Random
) -> list[Link]:
    """The modifiers on which no other acts, two of which meet on one base rule."""
    links: list[Link] = []
    load = Counter(dict.fromkeys(decisive, 0))
    if decisive and min(left.values()) > 0:
        links.append(Link(RuleType.EXCEPTION, decisive[0], True, rng.random() < 0.5))
        links.append(Link(RuleType.CONDITIONAL, decisive[0], True, False))
        left.subtract(link.type for link in links)
        load[decisive[0]] = 2
    for kind in rng.sample(list(left.elements()), left.total()):
        exception = kind is RuleType.EXCEPTION
        triggered, met = rng.choice((*_STATES, (False, True)) if exception else _STATES)
        if distractors and (not load or rng.random() < _ON_DISTRACTORS):
            # A conditional that is unmet would make the distractor a violated rule.
            links.append(Link(kind, rng.choice(distractors), triggered, met or not exception))
            continue
        least = min(load.values())
        target = rng.choice([at for at, count in load.items() if count == least])
        load[target] += 1
        links.append(Link(kind, target, triggered, met))
    return links
