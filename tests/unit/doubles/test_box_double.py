# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The box double's parts, read with the product's own parsers."""

from __future__ import annotations

import fcntl
import json
import pathlib
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import pytest
from ansible_collections.lobes.spike.plugins.module_utils.box import fan, gpu, kernel_log, memory, power, tegrastats

DOUBLES = pathlib.Path(__file__).resolve().parents[2] / "doubles"
ROOTFS = DOUBLES / "box" / "rootfs"
sys.path.insert(0, str(ROOTFS / "opt" / "spike"))
sys.path.insert(0, str(DOUBLES / "engine" / "site"))
import huggingface_hub
import spike_box.control as control
import spike_box.driver as driver
import spike_box.faults as faults
import spike_box.kernel_log as double_log
import spike_box.mirror as mirror
import spike_box.tegrastats as double_stats
import spike_box.tools as tools
import spike_box.trees as trees
from huggingface_hub import checkpoint


@pytest.fixture
def sim(tmp_path, monkeypatch):
    for module in (driver, faults, double_log, tools):
        monkeypatch.setattr(module, "SIM", str(tmp_path))
    monkeypatch.setattr(faults, "FILE", str(tmp_path / "faults"))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    (tmp_path / "engines").mkdir()
    (tmp_path / "drop_caches").write_text("0\n")
    trees.thermal(str(tmp_path / "class/thermal"))
    trees.hwmon(str(tmp_path / "class/hwmon"))
    return tmp_path


@pytest.fixture
def engine(sim):
    """An engine's report, locked as a living one's is."""
    held = []

    def report(name: str, **state) -> None:
        file = (sim / "engines" / f"{name}.json").open("w")
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(json.dumps(state))
        file.flush()
        held.append(file)

    yield report
    for file in held:
        file.close()


def read_memory(sim: pathlib.Path) -> dict:
    return memory.parse_meminfo((sim / "meminfo").read_text())


def gib(sim: pathlib.Path, field: str) -> float:
    return int(re.search(rf"{field}:\s+(\d+)", (sim / "meminfo").read_text())[1]) / 2**20


def test_memory_follows_the_engines_that_live(sim, engine):
    box = driver.Box()
    box.tick({})
    idle = gib(sim, "MemAvailable")
    engine("lane", stage="serving", gib=55.0, busy=0.0)
    box.tick({})
    assert idle - gib(sim, "MemAvailable") == pytest.approx(55.0, abs=1.2)
    assert read_memory(sim)


def test_a_dead_engine_gives_its_memory_back(sim):
    path = sim / "engines" / "dead.json"
    path.write_text(json.dumps({"stage": "serving", "gib": 55.0}))
    assert driver.engines(str(sim / "engines")) == []


def test_dropping_caches_frees_what_is_cache_and_not_what_is_leaked(sim):
    for fault, freed in (("page-cache", True), ("memory-leak", False)):
        box = driver.Box()
        box.tick({fault: ""})
        assert gib(sim, "MemAvailable") < 25
        time.sleep(0.01)
        (sim / "drop_caches").write_text("3\n")
        box.tick({fault: ""})
        assert (gib(sim, "MemAvailable") > 90) == freed, fault


@pytest.mark.parametrize("fault", ["page-cache", "memory-leak", "memory-collapse"])
def test_memory_is_given_back_when_its_fault_is_healed(sim, fault):
    box = driver.Box()
    box.tick({fault: "0.01"})
    time.sleep(0.02)
    box.tick({fault: "0.01"})
    assert gib(sim, "MemAvailable") < 25
    box.tick({})
    assert gib(sim, "MemAvailable") > 90


@pytest.mark.parametrize("times", [1, 2])
def test_what_a_fault_hides_is_itself_again_after_healing(tmp_path, times):
    tool = tmp_path / "tegrastats"
    tool.write_text("the tool")
    for _ in range(times):  # a box that is started again applies its faults again
        control._hide(str(tool), True)
        tool.write_text("what stands in for it")
    control._hide(str(tool), False)
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("tegrastats", "the tool")]


def test_meminfo_has_always_the_same_length(sim):
    lengths = {len(trees.meminfo(free, free * 2, 5, 0, 0)) for free in (0, 7, 10**8)}
    assert len(lengths) == 1


