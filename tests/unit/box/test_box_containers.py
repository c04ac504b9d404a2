# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Containers: summary, fingerprint, masked secrets."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.lobes.spike.plugins.module_utils.box import containers, docker
from ansible_collections.lobes.spike.plugins.module_utils.box.masking import masked_args
from ansible_collections.lobes.spike.plugins.module_utils.box.source import Source

INSPECTED: dict[str, Any] = {
    "Id": "c" * 64,
    "Name": "/worker",
    "Image": "sha256:" + "1" * 64,
    "RestartCount": 0,
    "State": {
        "Status": "running",
        "Running": True,
        "Restarting": False,
        "OOMKilled": False,
        "Pid": 4242,
        "ExitCode": 0,
        "Error": "",
        "StartedAt": "2026-09-13T20:00:00.1Z",
        "FinishedAt": "0001-01-01T00:00:00Z",
    },
    "Config": {
        "Image": "vllm/vllm-openai@sha256:" + "2" * 64,
        "Entrypoint": ["vllm", "serve"],
        "Cmd": ["--gpu-memory-utilization", "0.4", "--api-key", "hunter2", "--max-num-batched-tokens", "16384"],
        "Env": ["HF_TOKEN=hf_abcdefghijklmnopqrstuvwx", "PATH=/usr/bin"],
        "Labels": {"lobes.lane": "worker", "com.example.secret": "x"},
    },
    "HostConfig": {
        "RestartPolicy": {"Name": "unless-stopped", "MaximumRetryCount": 0},
        "NetworkMode": "bridge",
        "Runtime": "nvidia",
        "PortBindings": {"8000/tcp": [{"HostIp": "127.0.0.1", "HostPort": "8001"}]},
        "Ulimits": [{"Name": "stack", "Soft": 1, "Hard": 1}],
    },
    "Mounts": [{"Type": "bind", "Source": "/a", "Destination": "/b", "RW": True, "Propagation": "rprivate"}],
    "NetworkSettings": {
        "Networks": {"bridge": {"IPAddress": "172.17.0.2"}},
        "Ports": {"8000/tcp": [{"HostIp": "127.0.0.1", "HostPort": "8001"}], "9/udp": None},
    },
}


def changed(path: str, value: object) -> dict[str, Any]:
    """The container with one thing changed, named by a dotted path."""
    found = copy.deepcopy(INSPECTED)
    *parents, last = path.split("/")
    target = found
    for parent in parents:
        target = target[parent]
    target[last] = value
    return found


def test_summary_has_no_secret() -> None:
    found = containers.summary(INSPECTED)
    assert "hunter2" not in json.dumps(found)
    assert "hf_abc" not in json.dumps(found)
    assert found["name"] == "worker"
    assert found["args"][-4:] == ["--api-key", "***", "--max-num-batched-tokens", "16384"]
    assert found["env_names"] == ["HF_TOKEN", "PATH"]
    assert found["labels"] == {"com.example.secret": None, "lobes.lane": "worker"}
    assert found["finished_utc"] is None
    assert found["ports"] == [{"container_port": 8000, "protocol": "tcp", "address": "127.0.0.1", "port": 8001}]
    assert found["running"] is True


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("State", {"Status": "exited", "Running": False, "ExitCode": 137, "FinishedAt": "2026-09-13T21:00:00Z"}),
        ("RestartCount", 3),
        ("NetworkSettings/Networks", {"bridge": {"IPAddress": ""}}),
        ("NetworkSettings/Ports", {}),
        ("Id", "d" * 64),
        ("Name", "/other"),
        ("Config/Env", ["PATH=/usr/bin", "HF_TOKEN=hf_abcdefghijklmnopqrstuvwx"]),
    ],
)
def test_state_is_not_configuration(path: str, value: object) -> None:
    assert containers.fingerprint(changed(path, value)) == containers.fingerprint(INSPECTED)


@pytest.mark.parametrize(
    ("path", "value", "part"),
    [
        ("Image", "sha256:" + "3" * 64, "image"),
        ("Config/Cmd", ["--gpu-memory-utilization", "0.5"], "command"),
        ("Config/Entrypoint", ["sh"], "command"),
        ("Config/Env", ["PATH=/usr/bin", "HF_TOKEN=other"], "env"),
        ("Config/Labels", {}, "labels"),
        ("Mounts", [], "mounts"),
        ("HostConfig/PortBindings", {}, "ports"),
        ("HostConfig/NetworkMode", "host", "network"),
        ("HostConfig/RestartPolicy", {"Name": "always"}, "restart_policy"),
        ("HostConfig/Runtime", "runc", "runtime"),
        ("HostConfig/Ulimits", [], "ulimits"),
        ("HostConfig/Memory", 1, "limits"),
        ("HostConfig/Privileged", True, "security"),
    ],
)
def test_every_part_of_the_configuration_counts(path: str, value: object, part: str) -> None:
    before, parts_before = containers.fingerprint(INSPECTED)
    after, parts_after = containers.fingerprint(changed(path, value))
    assert before != after
    assert containers.changed_parts(parts_before, parts_after) == [part]


