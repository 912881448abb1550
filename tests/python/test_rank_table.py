"""Rank tables: both templates, and one error for each thing that can be wrong."""

from __future__ import annotations

import copy
import errno
import json
import os
import sys

import pytest

from npu_device._core import json_file, rank_table

DELETE = object()


def _changed(table, changes):
    """A copy of a table with the values at some paths, such as "server_list.0.device", replaced."""
    table = copy.deepcopy(table)
    for path, value in changes.items():
        *steps, last = [int(step) if step.isdigit() else step for step in path.split(".")]
        node = table
        for step in steps:
            node = node[step]
        if value is DELETE:
            del node[last]
        else:
            node[last] = value
    return table


def test_template_1(two_servers, table_file):
    table = rank_table.load(table_file(two_servers))
    assert (table.template, table.version, table.size) == (1, "1.0", 4)
    assert [d.device_id for d in table.devices] == [0, 1, 4, 5]
    assert [d.device_ip for d in table.devices] == ["192.168.1.8", "192.168.1.9", "", ""]
    assert [(s.server_id, s.ranks, s.address) for s in table.servers] == [
        ("node_0", (0, 1), "10.0.0.1"),
        ("node_1", (2, 3), ""),
    ]
    assert table.server_of(2).server_id == "node_1"


def test_template_2_numbers_ranks_in_the_order_of_its_entries(older_template, table_file):
    table = rank_table.load(table_file(older_template))
    assert (table.template, table.version, table.size) == (2, "", 3)
    assert [d.device_id for d in table.devices] == [0, 2, 1]
    assert [(s.server_id, s.ranks, s.address) for s in table.servers] == [
        ("10.0.0.1", (0, 1, 2), "10.0.0.1")
    ]


def test_version_1_2_with_super_pods(two_servers, table_file):
    for number, server in enumerate(two_servers["server_list"]):
        for device in server["device"]:
            device["super_device_id"] = str(number)
    two_servers["version"] = "1.2"
    two_servers["super_pod_list"] = [
        {"super_pod_id": "0", "server_list": [{"server_id": "node_0"}, {"server_id": "node_1"}]}
    ]
    assert rank_table.load(table_file(two_servers)).version == "1.2"


@pytest.mark.parametrize(
    "changes",
    [
        {"server_count": 2, "server_list.0.device.0.rank_id": 0},
        {"server_list.0.device.0.device_id": 0, "server_list.1.device.1.rank_id": 3},
        {"server_count": DELETE},
        {"server_list.0.host_ip": DELETE},
        {"server_list.0.host_ip": "", "server_list.0.host_nic_ip": "reserve"},
        {"server_list.0.device.0.device_port": "16666", "anything": ["else"]},
        {"server_list.0.server_id": "x" * 64},
        {"server_list.0.server_id": "ä" * 32},
        {"server_list.0.server_id": 7},
    ],
)
def test_spellings_that_are_the_same_table(two_servers, table_file, changes):
    plain = rank_table.load(table_file(two_servers))
    changed = rank_table.load(table_file(_changed(two_servers, changes)))
    assert [d.rank for d in changed.devices] == [d.rank for d in plain.devices]
    assert [d.device_id for d in changed.devices] == [d.device_id for d in plain.devices]


def test_order_of_entries_plays_no_part(two_servers, table_file):
    plain = rank_table.load(table_file(two_servers))
    two_servers["server_list"].reverse()
    for server in two_servers["server_list"]:
        server["device"].reverse()
    turned = rank_table.load(table_file(two_servers))
    assert [s.server_id for s in turned.servers] == ["node_0", "node_1"]
    assert [d.device_id for d in turned.devices] == [0, 1, 4, 5]
    assert turned.digest() == plain.digest()


def test_digest_tells_tables_apart(two_servers, older_template, table_file):
    tables = [
        two_servers,
        older_template,
        _changed(two_servers, {"server_list.1.server_id": "node_2"}),
        _changed(two_servers, {"server_list.1.device.0.device_id": "6"}),
    ]
    assert len({rank_table.load(table_file(table)).digest() for table in tables}) == len(tables)


def test_server_id_that_is_an_address_is_the_host_address(two_servers, table_file):
    changed = _changed(
        two_servers, {"server_list.0.server_id": "10.0.0.9", "server_list.1.server_id": "fe80::2"}
    )
    first, second = rank_table.load(table_file(changed)).servers
    assert (first.address, second.address) == ("10.0.0.1", "fe80::2")  # host_ip goes first