def test_memory_given_back_during_a_boot_is_told(sim, engine):
    engine("embed", stage="serving", gib=4.9)
    engine("spike", stage="boot:load", gib=18.0)
    box = driver.Box()
    on = {"lane-frees-memory": "0.05"}
    box.tick(on)
    assert not (sim / "freed").exists()
    time.sleep(0.1)
    box.tick(on)
    assert (sim / "freed").exists()


def test_alerts_come_only_while_the_engine_works_and_read_as_alerts(sim, engine):
    box = driver.Box()
    box.begin()
    box.tick({"throttle": ""})
    engine("spike", stage="serving", gib=86.0, busy=1.0)
    for _ in range(400):
        box.tick({"throttle": ""})
    entries = kernel_log.parse_kmsg((sim / "kmsg").read_text().splitlines())
    alerts = [e for e in entries if "gpu-throttle-alert cooling state: 0 -> 1" in e.text]
    assert len(alerts) == 1
    assert box.tick({"throttle": ""})["cooling"]["gpu-throttle-alert"] == 1
    assert box.tj > 108


def test_a_wrapped_ring_has_lost_its_beginning(sim):
    box = driver.Box()
    box.begin()
    time.sleep(0.05)
    box.log.say("late")
    box.tick({"dmesg-wrapped": "0.03"})
    assert [e.text for e in kernel_log.parse_kmsg((sim / "kmsg").read_text().splitlines())] == ["late"]


def test_the_log_tools_print_what_the_ring_holds(sim, capsys):
    box = driver.Box()
    box.begin()
    assert double_log.dmesg([]) == 0
    assert len(kernel_log.parse_dmesg(capsys.readouterr().out)) == 6
    double_log.journalctl(["-k", "-b", "0", "-o", "json", "--no-pager", "-q", "-n", "+1"])
    entries, _offset = kernel_log.parse_journal(capsys.readouterr().out)
    assert [e.text.split(" on ")[0] for e in entries] == ["Booting Linux"]
    double_log.journalctl(["-k", "-o", "json", "--since", f"@{time.time() + 5:.0f}"])
    assert capsys.readouterr().out == ""


def test_no_kernel_log_without_the_rights(sim, monkeypatch, capsys):
    driver.Box().begin()
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert double_log.dmesg([]) == 1
    assert double_log.journalctl(["-k"]) == 1
    assert "GR3D_FREQ" not in double_stats.line(driver.Box().tick({}), {}, False, double_stats.Averages(), 0)


STATS = ["", "tegrastats-r39.2", "no-swap", "no-vin", "tegrastats-odd", "tegrastats-orin", "tegrastats-xavier"]


@pytest.mark.parametrize("root", [True, False])
@pytest.mark.parametrize("fault", STATS)
def test_tegrastats_lines_are_read_by_the_product(sim, engine, fault, root):
    engine("spike", stage="serving", gib=86.0, busy=1.0)
    box = driver.Box()
    on = {fault: ""} if fault else {}
    state = box.tick(on)
    read = tegrastats.parse_line(double_stats.line(state, on, root, double_stats.Averages(), 1.8e9))
    text = json.dumps(read, default=lambda value: vars(value))
    assert read
    if fault in ("", "tegrastats-r39.2", "no-vin", "no-swap"):
        assert str(state["rails"]["VDD_GPU"]) in text
        assert ('"VIN"' in text or '"vin"' in text) != (fault == "no-vin")
    assert "-256" not in text


def test_hwmon_is_renumbered_without_leftovers(sim):
    box = driver.Box()
    state = box.tick({})
    trees.live(str(sim), state, False)
    trees.hwmon(str(sim / "class/hwmon"), renumbered=True)
    trees.live(str(sim), state, True)
    names = {(p.parent.name, p.read_text().strip()) for p in sim.glob("class/hwmon/*/name")}
    assert ("hwmon0", "pwm_tach") in names
    assert len(list(sim.glob("class/hwmon/*/pwm1"))) == 1


def test_the_tools_answer_as_those_of_a_thor(sim, capsys, monkeypatch):
    trees.put(str(sim / "state.json"), json.dumps(driver.Box().tick({})))
    assert tools.nvpmodel(["-q"]) == 0
    assert power.parse_nvpmodel(capsys.readouterr().out)["mode"] == "MAXN"
    tools.nvidia_smi([f"--query-gpu={','.join(f for f, _ in gpu.FIELDS)}", "--format=csv,noheader,nounits"])
    (seen,) = gpu.parse_query(capsys.readouterr().out)
    assert (seen["name"], seen["temp_c"], seen["utilization_pct"]) == ("NVIDIA Thor", None, 0)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert tools.nvfancontrol(["-q"]) == 1
    assert "Sudo permissions" in fan.parse_query(capsys.readouterr().out)["reason"]


