"""The description of a job: from RANK_*, from a rank table, from CM_*; what contradicts what."""

from __future__ import annotations

import dataclasses

import pytest

from npu_device._core import cluster

CHIEF = {
    "CM_CHIEF_IP": "10.0.0.1",
    "CM_CHIEF_PORT": "6000",
    "CM_CHIEF_DEVICE": "0",
    "CM_WORKER_SIZE": "4",
    "CM_WORKER_IP": "10.0.0.2",
}


@pytest.mark.parametrize(
    ("environ", "size", "rank", "device"),
    [
        ({}, 1, 0, 0),
        ({"RANK_ID": "0"}, 1, 0, 0),
        ({"RANK_SIZE": "1"}, 1, 0, 0),
        ({"RANK_SIZE": "1", "RANK_TABLE_FILE": "/no/such/file"}, 1, 0, 0),
        ({"RANK_SIZE": "1", "RANK_ID": "0", "DEVICE_ID": "5"}, 1, 0, 5),
        ({"RANK_SIZE": "2", "RANK_ID": "1"}, 2, 1, 0),
        ({"RANK_SIZE": "8", "RANK_ID": "7", "ASCEND_DEVICE_ID": "7"}, 8, 7, 7),
        ({"RANK_SIZE": "8", "RANK_ID": "0", "DEVICE_INDEX": "3"}, 8, 0, 3),
    ],
)
def test_world_without_a_table(describe, environ, size, rank, device):
    description = describe(**environ)
    assert (description.size, description.rank, description.device) == (size, rank, device)
    assert description.server_ranks() == tuple(range(size))
    assert description.servers == ()
    assert description.notes == ()


def test_single_card_run_that_is_numbered_by_its_card(describe):
    description = describe(RANK_SIZE="1", RANK_ID="3")
    assert (description.size, description.rank) == (1, 0)
    assert description.notes == ("RANK_ID is 3 and RANK_SIZE is 1: this process is rank 0.",)


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        (
            {"RANK_SIZE": "2"},
            "Environment variable RANK_ID is not set, and RANK_SIZE is 2. Set it to 0 to 1, to a "
            "different number in each process, or start the script with npurun.",
        ),
        (
            {"RANK_SIZE": "2", "RANK_ID": "2"},
            "Environment variable RANK_ID is 2, allowed is 0 to 1, since RANK_SIZE is 2.",
        ),
        (
            {"RANK_ID": "3"},
            "Environment variable RANK_ID is 3, allowed is 0, since RANK_SIZE is not set, so 1.",
        ),
    ],
)
def test_rank_that_is_not_in_the_world(describe, environ, message):
    with pytest.raises(ValueError) as error:
        describe(**environ)
    assert str(error.value) == message


@pytest.mark.parametrize("size", [None, "4"])
def test_world_of_a_table(describe, table_file, two_servers, size):
    environ = {"RANK_TABLE_FILE": table_file(two_servers), "DEVICE_ID": "9", "RANK_ID": "2"}
    if size:
        environ["RANK_SIZE"] = size
    description = describe(**environ)
    assert (description.size, description.rank) == (4, 2)
    assert description.device == 4  # the table's goes before DEVICE_ID
    assert description.servers == ("node_0", "node_1")
    assert description.server_ranks() == (2, 3)


def test_table_of_one_rank_needs_no_rank_id(describe, table_file, two_servers):
    del two_servers["server_list"][1], two_servers["server_list"][0]["device"][1]
    two_servers["server_count"] = 1
    description = describe(RANK_TABLE_FILE=table_file(two_servers))
    assert (description.size, description.rank) == (1, 0)


def test_template_2_gives_ranks_of_several_instances_one_server(
    describe, table_file, older_template
):
    description = describe(RANK_TABLE_FILE=table_file(older_template), RANK_ID="1")
    assert (description.size, description.device) == (3, 2)
    assert description.server_ranks() == (0, 1, 2)


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({}, "RANK_ID is not set, and rank table {file!r} lists 4 devices in $.server_list. "
             "Set it to 0 to 3, to"),
        ({"RANK_ID": "4"}, "RANK_ID is 4, allowed is 0 to 3, since rank table {file!r} lists 4 "
                           "devices in $.server_list."),
        ({"RANK_ID": "0", "RANK_SIZE": "8"}, "Rank table {file!r}: $.server_list lists 4 devices, "
                                             "and RANK_SIZE is 8; they must be equal."),
    ],
)  # fmt: skip
def test_table_that_does_not_fit_the_environment(
    describe, table_file, two_servers, environ, message
):
    file = table_file(two_servers)
    with pytest.raises(ValueError) as error:
        describe(RANK_TABLE_FILE=file, **environ)
    assert message.format(file=file) in str(error.value)


