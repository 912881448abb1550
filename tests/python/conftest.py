"""A rank without peers: the real Python side on a native module made of a dict."""

from __future__ import annotations

import json
import os

import pytest

from npu_device._core import cluster, environment, logging, runtime


class FakeNative:
    """The native module's registry of groups and its start, for one rank."""

    def __init__(self):
        self.groups = {}
        self.starts = 0
        self.provider = None
        self.configuration = None
        self.met = [0]
        self.numbered = 0  # the rank that the meeting gives
        self.start_error = None
        self._running = False
        self._reader, self._writer = os.pipe()

    def set_configuration_provider(self, provider):
        self.provider = provider

    def start(self):
        self.starts += 1
        self.configuration = self.provider()
        if self.start_error is not None:
            raise self.start_error
        self._running = True

    def shutdown(self):
        self._running = False
        self.groups.clear()

    def started(self):
        return self._running

    def world_rank(self):
        assert self._running, "the world rank is asked for before the ranks have met"
        return self.numbered

    def local_ranks(self):
        assert self._running
        return list(self.met)

    def create_group(self, name, ranks):
        assert name not in self.groups
        assert all(type(rank) is int for rank in ranks), "pybind11 takes Python ints only"
        self.groups[name] = list(ranks)

    def destroy_group(self, name):
        del self.groups[name]

    def group_ranks(self, name):
        return self.groups[name]

    def group_names(self):
        return list(self.groups)

    def signal_descriptor(self):
        return self._writer

    def close(self):
        os.close(self._reader)
        os.close(self._writer)


@pytest.fixture(autouse=True)
def say_everything_again():
    """Each test hears the messages that are said once in a process."""
    logging.forget()


@pytest.fixture
def native():
    fake = FakeNative()
    yield fake
    runtime._signals.remove()
    fake.close()


@pytest.fixture
def become(native):
    """Makes this process a rank with the environment given, and returns its runtime."""
    before = runtime.current()

    def make(**environ):
        made = runtime.Runtime(native_loader=lambda: native, environ=environ)
        runtime.replace(made)
        return made

    yield make
    runtime.replace(before)


@pytest.fixture
def describe():
    """Describes the job of an environment."""
    return lambda **environ: cluster.describe(environment.read(environ))


@pytest.fixture
def table_file(tmp_path):
    """Writes a rank table and returns its path."""

    def write(content):
        path = tmp_path / "rank_table.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(path)

    return write


@pytest.fixture
def two_servers():
    """A rank table of template 1: ranks 0 to 3 on two servers."""
    return {
        "status": "completed",
        "version": "1.0",
        "server_count": "2",
        "server_list": [
            {
                "server_id": "node_0",
                "host_ip": "10.0.0.1",
                "device": [
                    {"device_id": "0", "device_ip": "192.168.1.8", "rank_id": "0"},
                    {"device_id": "1", "device_ip": "192.168.1.9", "rank_id": "1"},
                ],
            },
            {
                "server_id": "node_1",
                "device": [
                    {"device_id": "4", "device_ip": "", "rank_id": "2"},
                    {"device_id": "5", "rank_id": "3"},
                ],
            },
        ],
    }


@pytest.fixture
def older_template():
    """A rank table of template 2: ranks 0 to 2 in two instances on one server."""
    return {
        "status": "completed",
        "group_count": "1",
        "group_list": [
            {
                "group_name": "hccl_world_group",
                "instance_count": "2",
                "device_count": "3",
                "instance_list": [
                    {
                        "pod_name": "tf-0",
                        "server_id": "10.0.0.1",
                        "devices": [{"device_id": "0", "device_ip": "192.168.1.8"}],
                    },
                    {
                        "pod_name": "tf-1",
                        "server_id": "10.0.0.1",
                        "devices": [{"device_id": "2"}, {"device_id": "1"}],
                    },
                ],
            }
        ],
    }