FIRST = "server_list.0.device.0."
# changes to the table, JSON path in the error, found, allowed
WRONG_TEMPLATE_1 = [
    ({"status": "initializing"}, "$.status", '"initializing"', '"completed"'),
    ({"status": DELETE}, "$.status", "missing", "required"),
    ({"status": True}, "$.status", "true", '"completed"'),
    ({"version": DELETE}, "$.version", "missing", "required"),
    ({"version": "1.1"}, "$.version", '"1.1"', '"1.0" or "1.2"'),
    ({"version": ["1.0"]}, "$.version", "a list of 1 entries", '"1.0" or "1.2"'),
    ({"server_list": DELETE}, "$", "an object with neither", "server_list"),
    ({"group_list": []}, "$", "an object with both", "server_list (template 1) or a group_list"),
    ({"server_list": []}, "$.server_list", "an empty list", "at least one entry"),
    ({"server_list": {}}, "$.server_list", "an object", "a list"),
    ({"server_list.1": "node"}, "$.server_list[1]", '"node"', "an object"),
    ({"server_count": "3"}, "$.server_count", '"3"', "2, the number of entries of $.server_list"),
    ({"server_count": 1}, "$.server_count", "1", "2, the number of entries of $.server_list"),
    ({"server_count": "two"}, "$.server_count", '"two"', "an integer"),
    ({"server_count": True}, "$.server_count", "true", "an integer"),
    ({"server_list.0.server_id": DELETE}, "$.server_list[0].server_id", "missing", "required"),
    ({"server_list.0.server_id": ""}, "$.server_list[0].server_id", '""', "1 to 64 bytes"),
    ({"server_list.0.server_id": None}, "$.server_list[0].server_id", "null", "1 to 64 bytes"),
    ({"server_list.0.server_id": "x" * 65}, "$.server_list[0].server_id", '"xxx', "1 to 64 bytes"),
    ({"server_list.0.server_id": "ä" * 33}, "$.server_list[0].server_id", '"', "1 to 64 bytes"),
    ({"server_list.0.server_id": "\ud800" * 22}, "$.server_list[0].server_id", '"', "1 to 64 byte"),
    ({"server_list.1.server_id": "node_0"}, "$.server_list[1].server_id", '"node_0"',
     "no other server has"),
    ({"server_list.0.host_ip": []}, "$.server_list[0].host_ip", "an empty list", "a string"),
    ({"server_list.1.device": DELETE}, "$.server_list[1].device", "missing", "required"),
    ({"server_list.1.device": []}, "$.server_list[1].device", "an empty list", "at least one"),
    ({"server_list.1.device.1": 7}, "$.server_list[1].device[1]", "7", "an object"),
    ({FIRST + "rank_id": DELETE}, "$.server_list[0].device[0].rank_id", "missing", "required"),
    ({FIRST + "rank_id": "-1"}, "$.server_list[0].device[0].rank_id", '"-1"', "an integer from 0"),
    ({FIRST + "rank_id": 0.0}, "$.server_list[0].device[0].rank_id", "0.0", "an integer from 0"),
    ({FIRST + "rank_id": False}, "$.server_list[0].device[0].rank_id", "false", "an integer"),
    ({FIRST + "rank_id": "4"}, "$.server_list[0].device[0].rank_id", '"4"',
     "0 to 3, each once, since 4 devices are listed"),
    ({"server_list.1.device.1.rank_id": "9"}, "$.server_list[1].device[1].rank_id", '"9"',
     "0 to 3, each once"),
    ({"server_list.1.device.1.rank_id": "2"}, "$.server_list[1].device[1].rank_id", '"2"',
     "no other device has; $.server_list[1].device[0] has it too"),
    ({FIRST + "device_id": DELETE}, "$.server_list[0].device[0].device_id", "missing", "required"),
    ({FIRST + "device_id": "a"}, "$.server_list[0].device[0].device_id", '"a"', "an integer"),
    ({FIRST + "device_id": "1"}, "$.server_list[0].device[1].device_id", '"1"',
     'of server "node_0" has; $.server_list[0].device[0] has it too'),
    ({FIRST + "device_ip": 5}, "$.server_list[0].device[0].device_ip", "5", "an address"),
    ({"server_list.0.device.1.rank_id": "2", "server_list.1.device.0.rank_id": "1"},
     "$.server_list[0].device[1].rank_id", "rank 2", "not contiguous"),
]  # fmt: skip