def test_the_fan_configuration_is_read_by_the_product():
    conf = fan.parse_conf((ROOTFS / "etc/nvfancontrol.conf").read_text())
    assert (conf["profile"], conf["tmargin"], conf["profiles"]["cool"][0]["rpm"]) == ("cool", True, 5371)


def test_every_fault_has_a_switch_and_a_line_in_the_documentation():
    page = (DOUBLES.parents[1] / "docs" / "doubles.md").read_text()
    sys.path.insert(0, str(DOUBLES / "engine"))
    from spike_engine.faults import FAULTS

    for name, text in {**FAULTS, **faults.FAULTS}.items():
        assert f"| `{name}` | {text} |" in page, f"{name}: run tests/doubles/document.py"
    listed = subprocess.run(
        [DOUBLES / "box/box.sh", "--list-faults"], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    assert [row.split()[0] for row in listed] == list(faults.FAULTS)


@pytest.fixture
def registry(sim, tmp_path, monkeypatch):
    """A registry's data directory with one manifest, served by the mirror."""
    data = json.dumps({"mediaType": "application/vnd.docker.distribution.manifest.v2+json"}).encode()
    digest = "sha256:" + "ab" * 32
    v2 = tmp_path / "docker/registry/v2"
    monkeypatch.setattr(mirror, "V2", str(v2))
    blob = pathlib.Path(mirror.blob(digest))
    blob.parent.mkdir(parents=True)
    blob.write_bytes(data)
    link = v2 / "repositories/vllm/vllm-openai/_manifests/revisions/sha256" / digest[7:] / "link"
    link.parent.mkdir(parents=True)
    link.write_text(digest)
    server = mirror.http.server.ThreadingHTTPServer(("127.0.0.1", 0), mirror.Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", digest, data
    server.shutdown()
    server.server_close()


def fetch(url: str) -> bytes:
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=5) as answer:
        return answer.read()


def test_the_mirror_serves_what_the_registry_holds(registry, sim):
    url, digest, data = registry
    assert fetch(f"{url}/v2/") == b"{}"
    assert fetch(f"{url}/v2/vllm/vllm-openai/manifests/{digest}") == data
    with pytest.raises(urllib.error.HTTPError, match="404"):
        fetch(f"{url}/v2/another/repository/manifests/{digest}")
    (sim / "faults").write_text("registry-lies\n")
    assert fetch(f"{url}/v2/vllm/vllm-openai/manifests/{digest}") != data
    (sim / "faults").write_text("registry-down\n")
    with pytest.raises(OSError, match=r"closed|refused|reset"):
        fetch(f"{url}/v2/")


def test_the_checkpoint_has_the_counts_of_the_seed():
    names = list(checkpoint.tensors())
    count = {
        suffix: sum(".experts." in n and n.endswith(f".{suffix}") for n in names)
        for suffix in ("weight", "weight_scale", "weight_scale_2", "input_scale")
    }
    assert len(names) == len(set(names)) == 18487
    assert count == {"weight": 6144, "weight_scale": 5888, "weight_scale_2": 5888, "input_scale": 0}
    for part in ("in_proj", "out_proj"):
        assert sum(n.endswith(f"{part}.input_scale") for n in names) == 23


@pytest.mark.parametrize(
    ("trouble", "error"),
    [("no-space", "No space left"), ("interrupted", "IncompleteRead"), ("unreachable", "Max retries"), ("", None)],
)
def test_fetching_succeeds_or_fails_by_switch(tmp_path, monkeypatch, trouble, error):
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.setenv("SPIKE_HUB", trouble)
    if error:
        with pytest.raises(Exception, match=error):
            huggingface_hub.snapshot_download(checkpoint.TARGET, revision="bee7596271d1")
    else:
        path = pathlib.Path(huggingface_hub.snapshot_download(checkpoint.TARGET, revision="bee7596271d1"))
        assert re.fullmatch(r"bee7596271d1[0-9a-f]{28}", path.name)
        index = json.loads((path / "model.safetensors.index.json").read_text())
        assert {(path / file).exists() for file in index["weight_map"].values()} == {True}
