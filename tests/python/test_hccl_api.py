"""hccl.manage.api on one rank: results, and a different error for each wrong argument or state."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from hccl.manage import api
from hccl.manage.api import (
    create_group,
    destroy_group,
    get_group_rank_from_world_rank,
    get_local_rank_id,
    get_local_rank_size,
    get_rank_id,
    get_rank_size,
    get_world_rank_from_group_rank,
)

WORLD = "hccl_world_group"
DEFAULT = inspect.Parameter.empty


@pytest.fixture
def rank_1_of_4(become):
    return become(RANK_ID="1", RANK_SIZE="4")


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("create_group", {"group": DEFAULT, "rank_num": DEFAULT, "rank_ids": DEFAULT}),
        ("destroy_group", {"group": DEFAULT}),
        ("get_rank_size", {"group": WORLD}),
        ("get_rank_id", {"group": WORLD}),
        ("get_local_rank_size", {"group": WORLD}),
        ("get_local_rank_id", {"group": WORLD}),
        ("get_world_rank_from_group_rank", {"group": DEFAULT, "group_rank_id": DEFAULT}),
        ("get_group_rank_from_world_rank", {"world_rank_id": DEFAULT, "group": DEFAULT}),
    ],
)
def test_signature(name, parameters):
    found = inspect.signature(getattr(api, name)).parameters
    assert [(p.name, p.default) for p in found.values()] == list(parameters.items())
    assert name in api.__all__
    assert len(api.__all__) == 8


def test_world_of_one_needs_nothing(become, native):
    become()
    assert (get_rank_size(), get_rank_id()) == (1, 0)
    assert (get_local_rank_size(), get_local_rank_id()) == (1, 0)
    assert get_world_rank_from_group_rank(WORLD, 0) == 0
    assert get_group_rank_from_world_rank(0, WORLD) == 0
    create_group("alone", 1, [0])
    assert get_rank_size("alone") == 1
    assert native.starts == 0


def test_world(rank_1_of_4, native):
    assert (get_rank_size(), get_rank_id(), get_rank_size(group=WORLD)) == (4, 1, 4)
    assert (get_local_rank_size(), get_local_rank_id()) == (4, 1)
    assert [get_world_rank_from_group_rank(WORLD, r) for r in range(4)] == [0, 1, 2, 3]
    assert [get_group_rank_from_world_rank(r, WORLD) for r in range(4)] == [0, 1, 2, 3]
    assert native.starts == 0


def test_rank_in_a_group_is_the_position_in_the_list(rank_1_of_4, native):
    assert create_group("back", 3, [3, 1, 0]) is None
    assert (get_rank_size("back"), get_rank_id("back")) == (3, 1)
    assert [get_world_rank_from_group_rank("back", r) for r in range(3)] == [3, 1, 0]
    assert [get_group_rank_from_world_rank(r, "back") for r in (3, 1, 0)] == [0, 1, 2]
    assert native.groups == {"back": [3, 1, 0]}
    assert native.starts == 0


def test_groups_overlap_and_end_in_any_order(rank_1_of_4):
    create_group("a", 2, [0, 1])
    create_group("b", 3, [1, 2, 3])
    create_group("c", 4, [0, 1, 2, 3])
    assert destroy_group("b") is None
    assert [get_rank_id("a"), get_rank_id("c")] == [1, 1]
    create_group("b", 2, [3, 1])
    assert get_rank_id("b") == 1
    for name in ("a", "c", "b"):
        destroy_group(name)
        with pytest.raises(ValueError, match=f"There is no group '{name}' on rank 1"):
            get_rank_size(name)


def test_numpy_integers_are_integers(rank_1_of_4, native):
    create_group("g", np.int64(2), list(np.array([1, 2], np.int32)))
    assert native.groups["g"] == [1, 2]
    assert get_world_rank_from_group_rank("g", np.int64(1)) == 2
    assert get_group_rank_from_world_rank(np.uint8(2), "g") == 1


def test_local_ranks_are_those_on_this_server(become, table_file, two_servers):
    become(RANK_TABLE_FILE=table_file(two_servers), RANK_ID="2")
    assert (get_local_rank_size(), get_local_rank_id()) == (2, 0)
    create_group("mixed", 3, [3, 0, 2])
    assert (get_local_rank_size("mixed"), get_local_rank_id("mixed")) == (2, 1)
    create_group("spread", 2, [1, 2])
    assert (get_local_rank_size("spread"), get_local_rank_id("spread")) == (1, 0)


def test_ranks_without_numbers_meet_first(become, native):
    native.numbered, native.met = 1, [0, 1]
    become(
        CM_CHIEF_IP="::1",
        CM_CHIEF_PORT="1",
        CM_CHIEF_DEVICE="0",
        CM_WORKER_SIZE="2",
        CM_WORKER_IP="::1",
    )
    assert get_rank_size() == 2
    assert native.starts == 0
    assert (get_rank_id(), get_local_rank_size(), get_local_rank_id()) == (1, 2, 1)
    create_group("g", 2, [1, 0])
    assert get_rank_id("g") == 0
    assert native.starts == 1


@pytest.mark.parametrize(
    "name", ["x", "x" * 127, "ä" * 63, "组" * 42, "a/b c", "hccl_world_group2"]
)
def test_names_that_are_allowed(rank_1_of_4, name):
    create_group(name, 1, [1])
    assert get_rank_id(name) == 0
    destroy_group(name)


WRONG_NAMES = [
    (None, "group is None, allowed is a str of 1 to 127 bytes"),
    (7, "group is 7, allowed is a str"),
    (b"g", "group is b'g', allowed is a str"),
    (["g"], r"group is \['g'\], allowed is a str"),
    ("", "group is '', which has 0 bytes"),
    ("x" * 128, "which has 128 bytes in UTF-8; allowed are 1 to 127"),
    ("\ud800", "which has no form in UTF-8"),
    ("ä" * 64, "which has 128 bytes"),
    ("组" * 43, "which has 129 bytes"),
]
EVERY_CALL = {
    "create_group": lambda group: create_group(group, 1, [1]),
    "destroy_group": destroy_group,
    "get_rank_size": get_rank_size,
    "get_rank_id": get_rank_id,
    "get_local_rank_size": get_local_rank_size,
    "get_local_rank_id": get_local_rank_id,
    "get_world_rank_from_group_rank": lambda group: get_world_rank_from_group_rank(group, 0),
    "get_group_rank_from_world_rank": lambda group: get_group_rank_from_world_rank(0, group),
}


@pytest.mark.parametrize("call", sorted(EVERY_CALL))
@pytest.mark.parametrize(("name", "message"), WRONG_NAMES)
def test_wrong_name(rank_1_of_4, native, call, name, message):
    with pytest.raises(ValueError, match=message):
        EVERY_CALL[call](name)
    assert native.groups == {}


@pytest.mark.parametrize("call", sorted(set(EVERY_CALL) - {"create_group"}))
def test_unknown_group(rank_1_of_4, call):
    create_group("b", 1, [1])
    create_group("a", 1, [1])
    message = (
        "There is no group 'g' on rank 1: it was not created here, or was destroyed. "
        "Groups that exist: 'hccl_world_group', 'a', 'b'."
    )
    with pytest.raises(ValueError) as error:
        EVERY_CALL[call]("g")
    assert str(error.value) == message


WRONG_CREATIONS = [
    ((WORLD, 4, [0, 1, 2, 3]), "'hccl_world_group' holds all ranks and exists from the start"),
    (("g", 0, []), "rank_num of group 'g' is 0, allowed is an int above 0"),
    (("g", -1, [1]), "rank_num of group 'g' is -1"),
    (("g", 1.0, [1]), "rank_num of group 'g' is 1.0"),
    (("g", True, [1]), "rank_num of group 'g' is True"),
    (("g", "1", [1]), "rank_num of group 'g' is '1'"),
    (("g", None, [1]), "rank_num of group 'g' is None"),
    (("g", 2, (0, 1)), r"rank_ids of group 'g' is \(0, 1\), allowed is a list"),
    (("g", 2, range(2)), r"rank_ids of group 'g' is range\(0, 2\), allowed is a list"),
    (("g", 2, np.array([0, 1])), r"rank_ids of group 'g' is array.*allowed is a list"),
    (("g", 1, 1), "rank_ids of group 'g' is 1, allowed is a list"),
    (("g", 2, [1]), "rank_num of group 'g' is 2 and rank_ids has 1 entries"),
    (("g", 1, [0, 1]), "rank_num of group 'g' is 1 and rank_ids has 2 entries"),
    (("g", 2, [1, -1]), r"rank_ids\[1\] of group 'g' is -1, allowed is a world rank"),
    (("g", 2, [1, 2.0]), r"rank_ids\[1\] of group 'g' is 2.0, allowed is a world rank"),
    (("g", 2, [0, True]), r"rank_ids\[1\] of group 'g' is True, allowed is a world rank"),
    (("g", 2, ["1", 2]), r"rank_ids\[0\] of group 'g' is '1', allowed is a world rank"),
    (("g", 2, [1, 4]), r"rank_ids\[1\] of group 'g' is 4, .* outside the world: it has 4 ranks"),
    (("g", 3, [1, 2, 1]), "holds rank 1 twice, at positions 0 and 2"),
    (("g", 2, [0, 2]), r"Rank 1 creates group 'g' with rank_ids \[0, 2\] and is not in it"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG_CREATIONS)
def test_wrong_creation(rank_1_of_4, native, arguments, message):
    with pytest.raises(ValueError, match=message):
        create_group(*arguments)
    assert native.groups == {}


def test_a_name_exists_once(rank_1_of_4, native):
    create_group("g", 2, [0, 1])
    with pytest.raises(ValueError, match=r"Group 'g' exists already on rank 1, .* \[0, 1\]"):
        create_group("g", 2, [1, 2])
    assert native.groups == {"g": [0, 1]}


def test_the_world_cannot_be_destroyed(rank_1_of_4):
    with pytest.raises(ValueError, match=r"'hccl_world_group' .* cannot be destroyed"):
        destroy_group(WORLD)


def test_destroyed_twice(rank_1_of_4):
    create_group("g", 1, [1])
    destroy_group("g")
    with pytest.raises(ValueError, match="There is no group 'g'"):
        destroy_group("g")


@pytest.mark.parametrize("rank", [-1, 2, 1.0, "0", None, True])
def test_no_such_rank_in_the_group(rank_1_of_4, rank):
    create_group("g", 2, [3, 1])
    with pytest.raises(ValueError, match=r"group_rank_id is .*, allowed is an int from 0 to 1"):
        get_world_rank_from_group_rank("g", rank)


@pytest.mark.parametrize("rank", [-1, 4, 1.0, "0", None, False])
def test_no_such_rank_in_the_world(rank_1_of_4, rank):
    create_group("g", 2, [3, 1])
    with pytest.raises(ValueError, match=r"world_rank_id is .*, allowed is an int from 0 to 3"):
        get_group_rank_from_world_rank(rank, "g")


def test_rank_that_is_not_in_the_group(rank_1_of_4):
    create_group("g", 2, [3, 1])
    with pytest.raises(ValueError, match="World rank 2 is not in group 'g', which has ranks 1,3"):
        get_group_rank_from_world_rank(2, "g")


def test_arguments_in_the_wrong_order(rank_1_of_4):
    with pytest.raises(ValueError, match="group is 0, allowed is a str"):
        get_group_rank_from_world_rank(WORLD, 0)


def test_wrong_environment_is_a_value_error_too(become):
    become(RANK_ID="4", RANK_SIZE="4")
    with pytest.raises(ValueError, match="RANK_ID is 4, allowed is 0 to 3"):
        get_rank_size()