INSTANCES = "group_list.0.instance_list."
WRONG_TEMPLATE_2 = [
    ({"status": "none"}, "$.status", '"none"', '"completed"'),
    ({"group_list": []}, "$.group_list", "an empty list", "at least one entry"),
    ({"group_list.0": []}, "$.group_list[0]", "an empty list", "an object"),
    ({"group_count": "2"}, "$.group_count", '"2"', "1, the number of entries of $.group_list"),
    ({"group_list.0.instance_count": "3"}, "$.group_list[0].instance_count", '"3"',
     "2, the number of entries of $.group_list[0].instance_list"),
    ({"group_list.0.device_count": "2"}, "$.group_list[0].device_count", '"2"',
     "3, the number of devices of all instances"),
    ({"group_list.0.instance_list": DELETE}, "$.group_list[0].instance_list", "missing", "require"),
    ({INSTANCES + "1.server_id": DELETE}, "$.group_list[0].instance_list[1].server_id", "missing",
     "required"),
    ({INSTANCES + "1.devices": []}, "$.group_list[0].instance_list[1].devices", "an empty list",
     "at least one"),
    ({INSTANCES + "1.devices.0.device_id": "0"},
     "$.group_list[0].instance_list[1].devices[0].device_id", '"0"',
     "has; $.group_list[0].instance_list[0].devices[0] has it too"),
    ({INSTANCES + "1.devices.0.rank_id": "0"},
     "$.group_list[0].instance_list[1].devices[0].rank_id", '"0"', "1: ranks follow the order"),
]  # fmt: skip


def _check_error(load, file, path, found, allowed):
    with pytest.raises(ValueError) as error:
        load()
    message = str(error.value)
    assert message.startswith(f"Rank table {file!r}: {path} is {found}"), message
    assert allowed in message.split(", allowed is ", 1)[1]
    assert "\n" not in message


@pytest.mark.parametrize(("changes", "path", "found", "allowed"), WRONG_TEMPLATE_1)
def test_wrong_template_1(two_servers, table_file, changes, path, found, allowed):
    file = table_file(_changed(two_servers, changes))
    _check_error(lambda: rank_table.load(file), file, path, found, allowed)


@pytest.mark.parametrize(("changes", "path", "found", "allowed"), WRONG_TEMPLATE_2)
def test_wrong_template_2(older_template, table_file, changes, path, found, allowed):
    file = table_file(_changed(older_template, changes))
    _check_error(lambda: rank_table.load(file), file, path, found, allowed)


def test_template_2_with_two_groups(older_template, table_file):
    older_template["group_list"] *= 2
    older_template["group_count"] = "2"
    file = table_file(older_template)
    _check_error(
        lambda: rank_table.load(file), file, "$.group_list", "a list of 2 entries", "one group"
    )


def test_template_2_with_a_server_that_is_split(older_template, table_file):
    instances = older_template["group_list"][0]["instance_list"]
    instances.append(dict(instances[0], devices=[{"device_id": "3"}]))
    instances[1]["server_id"] = "10.0.0.2"
    older_template["group_list"][0].update(instance_count=3, device_count=4)
    file = table_file(older_template)
    path = "$.group_list[0].instance_list[2].devices[0]"
    _check_error(lambda: rank_table.load(file), file, path, "rank 3", "not contiguous")


POD = {"super_pod_id": "0", "server_list": [{"server_id": "node_0"}, {"server_id": "node_1"}]}
WRONG_SUPER_PODS = [
    ([], "$.super_pod_list", "an empty list", "at least one entry"),
    ([{"super_pod_id": "0"}], "$.super_pod_list[0].server_list", "missing", "required"),
    ([{"server_list": POD["server_list"]}], "$.super_pod_list[0].super_pod_id", "missing", "requi"),
    ([POD, POD], "$.super_pod_list[1].super_pod_id", '"0"', "no other super pod has"),
    ([POD, dict(POD, super_pod_id="1")], "$.super_pod_list[1].server_list[0].server_id",
     '"node_0"', "$.super_pod_list[0].server_list[0] does"),
    ([{"super_pod_id": "0", "server_list": [{"server_id": "node_0"}]}], "$.super_pod_list",
     'without server "node_1"', "every server"),
    ([{"super_pod_id": "0", "server_list": [{"server_id": "node_9"}]}],
     "$.super_pod_list[0].server_list[0].server_id", '"node_9"', "$.server_list"),
]  # fmt: skip


@pytest.mark.parametrize(("pods", "path", "found", "allowed"), WRONG_SUPER_PODS)
def test_wrong_super_pods(two_servers, table_file, pods, path, found, allowed):
    two_servers.update(version="1.2", super_pod_list=pods)
    file = table_file(two_servers)
    _check_error(lambda: rank_table.load(file), file, path, found, allowed)