def test_an_anonymous_volume_is_the_same_whatever_its_name() -> None:
    def with_volume(name: str) -> str:
        mount = {"Type": "volume", "Name": name, "Source": f"/v/{name}", "Destination": "/d", "RW": True}
        return containers.fingerprint(changed("Mounts", [mount]))[0]

    assert with_volume("a" * 64) == with_volume("b" * 64)
    assert with_volume("data") != with_volume("other")


@pytest.mark.parametrize(
    ("args", "shown"),
    [
        (["--api-key", "a", "b", "--port", "1"], ["--api-key", "***", "***", "--port", "1"]),
        (["--api-key=a"], ["--api-key=***"]),
        (["--hf_token", "a"], ["--hf_token", "***"]),
        (["--hf-overrides", '{"a": 1}'], ["--hf-overrides", '{"a": 1}']),
        (["--max-num-batched-tokens", "16384"], ["--max-num-batched-tokens", "16384"]),
        (["--tokenizer", "x"], ["--tokenizer", "x"]),
        (["-c", "vllm serve m --api-key a --port 1"], ["-c", "vllm serve m --api-key *** --port 1"]),
        (["-c", "HF_TOKEN=abc vllm serve"], ["-c", "HF_TOKEN=*** vllm serve"]),
        (["https://u:p@host/x"], ["https://***@host/x"]),
        (["hf_abcdefghijklmnopqrstuvwx"], ["***"]),
    ],
)
def test_masked_args(args: list[str], shown: list[str]) -> None:
    assert masked_args(args) == shown


@pytest.mark.parametrize(
    ("args", "value"),
    [
        (["--gpu-memory-utilization", "0.4"], "0.4"),
        (["--gpu_memory_utilization=0.5"], "0.5"),
        (["-c", "vllm serve --gpu-memory-utilization 0.3 x"], "0.3"),
        (["--gpu-memory-utilization", "0.4", "--gpu-memory-utilization=0.6"], "0.6"),
        (["--gpu-memory-utilization"], None),
        ([], None),
    ],
)
def test_flag_value(args: list[str], value: str | None) -> None:
    assert containers.flag_value(args, "--gpu-memory-utilization") == value


def test_engine_that_does_not_answer(make_source: Callable[..., Source]) -> None:
    source = make_source({}, {("docker",): (1, "", "Cannot connect to the Docker daemon")})
    assert docker.read_containers(source) == (None, None)
    found = docker.read_engine(source)
    assert found["reachable"] is False
    assert "Cannot connect" in found["reason"]
    assert found["images"] is None
    assert "no docker client" in docker.read_engine(make_source())["reason"]


def test_engine_that_answers(make_source: Callable[..., Source]) -> None:
    info = {"ServerVersion": "20.10", "Runtimes": {"runc": {}, "nvidia": {}}, "DefaultRuntime": "runc"}
    image = {"ID": "sha256:1", "Repository": "a/b", "Tag": "<none>", "Digest": "sha256:2"}
    source = make_source(
        {},
        {
            ("docker", "info"): (0, json.dumps(info), ""),
            ("docker", "image"): (0, json.dumps(image) + "\n", ""),
            ("docker", "network"): (0, '"bridge"\n"host"\n', ""),
            ("docker", "volume"): (0, "", ""),
            ("docker", "ps"): (0, "c\nd\n", ""),
            ("docker", "inspect"): (1, json.dumps([INSPECTED]), "Error: No such container: d"),
        },
    )
    found = docker.read_engine(source)
    assert found["runtimes"] == ["nvidia", "runc"]
    assert found["images"] == [{"id": "sha256:1", "reference": "a/b@sha256:2"}]
    found_containers, files = docker.read_containers(source)
    assert found_containers
    assert [container["name"] for container in found_containers] == ["worker"]
    assert files == {}


def test_files_that_configure_a_container(make_source: Callable[..., Source]) -> None:
    labels = {"com.docker.compose.project.config_files": "/srv/compose.yml,/srv/gone.yml"}
    mounts = [
        {"Type": "bind", "Source": "/srv/lane.conf", "Destination": "/etc/lane.conf"},
        {"Type": "bind", "Source": "/srv", "Destination": "/data"},
        {"Type": "volume", "Source": "/srv/lane.conf", "Destination": "/x"},
    ]
    inspected = changed("Config/Labels", labels) | {"Mounts": mounts}
    source = make_source(
        {"/srv/compose.yml": "a", "/srv/lane.conf": "b"},
        {("docker", "ps"): (0, "c\n", ""), ("docker", "inspect"): (0, json.dumps([inspected]), "")},
    )
    _containers, files = docker.read_containers(source)
    assert files
    assert sorted(files) == ["/srv/compose.yml", "/srv/gone.yml", "/srv/lane.conf"]
    assert files["/srv/gone.yml"] == "absent"
    assert files["/srv/compose.yml"] == hashlib.sha256(b"a").hexdigest()
