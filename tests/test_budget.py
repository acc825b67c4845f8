"""A budget holds however many calls want to start at once."""

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safepyramid.budget import Budget, BudgetSpent


def spend(budget: Budget, prices: list[float | None], least: float = 0.001) -> list[str]:
    """Start one call for each price at the same moment; None comes back without a price."""
    refused: list[str] = []

    async def call(price: float | None) -> None:
        try:
            async with budget.hold("call", least) as spent:
                await anyio.sleep(0.001)
                spent(price)
        except BudgetSpent as error:
            refused.append(str(error))

    async def all_at_once() -> None:
        async with anyio.create_task_group() as group:
            for price in prices:
                group.start_soon(call, price)

    anyio.run(all_at_once)
    return refused


@given(st.integers(0, 60), st.integers(1, 40))
def test_calls_of_one_price_never_pass_the_limit(calls: int, affordable: int) -> None:
    budget = Budget(0.25 * affordable)
    refused = spend(budget, [0.25] * calls)
    assert budget.spent == 0.25 * min(calls, affordable)
    assert len(refused) == max(0, calls - affordable)


def test_what_was_spent_before_counts() -> None:
    budget = Budget(1.0, spent=0.75)
    assert len(spend(budget, [0.25] * 5)) == 4
    assert spend(Budget(1.0, spent=1.0), [0.25])[0].startswith("cost limit of $1 reached")


def test_a_reply_of_unknown_price_ends_all_calls() -> None:
    budget = Budget(100.0)
    refused = spend(budget, [None] * 50)
    assert len(refused) == 49
    assert "without its tokens" in refused[0]


def test_replies_from_a_cache_do_not_make_calls_look_cheap() -> None:
    budget = Budget(1.0)
    assert spend(budget, [0.0] * 40) == []
    refused = spend(budget, [0.25] * 20)
    assert (budget.spent, len(refused)) == (1.0, 16)


def test_what_costs_nothing_is_not_held_up() -> None:
    budget = Budget(1.0)
    assert spend(budget, [0.0] * 40, least=0.0) == []


def test_calls_that_fail_are_let_go_and_soon_all_at_once() -> None:
    budget, most, under_way = Budget(1.0), 0, 0

    async def fails() -> None:
        nonlocal most, under_way
        async with budget.hold("call", 0.001):
            under_way += 1
            most = max(most, under_way)
            await anyio.sleep(0.001)
            under_way -= 1  # and no price: it failed

    async def all_at_once() -> None:
        async with anyio.create_task_group() as group:
            for _ in range(63):
                group.start_soon(fails)

    anyio.run(all_at_once)
    assert 16 <= most <= 32  # 1, 2, 4, …
    assert budget.spent == 0


def test_an_expensive_kind_says_nothing_of_a_cheap_one() -> None:
    budget = Budget(1.0)

    async def work() -> None:
        async with budget.hold("dear", 0.001) as spent:
            spent(0.9)
        async with budget.hold("cheap", 0.001) as spent:
            spent(0.05)
        with pytest.raises(BudgetSpent):
            async with budget.hold("dear", 0.001):
                pass

    anyio.run(work)
    assert budget.spent == pytest.approx(0.95)