WRONG_TEXTS = [
    (b"", "not JSON at line 1, column 1"),
    (b"{\n  'status': 1}", "not JSON at line 2, column 3"),
    (b'{"status": "completed"', "not JSON at line 1, column 23"),
    (b'{"status": NaN}', "not JSON (NaN is no JSON value)"),
    (b'{"n": 1' + b"0" * 100000 + b"}", "not JSON (a number of 100001 digits)"),
    (b"[" * 200000, "nested too deeply"),
    (b"[1, 2]", "a list of 2 entries"),
    (b'"completed"', '"completed"'),
    (b'{"status": "completed", "status": "completed"}', 'an object with the key "status" twice'),
    (b'{"a": "\xff"}', "not UTF-8: byte 0xff at offset 7"),
    ('{"a": "ä"}'.encode("utf-16"), "not UTF-8"),
]


@pytest.mark.parametrize(("text", "found"), WRONG_TEXTS)
def test_file_that_is_no_json_object(tmp_path, text, found):
    path = tmp_path / "table.json"
    path.write_bytes(text)
    with pytest.raises(json_file.JsonFileError) as error:
        rank_table.load(str(path))
    message = str(error.value)
    assert message.startswith(f"Rank table {str(path)!r}: $ is {found}"), message[:300]
    assert "\n" not in message
    assert len(message) < 500


def test_repeated_key_deep_inside(two_servers, table_file):
    text = json.dumps(two_servers).replace('"rank_id": "1"', '"rank_id": "1", "rank_id": "0"')
    file = table_file(text)
    path = "$.server_list[0].device[1]"
    _check_error(
        lambda: rank_table.load(file), file, path, 'an object with the key "rank_id" twice', "once"
    )


def test_files_that_cannot_be_read(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(str(fifo))
    big = tmp_path / "big"
    with open(str(big), "wb") as stream:
        stream.truncate(json_file.MAX_FILE_BYTES + 1)
    for path, found in [
        (tmp_path / "none.json", "a file that does not exist"),
        (tmp_path / "none" / "deeper.json", "a file that does not exist"),
        (tmp_path, "a directory"),
        (fifo, "not a regular file"),
        (big, "a file of more than 16 MB"),
        (big / "inside", "a file that cannot be read: Not a directory"),
        (tmp_path / ("x" * 300), "a file that cannot be read: File name too long"),
    ]:
        _check_error(
            lambda path=path: rank_table.load(str(path)), str(path), "$", found, "at most 16 MB"
        )


def test_file_without_permission(two_servers, table_file, monkeypatch):
    file = table_file(two_servers)

    def refuse(path, flags):  # root, as in a container, may read every file
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    monkeypatch.setattr(json_file.os, "open", refuse)
    found = "a file that cannot be read: Permission denied"
    _check_error(lambda: rank_table.load(file), file, "$", found, "at most 16 MB")


def test_largest_file_is_read(two_servers, table_file):
    text = json.dumps(two_servers)
    text += " " * (json_file.MAX_FILE_BYTES - len(text))
    assert rank_table.load(table_file(text)).size == 4


def test_byte_order_mark_is_skipped(two_servers, tmp_path):
    path = tmp_path / "table.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(two_servers).encode())
    assert rank_table.load(str(path)).size == 4


def test_table_named_through_a_descriptor_is_read_again_and_again(two_servers):
    """The launcher hands the table over in a file that has no name but /proc/<pid>/fd/<n>."""
    if sys.version_info >= (3, 8):
        descriptor = os.memfd_create("rank_table")
    else:
        descriptor = os.open("/tmp", os.O_TMPFILE | os.O_RDWR)
    try:
        os.write(descriptor, json.dumps(two_servers).encode())
        for name in (f"/proc/{os.getpid()}/fd/{descriptor}", f"/dev/fd/{descriptor}") * 2:
            assert rank_table.load(name).size == 4
    finally:
        os.close(descriptor)


def test_many_ranks():
    servers = [
        {
            "server_id": f"node_{s}",
            "device": [{"device_id": d, "rank_id": s * 16 + d} for d in range(16)],
        }
        for s in range(2048)
    ]
    table = {"status": "completed", "version": "1.0", "server_count": 2048, "server_list": servers}
    parsed = rank_table.parse(json.dumps(table), "many")
    assert parsed.size == 32768
    assert parsed.server_of(32767).server_id == "node_2047"