def test_missing_table_is_an_error_in_a_world_of_several(describe):
    with pytest.raises(ValueError, match=r"'/no/such/file': .* a file that does not exist"):
        describe(RANK_SIZE="2", RANK_ID="0", RANK_TABLE_FILE="/no/such/file")


def test_chief(describe):
    description = describe(DEVICE_ID="3", **CHIEF)
    assert (description.size, description.rank, description.device) == (4, None, 3)
    assert description.server_ranks() is None
    assert dataclasses.astuple(description.meeting) == ("10.0.0.1", 6000, 0, "10.0.0.2")


def test_chief_alone_is_rank_0(describe):
    description = describe(**dict(CHIEF, CM_WORKER_SIZE="1"))
    assert (description.size, description.rank) == (1, 0)
    assert description.server_ranks() == (0,)


@pytest.mark.parametrize("name", ["RANK_TABLE_FILE", "RANK_ID", "RANK_SIZE"])
@pytest.mark.parametrize("chief", [CHIEF, {"CM_WORKER_SIZE": "4"}])
def test_chief_contradicts_a_numbered_rank(describe, name, chief):
    with pytest.raises(ValueError, match="set together") as error:
        describe(**dict(chief, **{name: "1"}))
    message = str(error.value)
    assert f"Unset {name} to have the ranks meet at the chief" in message
    assert all(given in message for given in chief)


@pytest.mark.parametrize("name", sorted(CHIEF))
def test_chief_with_a_variable_missing(describe, name):
    chief = dict(CHIEF)
    del chief[name]
    with pytest.raises(ValueError, match=f"are set and {name} is not. Set all of CM_CHIEF_IP"):
        describe(**chief)


def test_chief_with_one_variable_only(describe):
    with pytest.raises(ValueError, match=r"^CM_CHIEF_IP is set and CM_CHIEF_PORT, .* are not"):
        describe(CM_CHIEF_IP="10.0.0.1")


def test_identity_is_equal_on_all_ranks_of_a_job_and_tells_jobs_apart(
    describe, table_file, two_servers
):
    table = table_file(two_servers)
    jobs = [
        [describe(RANK_SIZE="4", RANK_ID=str(r), DEVICE_ID=str(r)) for r in range(4)],
        [describe(RANK_SIZE="4", RANK_ID=str(r), JOB_ID="a") for r in range(4)],
        [describe(RANK_SIZE="3", RANK_ID=str(r), JOB_ID="a") for r in range(3)],
        [describe(RANK_TABLE_FILE=table, RANK_ID=str(r)) for r in range(4)],
        [describe(**dict(CHIEF, CM_WORKER_IP=f"10.0.0.{r}", DEVICE_ID=str(r))) for r in range(4)],
        [describe(**dict(CHIEF, CM_CHIEF_PORT="6001"))],
        [describe(**dict(CHIEF, CM_CHIEF_IP="10.0.0.2"))],
        [describe(**dict(CHIEF, CM_CHIEF_DEVICE="1"))],
    ]
    identities = [{description.identity() for description in job} for job in jobs]
    assert all(len(of_job) == 1 for of_job in identities)
    assert len(set.union(*identities)) == len(jobs)


