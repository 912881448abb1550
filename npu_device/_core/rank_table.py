"""Reads a rank table: the JSON file that says which ranks a job has, on which servers and devices.

Two templates are understood, as the published HCCL guide describes them ("Configuring resource
information through the ranktable file"): template 1, versions 1.0 and 1.2, with a `server_list`
that numbers the ranks itself; and the older template 2 with a `group_list`, where ranks follow the
order of instances and devices. Numbers may be strings, as in the guide, or integers.

Every error is one line that names the file, the JSON path, what was found and what is allowed.
"""

from __future__ import annotations

import dataclasses
import hashlib
import ipaddress
import json

from npu_device._core import json_file
from npu_device._core.environment import MAX_RANKS
from npu_device._core.json_file import Node, shown

MAX_SERVER_ID_BYTES = 64
_WHAT = "Rank table"
_MAX_UINT32 = 2**32 - 1


@dataclasses.dataclass(frozen=True)
class Device:
    """One rank of a table."""

    rank: int
    device_id: int
    server_id: str
    json_path: str  # of the entry in the file, for errors
    device_ip: str = ""


@dataclasses.dataclass(frozen=True)
class Server:
    """One server of a table."""

    server_id: str
    ranks: tuple[int, ...]  # ascending
    address: str = ""  # of the host, where the table gives one


@dataclasses.dataclass(frozen=True)
class RankTable:
    """A checked rank table."""

    file: str
    template: int  # 1 or 2
    version: str  # "1.0", "1.2"; empty for template 2
    devices: tuple[Device, ...]  # index: rank
    servers: tuple[Server, ...]  # ordered by their lowest rank

    @property
    def size(self) -> int:
        """Number of ranks."""
        return len(self.devices)

    def server_of(self, rank: int) -> Server:
        """Returns the server that a rank is on."""
        server_id = self.devices[rank].server_id
        return next(server for server in self.servers if server.server_id == server_id)

    def digest(self) -> str:
        """Text that is equal for tables that place the same ranks on the same servers and devices.

        Template, order of entries and spelling of numbers play no part, so that ranks that read
        copies of one table find each other.
        """
        entries = [[d.rank, d.server_id, d.device_id] for d in self.devices]
        return hashlib.sha256(json.dumps(entries).encode("ascii")).hexdigest()


def load(file: str) -> RankTable:
    """Reads and checks a rank table.

    Args:
        file: path of a regular file; one named through /proc/<pid>/fd is fine.

    Returns:
        The table.

    Raises:
        json_file.JsonFileError: (a ValueError) the file cannot be read or is no valid rank table.
    """
    return parse(json_file.read(file, _WHAT), file)


def parse(text: str, file: str) -> RankTable:
    """Checks the text of a rank table.

    Args:
        text: the JSON text.
        file: the path to name in errors.

    Returns:
        The table.

    Raises:
        json_file.JsonFileError: (a ValueError) the text is no valid rank table.
    """
    top = json_file.decode(text, file, _WHAT)
    status = top.child("status")
    if status.value != "completed":
        raise status.error('"completed" (any other value means that the table is not ready)')
    if top.has("server_list") and top.has("group_list"):
        raise top.error(
            "a server_list (template 1) or a group_list (template 2)", "an object with both"
        )
    if top.has("server_list"):
        return _template_1(top)
    if top.has("group_list"):
        return _template_2(top)
    raise top.error(
        "an object with a server_list (template 1) or a group_list (template 2)",
        "an object with neither",
    )


def _template_1(top: Node) -> RankTable:
    version = top.child("version")
    if version.value not in ("1.0", "1.2"):
        raise version.error('"1.0" or "1.2"')
    server_nodes = top.entries("server_list")
    top.check_count("server_count", len(server_nodes), "entries of $.server_list")

    builder = _Builder(top.file)
    total = sum(len(node.entries("device")) for node in server_nodes)
    for node in server_nodes:
        server_id = node.child("server_id")
        name = server_id.text(MAX_SERVER_ID_BYTES)
        if name in builder.addresses:
            raise server_id.error("an id that no other server has")
        builder.add_server(name, node)
        for device in node.entries("device"):
            rank = device.child("rank_id")
            number = rank.integer(0, MAX_RANKS - 1)
            if number >= total:
                raise rank.error(f"0 to {total - 1}, each once, since {total} devices are listed")
            builder.add_device(name, device, number, rank)
    table = builder.build(template=1, version=str(version.value))
    if version.value == "1.2" and top.has("super_pod_list"):
        _check_super_pods(top, table)
    return table


