"""hccl.split.api: what it takes, what it refuses, which strategy stands."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from hccl.manage.api import create_group, destroy_group
from hccl.split import api
from hccl.split.api import set_split_strategy_by_idx, set_split_strategy_by_size
from npu_device._core import runtime
from npu_device._core.split_strategy import DEFAULT, SplitStrategy

WORLD = "hccl_world_group"


@pytest.fixture
def rank(become):
    return become(RANK_ID="1", RANK_SIZE="4")


def _of(group=WORLD):
    return runtime.current().split_strategies.of(group)


def test_signatures():
    assert sorted(api.__all__) == ["set_split_strategy_by_idx", "set_split_strategy_by_size"]
    found = [list(inspect.signature(getattr(api, n)).parameters.items()) for n in api.__all__]
    assert [[name for name, _ in parameters] for parameters in found] == [
        ["idxList", "group"],
        ["dataSizeList", "group"],
    ]
    assert all(p[1][1].default == WORLD and p[0][1].default is p[0][1].empty for p in found)


def test_default(rank):
    assert _of() == DEFAULT
    assert DEFAULT.percentages == (96.54, 3.46)


@pytest.mark.parametrize(
    "indices", [[0], [20, 100, 159], list(range(8)), [np.int64(3), np.int32(4)], [0, 2**40]]
)
def test_by_index(rank, native, indices):
    assert set_split_strategy_by_idx(indices) is None
    assert _of() == SplitStrategy(last_indices=tuple(indices))
    assert all(type(index) is int for index in _of().last_indices)
    assert native.starts == 0


@pytest.mark.parametrize(
    "sizes",
    [[100], [60, 20, 20], [96.54, 3.46], [0, 100], [12.5] * 8, [33.3, 33.3, 33.4], [np.int64(100)]],
)
def test_by_size(rank, native, sizes):
    assert set_split_strategy_by_size(sizes) is None
    assert _of() == SplitStrategy(percentages=tuple(float(size) for size in sizes))
    assert native.starts == 0


@pytest.mark.parametrize(
    ("indices", "message"),
    [
        ((20, 30), r"idxList of group 'hccl_world_group' is \(20, 30\), allowed is a list"),
        ("20", "is '20', allowed is a list"),
        (None, "is None, allowed is a list"),
        ([], r"is \[\], allowed is a list of 1 to 8"),
        (list(range(9)), "allowed is a list of 1 to 8"),
        ([3, 3], r"idxList\[1\] of group .* is 3, allowed is more than the index before it, 3"),
        ([1, 5, 4], r"idxList\[2\] .* is 4, allowed is more than the index before it, 5"),
        ([-1, 4], r"idxList\[0\] .* is -1, allowed is an index"),
        ([1, 2.0], r"idxList\[1\] .* is 2.0, allowed is an index"),
        ([0, True], r"idxList\[1\] .* is True, allowed is an index"),
        (["1"], r"idxList\[0\] .* is '1', allowed is an index"),
    ],
)
def test_wrong_indices(rank, indices, message):
    with pytest.raises(ValueError, match=message):
        set_split_strategy_by_idx(indices)
    assert _of() == DEFAULT


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((60, 40), r"dataSizeList of group 'hccl_world_group' is \(60, 40\), allowed is a list"),
        (100, "is 100, allowed is a list"),
        ([], r"is \[\], allowed is a list of 1 to 8"),
        ([11.0] * 8 + [12.0], "allowed is a list of 1 to 8"),
        ([60, 30], r"is \[60, 30\], which sums to 90. The percentages must sum to 100"),
        ([60, 40.01], "which sums to 100.01"),
        ([0.6, 0.4], "which sums to 1"),
        ([-10, 110], r"dataSizeList\[0\] .* is -10, allowed is a percentage"),
        ([float("nan"), 100], r"dataSizeList\[0\] .* is nan"),
        ([100, float("inf")], r"dataSizeList\[1\] .* is inf"),
        ([50, "50"], r"dataSizeList\[1\] .* is '50'"),
        ([True, 99], r"dataSizeList\[0\] .* is True"),
        ([10**400, 0], r"dataSizeList\[0\] .* allowed is a percentage"),
        ([None], r"dataSizeList\[0\] .* is None"),
    ],
)
def test_wrong_sizes(rank, sizes, message):
    with pytest.raises(ValueError, match=message):
        set_split_strategy_by_size(sizes)
    assert _of() == DEFAULT


def test_by_size_stands_whichever_was_set_last(rank):
    set_split_strategy_by_size([60, 40])
    set_split_strategy_by_idx([1, 2])
    assert _of().percentages == (60, 40)
    set_split_strategy_by_size([50, 50])
    assert _of().percentages == (50, 50)


def test_each_group_has_its_own(rank):
    create_group("pair", 2, [1, 3])
    create_group("other", 1, [1])
    set_split_strategy_by_idx([5], "pair")
    set_split_strategy_by_size([30, 70], group="other")
    assert _of("pair") == SplitStrategy(last_indices=(5,))
    assert _of("other") == SplitStrategy(percentages=(30, 70))
    assert _of() == DEFAULT


def test_forgotten_with_its_group(rank):
    create_group("pair", 2, [1, 3])
    set_split_strategy_by_size([30, 70], "pair")
    set_split_strategy_by_idx([4], "pair")
    destroy_group("pair")
    create_group("pair", 2, [1, 3])
    assert _of("pair") == DEFAULT


def test_forgotten_at_shutdown(rank):
    set_split_strategy_by_size([30, 70])
    runtime.shutdown()
    assert _of() == DEFAULT


def test_the_list_given_may_change_afterwards(rank):
    indices = [1, 2]
    set_split_strategy_by_idx(indices)
    indices.append(0)
    assert _of().last_indices == (1, 2)


@pytest.mark.parametrize(
    ("call", "argument"), [(set_split_strategy_by_idx, [1]), (set_split_strategy_by_size, [100])]
)
@pytest.mark.parametrize("group", ["unknown", "", None, 3, "x" * 128])
def test_wrong_group(rank, call, argument, group):
    with pytest.raises(ValueError, match="group"):
        call(argument, group)


def test_world_of_ranks_without_numbers_is_not_started(become, native):
    become(
        CM_CHIEF_IP="::1",
        CM_CHIEF_PORT="1",
        CM_CHIEF_DEVICE="0",
        CM_WORKER_SIZE="2",
        CM_WORKER_IP="::1",
    )
    set_split_strategy_by_idx([1])
    assert native.starts == 0