def test_what_native_code_is_told(describe, table_file, two_servers):
    numbers = {"connect_timeout_s": 1}
    told = describe(RANK_SIZE="2", RANK_ID="1", DEVICE_ID="3").to_native(numbers)
    assert told.pop("identity")
    assert told == {
        "rank": 1,
        "size": 2,
        "host_ranks": [0, 1],
        "rank_locations": [],
        "unnumbered": False,
        "device": 3,
        "worker_address": "",
        "chief_address": "",
        "chief_device": 0,
        "settings": numbers,
    }
    told = describe(**CHIEF).to_native(numbers)
    assert (told["unnumbered"], told["rank"], told["host_ranks"]) == (True, 0, None)
    assert (told["worker_address"], told["chief_address"]) == ("10.0.0.2", "10.0.0.1")

    told = describe(RANK_TABLE_FILE=table_file(two_servers), RANK_ID="2").to_native(numbers)
    assert told["host_ranks"] == [2, 3]
    assert told["rank_locations"] == [
        "server 'node_0' (10.0.0.1), device 0, which is not this rank's server 'node_1': "
        "ranks on several hosts need the Gloo transport, which is not in this build",
        "server 'node_0' (10.0.0.1), device 1, which is not this rank's server 'node_1': "
        "ranks on several hosts need the Gloo transport, which is not in this build",
        "server 'node_1', device 4",
        "server 'node_1', device 5",
    ]


def test_settings_come_from_the_environment():
    from npu_device._core import environment

    defaults = cluster.settings(environment.read({}))
    assert defaults == {
        "connect_timeout_s": 120,
        "exec_timeout_s": 1836,
        "mismatch_timeout_s": 20,
        "stall_warn_s": 60,
        "slow_start_s": 5,
        "buffer_size_mb": 200,
        "pool_limit_mb": 0,
        "transport": "auto",
    }
    changed = cluster.settings(
        environment.read(
            {
                "HCCL_CONNECT_TIMEOUT": "121",
                "HCCL_EXEC_TIMEOUT": "0",
                "NPU_BRIDGE_MISMATCH_TIMEOUT": "3",
                "NPU_BRIDGE_STALL_WARN": "4",
                "HCCL_BUFFSIZE": "6",
                "NPU_BRIDGE_POOL_LIMIT": "7",
                "NPU_BRIDGE_TRANSPORT": "shm",
            }
        )
    )
    assert list(changed.values()) == [121, 0, 3, 4, 5, 6, 7, "shm"]


GLOO = "ranks on several hosts need the Gloo transport, which is not in this build"


def test_start_failure_names_the_servers_of_ranks_that_did_not_come(
    describe, table_file, two_servers
):
    file = table_file(two_servers)
    description = describe(RANK_TABLE_FILE=file, RANK_ID="2")
    assert cluster.start_failure(description, "2 of 4 ranks came.", met=[2, 3]) == (
        f"2 of 4 ranks came. Ranks that did not come to this host by rank table {file!r}: "
        f"ranks 0-1 of server 'node_0' (10.0.0.1). Note: {GLOO}."
    )
    assert cluster.start_failure(description, "Too late.") == (
        f"Too late. The ranks of this job by rank table {file!r}: ranks 0-1 of server 'node_0' "
        f"(10.0.0.1); ranks 2-3 of server 'node_1'. Note: {GLOO}."
    )


def test_start_failure_that_servers_do_not_explain(
    describe, table_file, two_servers, older_template
):
    several = describe(RANK_TABLE_FILE=table_file(two_servers), RANK_ID="2")
    assert cluster.start_failure(several, "Oh.", met=[0, 1, 2, 3]) == "Oh."
    assert cluster.start_failure(several, f"Said: {GLOO}") == f"Said: {GLOO}"
    one = describe(RANK_TABLE_FILE=table_file(older_template), RANK_ID="1")
    assert cluster.start_failure(one, "Oh.", met=[1]) == "Oh."
    assert cluster.start_failure(describe(RANK_SIZE="2", RANK_ID="0"), "Oh.") == "Oh."
    here = describe(**dict(CHIEF, CM_WORKER_IP="10.0.0.1"))
    assert cluster.start_failure(here, "Oh.") == "Oh."
    assert cluster.start_failure(describe(**CHIEF), "Oh.") == (
        f"Oh. This rank's CM_WORKER_IP is 10.0.0.2 and CM_CHIEF_IP is 10.0.0.1: {GLOO}."
    )


@pytest.mark.parametrize(
    ("ranks", "words"),
    [([3], "rank 3"), ([0, 1, 2, 5], "ranks 0-2,5"), ([1, 3], "ranks 1,3"), ([0, 1], "ranks 0-1")],
)
def test_ranks_in_words(ranks, words):
    assert cluster.rank_list(ranks) == words