def _template_2(top: Node) -> RankTable:
    groups = top.entries("group_list")
    top.check_count("group_count", len(groups), "entries of $.group_list")
    if len(groups) != 1:
        raise top.child("group_list").error("a list of one group, the world")
    group = groups[0]
    instances = group.entries("instance_list")
    group.check_count(
        "instance_count", len(instances), "entries of " + group.path + ".instance_list"
    )
    total = sum(len(instance.entries("devices")) for instance in instances)
    group.check_count("device_count", total, "devices of all instances")
    if total > MAX_RANKS:
        raise group.child("instance_list").error(f"at most {MAX_RANKS} devices in all")

    builder = _Builder(top.file)
    for instance in instances:
        name = instance.child("server_id").text(MAX_SERVER_ID_BYTES)
        builder.add_server(name, instance)
        for device in instance.entries("devices"):
            rank = len(builder.devices)
            if device.has("rank_id") and device.child("rank_id").integer(0, MAX_RANKS) != rank:
                raise device.child("rank_id").error(
                    f"{rank}: ranks follow the order of instances and devices"
                )
            builder.add_device(name, device, rank, device)
    return builder.build(template=2, version="")


class _Builder:
    """Collects servers and devices and checks what concerns more than one of them."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.devices: dict[int, Device] = {}
        self.addresses: dict[str, str] = {}  # by server_id
        self._places: dict[tuple[str, int], str] = {}

    def add_server(self, name: str, node: Node) -> None:
        address = ""
        if node.has("host_ip") and node.value["host_ip"] != "":
            address = node.child("host_ip").text(MAX_SERVER_ID_BYTES)
        elif _is_address(name):
            address = name
        # Template 2 lists a server once for each of its instances.
        self.addresses[name] = self.addresses.get(name) or address

    def add_device(self, server: str, node: Node, rank: int, rank_node: Node) -> None:
        device_id = node.child("device_id")
        number = device_id.integer(0, _MAX_UINT32)
        if rank in self.devices:
            raise rank_node.error(
                f"an id that no other device has; {self.devices[rank].json_path} has it too"
            )
        if (server, number) in self._places:
            other = self._places[server, number]
            raise device_id.error(
                f"an id that no other device of server {shown(server)} has; {other} has it too"
            )
        device_ip = node.value.get("device_ip", "")
        if not isinstance(device_ip, str):
            raise node.child("device_ip").error("an address, an empty string, or absent")
        self._places[server, number] = node.path
        self.devices[rank] = Device(rank, number, server, node.path, device_ip)

    def build(self, template: int, version: str) -> RankTable:
        # Ids are below the number of devices and none is repeated, so none is missing.
        devices = tuple(self.devices[rank] for rank in range(len(self.devices)))
        ranks: dict[str, list[int]] = {}
        for device in devices:
            of_server = ranks.setdefault(device.server_id, [])
            if of_server and of_server[-1] != device.rank - 1:
                raise json_file.error(
                    _WHAT,
                    self.file,
                    device.json_path + (".rank_id" if template == 1 else ""),
                    f"rank {device.rank}",
                    f"a rank next to the others of server {shown(device.server_id)}, whose ranks "
                    f"are not contiguous (the one before is {of_server[-1]})",
                )
            of_server.append(device.rank)
        servers = tuple(
            Server(name, tuple(of_server), self.addresses[name])
            for name, of_server in ranks.items()
        )
        return RankTable(self.file, template, version, devices, servers)


def _check_super_pods(top: Node, table: RankTable) -> None:
    """Checks that each server is in exactly one super pod of a version 1.2 table."""
    known = {server.server_id for server in table.servers}
    pod_of: dict[str, str] = {}
    pod_ids = set()
    for pod in top.entries("super_pod_list"):
        pod_id = pod.child("super_pod_id")
        if pod_id.text(MAX_SERVER_ID_BYTES) in pod_ids:
            raise pod_id.error("an id that no other super pod has")
        pod_ids.add(pod_id.text(MAX_SERVER_ID_BYTES))
        for entry in pod.entries("server_list"):
            node = entry.child("server_id")
            name = node.text(MAX_SERVER_ID_BYTES)
            if name not in known:
                raise node.error("a server_id of $.server_list")
            if name in pod_of:
                raise node.error(f"a server that no other entry names; {pod_of[name]} does")
            pod_of[name] = entry.path
    missing = sorted(known - set(pod_of))
    if missing:
        raise top.child("super_pod_list").error(
            "a list that holds every server", f"without server {shown(missing[0])}"
        )


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
