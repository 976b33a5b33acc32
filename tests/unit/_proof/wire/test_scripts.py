# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scripts of the test pods, run for real by the shells of this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Sequence

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering import proof_pods
from ansible_collections.rdma.fabric.plugins.module_utils._proof.perftest import perftest_result
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire import scripts
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.campaign import (
    Settings,
    Slot,
    Words,
    command_of,
    read_words,
)
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.campaign import (
    table as table_of,
)
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.counters import rises
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.endpoint import (
    Attached,
    choose,
    gid_of,
    read_probe,
)
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.outputs import ended_early, judge_ping
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.pair import judge_pair
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.placement import Placement
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.shell import Output
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.side import Side
from ansible_collections.rdma.fabric.tests.unit._proof.wire.memory_pods import (
    ADDRESSES,
    PASSED_PING,
    latency_table,
    memory_pods,
    sides,
    table,
)
from ansible_collections.rdma.fabric.tests.unit.processes import is_gone

POSIX_SHELLS = (["dash"], ["bash", "--posix"], ["busybox", "sh"])
SHELLS = [[str(shutil.which(words[0])), *words[1:]] for words in POSIX_SHELLS if shutil.which(words[0])]


@pytest.fixture(params=SHELLS, ids=lambda words: Path(words[0]).name)
def shell(request: pytest.FixtureRequest) -> list[str]:
    """A shell of this machine."""
    found: list[str] = request.param
    return found


def run(shell: list[str], argv: list[str], limit: float = 20) -> subprocess.CompletedProcess[str]:
    assert argv[0] == "sh"
    return subprocess.run([*shell, *argv[1:]], capture_output=True, text=True, timeout=limit, check=False)


def test_a_shell_to_run_them_exists() -> None:
    assert SHELLS


def test_the_folder_of_the_scripts_is_the_one_that_the_pods_mount() -> None:
    assert scripts.SCRATCH == proof_pods.SCRATCH


def test_the_probe_reads_an_interface_and_its_addresses(shell: list[str]) -> None:
    done = run(shell, scripts.probe("lo"))
    seen = read_probe(done.stdout)
    assert done.returncode == 0
    assert seen.complete
    assert "lo" in seen.interfaces
    assert seen.mtu == int(Path("/sys/class/net/lo/mtu").read_text())
    assert "127.0.0.1" in seen.addresses
    assert done.stderr == ""


def test_the_probe_of_a_missing_interface_says_what_there_is(shell: list[str]) -> None:
    seen = read_probe(run(shell, scripts.probe("no'such;$(x)")).stdout)
    assert seen.complete
    assert seen.mtu is None
    assert "lo" in seen.interfaces


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder of the path, with ``sh``."""
    place = tmp_path / "path"
    place.mkdir()
    (place / "sh").symlink_to(str(shutil.which("sh")))
    monkeypatch.setenv("PATH", str(place))
    return place


def own_cpus() -> str:
    """Return the CPUs that this process may use, as the kernel writes them."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(line.split()[1] for line in lines if line.startswith("Cpus_allowed_list:"))


def test_the_probe_reads_cpus_and_tries_taskset_on_them(shell: list[str], path: Path, tmp_path: Path) -> None:
    record = f'#!/bin/sh\nprintf "%s " "$@" >{tmp_path}/tried\nshift 2\nexec "$@"\n'
    (path / "taskset").write_text(record)
    (path / "taskset").chmod(0o755)
    done = run(shell, scripts.probe("lo"))
    seen = read_probe(done.stdout)
    assert (seen.cpus, seen.taskset) == (own_cpus(), True)
    assert (tmp_path / "tried").read_text() == f"-c {own_cpus()} sh -c : "
    assert seen.online == Path("/sys/devices/system/cpu/online").read_text().strip()
    assert seen.isolated == Path("/sys/devices/system/cpu/isolated").read_text().strip()
    assert (seen.complete, done.stderr) == (True, "")


def test_a_taskset_that_fails_does_not_work(shell: list[str], path: Path) -> None:
    (path / "taskset").write_text("#!/bin/sh\necho taskset: invalid option >&2\nexit 1\n")
    (path / "taskset").chmod(0o755)
    done = run(shell, scripts.probe("lo"))
    seen = read_probe(done.stdout)
    assert (seen.complete, seen.taskset, done.stderr) == (True, False, "")


def test_an_image_may_have_no_taskset(path: Path) -> None:
    """A shell of busybox is left out: it has one of its own."""
    for shell in [words for words in SHELLS if Path(words[0]).name != "busybox"]:
        done = run(shell, scripts.probe("lo"))
        seen = read_probe(done.stdout)
        assert (seen.complete, seen.taskset, done.stderr) == (True, False, "")


@pytest.mark.parametrize(
    ("usage", "known"),
    [
        (
            "      --use_cuda=<cuda device id> Use CUDA specific device for GPUDirect RDMA testing\n"
            "      --use_cuda_dmabuf Use CUDA DMA-BUF for GPUDirect RDMA testing\n",
            ["memory", "dmabuf"],
        ),
        # Until 2020 the option took no GPU, and refuses one.
        ("      --use_cuda Use CUDA lib for GPU-Direct testing.\n", []),
        ("      --use_hugepages  Use Hugepages instead of contig, memalign allocations.\n", []),
    ],
)
def test_the_probe_asks_perftest_what_it_can_do_with_a_gpu(
    shell: list[str], path: Path, usage: str, known: list[str]
) -> None:
    """The lines are those of ``usage`` in linux-rdma/perftest, src/perftest_parameters.c."""
    (path / "ib_write_bw").write_text(f"#!/bin/sh\n[ \"$*\" = --help ] || exit 1\nprintf '%s' '{usage}'\n")
    (path / "ib_write_bw").chmod(0o755)
    done = run(shell, scripts.probe("lo", gpu=True))
    seen = read_probe(done.stdout)
    assert (seen.cuda, seen.complete, done.stderr) == (known, True, "")
    assert read_probe(run(shell, scripts.probe("lo")).stdout).cuda == []


def test_an_image_may_have_no_perftest_or_one_without_its_libraries(shell: list[str], path: Path) -> None:
    seen = read_probe(run(shell, scripts.probe("lo", gpu=True)).stdout)
    assert (seen.cuda, seen.complete) == ([], True)
    missing = "ib_write_bw: error while loading shared libraries: libcuda.so.1: cannot open shared object file"
    (path / "ib_write_bw").write_text(f"#!/bin/sh\necho '{missing}' >&2\nexit 127\n")
    (path / "ib_write_bw").chmod(0o755)
    done = run(shell, scripts.probe("lo", gpu=True))
    assert (read_probe(done.stdout).cuda, read_probe(done.stdout).complete, done.stderr) == (["no_driver"], True, "")


def test_the_probe_sees_modules_that_let_nics_reach_gpu_memory(shell: list[str], tmp_path: Path) -> None:
    for name in ("nvidia_peermem", "nv_peer_mem", "mlx5_core"):
        (tmp_path / "module" / name).mkdir(parents=True)
    argv = scripts.probe("lo", gpu=True)
    argv[2] = argv[2].replace("/sys/module/", f"{tmp_path}/module/")
    assert read_probe(run(shell, argv).stdout).peer == ["nvidia_peermem", "nv_peer_mem"]
    argv[2] = argv[2].replace(f"{tmp_path}/module/", f"{tmp_path}/none/")
    assert read_probe(run(shell, argv).stdout).peer == []


def test_the_probe_tells_the_gpus_of_the_pod_among_those_of_the_host(shell: list[str], tmp_path: Path) -> None:
    """The lines are those of NVIDIA/open-gpu-kernel-modules, kernel-open/nvidia/nv-procfs.c."""
    for address, minor in (("0008:01:00.0", 0), ("0009:01:00.0", 1)):
        folder = tmp_path / "gpus" / address
        folder.mkdir(parents=True)
        (folder / "information").write_text(f"Bus Location: \t {address}\nDevice Minor: \t {minor}\n")
    (tmp_path / "nvidia1").touch()
    argv = scripts.probe("lo", gpu=True)
    argv[2] = (
        argv[2].replace("/proc/driver/nvidia/gpus/", f"{tmp_path}/gpus/").replace("/dev/nvidia", f"{tmp_path}/nvidia")
    )
    done = run(shell, argv)
    assert (read_probe(done.stdout).gpus, done.stderr) == (["0009:01:00.0"], "")


def test_the_probe_reads_the_cpus_of_a_devices_numa_node(shell: list[str], tmp_path: Path) -> None:
    """A device of PCI, one whose node has memory alone, and one of soft RDMA, which has no device behind it."""
    for name, cpus in {"mlx5_0": "56-111,168-223\n", "mlx5_1": "\n"}.items():
        function = tmp_path / "pci" / name
        function.mkdir(parents=True)
        (function / "local_cpulist").write_text(cpus)
        (tmp_path / "infiniband" / name).mkdir(parents=True)
        (tmp_path / "infiniband" / name / "device").symlink_to(function)
    (tmp_path / "infiniband" / "rxe0").mkdir()
    argv = [word.replace("/sys/class/infiniband", str(tmp_path / "infiniband")) for word in scripts.probe("lo")]
    done = run(shell, argv)
    seen = read_probe(done.stdout)
    assert seen.near == {"mlx5_0": "56-111,168-223", "mlx5_1": "", "rxe0": ""}
    assert (set(seen.devices), done.stderr) == (set(seen.near), "")


def test_the_probe_tells_hardware_from_software(shell: list[str], tmp_path: Path) -> None:
    """A sub-function of mlx5 is hardware, on the CPUs of its PCI function (mlx5_sf_dev_probe makes its auxiliary device
    the parent); soft RoCE is none, though old kernels put it below the NIC it stands on (rxe_dma_device).
    """
    function = tmp_path / "devices" / "0000:18:00.0"
    (function / "mlx5_core.sf.4").mkdir(parents=True)
    (function / "local_cpulist").write_text("0-55\n")
    for name, place in {"mlx5_0": function, "mlx5_12": function / "mlx5_core.sf.4", "rxe0": function}.items():
        port = tmp_path / "infiniband" / name / "ports" / "1"
        (port / "gids").mkdir(parents=True)
        (port / "gid_attrs" / "types").mkdir(parents=True)
        (port / "state").write_text("4: ACTIVE\n")
        (port / "gids" / "3").write_text(f"{gid_of('10.9.0.1')}\n")
        (port / "gid_attrs" / "types" / "3").write_text("RoCE v2\n")
        (tmp_path / "infiniband" / name / "device").symlink_to(place)
    (tmp_path / "infiniband" / "rxe0" / "parent").write_text("eth1\n")
    argv = [word.replace("/sys/class/infiniband", str(tmp_path / "infiniband")) for word in scripts.probe("lo")]
    seen = read_probe(run(shell, argv).stdout)
    seen.character_devices.append("uverbs0")
    assert seen.near == {"mlx5_0": "0-55", "mlx5_12": "0-55", "rxe0": ""}
    told = {}
    for name, ports in seen.devices.items():
        choice, _problem = choose(replace(seen, devices={name: ports}), Attached("net1", "10.9.0.1"))
        told[name] = choice and (choice.pci, choice.software)
    assert told == {
        "mlx5_0": ("0000:18:00.0", False),
        "mlx5_12": ("0000:18:00.0", False),
        "rxe0": (None, True),
    }


class Pods:
    """Pods as processes of this machine: each with a folder of its own, their programs stand-ins in one of the path.

    What a shell does is told apart from what one does on a busy machine: a slot is long enough for a slow one.
    """

    def __init__(self, shell: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.shell, self.folder, self.path = shell, folder, folder / "path"
        self.path.mkdir()
        self.devices = folder / "infiniband"
        monkeypatch.setenv("PATH", f"/nowhere:{self.path}:{os.environ['PATH']}")
        self.program("ping", f"cat <<'E'\n{PASSED_PING}E")
        self.program("rping", "echo 'ping data: rdma-ping-0'")
        self.program("ib_write_bw", f"cat <<'E'\n{table()}E")
        self.program("ib_write_lat", f"cat <<'E'\n{latency_table()}E")

    def program(self, name: str, text: str) -> None:
        (self.path / name).write_text(f"#!/bin/sh\n{text}\n")
        (self.path / name).chmod(0o755)

    def counters(self, device: str, **values: str) -> Path:
        """Let a device have counters; return their folder."""
        place = self.devices / device / "ports" / "1" / "hw_counters"
        place.mkdir(parents=True, exist_ok=True)
        for name, value in values.items():
            (place / name).write_text(f"{value}\n")
        return place

    def run(self, argv: list[str], stdin: str = "", limit: float = 60) -> str:
        words = [word.replace(scripts.SCRATCH, str(self.folder)) for word in argv]
        words[2] = words[2].replace("/sys/class/infiniband", str(self.devices))
        done = subprocess.run(
            [*self.shell, *words[1:]], input=stdin, capture_output=True, text=True, timeout=limit, check=False
        )
        assert done.stderr == ""
        return done.stdout

    def begin(self, pod: str, text: str) -> None:
        assert self.run(scripts.begin(pod), text) == "begun\n"

    def collect(self, pod: str, grace: int = 50) -> Words:
        return read_words(self.run(scripts.collect(pod, grace)))


@pytest.fixture
def pods(shell: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pods:
    return Pods(shell, tmp_path, monkeypatch)


def both() -> list[Side]:
    return sides(memory_pods())


def alone(pods: Pods, slots: Sequence[int] = (0,), *, wait: float = 0.0, limit: int = 20, gpu: bool = False) -> Words:
    """Return what the first pod says whose partner is not there: its clients answer for themselves."""
    one, other = both()
    settings = Settings(limit=limit, gpu=gpu)
    pods.begin("a", table_of(one, [Slot(number, other) for number in slots], settings, wait=wait))
    return pods.collect("a")


def test_a_pod_says_of_good_programs_their_numbers_alone(pods: Pods) -> None:
    said = alone(pods).slots[0]
    assert said is not None
    assert list(said) == list("prwl"), "the server side of the other direction has nothing to tell"
    assert judge_ping(said["p"].output, 9000).summary == "4 of 4 packets of 9000 bytes, 0.305 ms"
    assert perftest_result(said["w"].output.text, "gbps")["summary"]["average_gbps"] == 92.0
    assert perftest_result(said["l"].output.stdout, "gbps")["summary"]["p99_us"] == 2.73
    assert said["r"].output == Output(0, "", "")
    text = (pods.folder / "a.results").read_text()
    assert len(text.splitlines()) == 2
    assert len(text) < 130


def test_a_pod_keeps_statuses_and_what_failing_programs_say(pods: Pods) -> None:
    pods.program("ping", "echo 'a b  $(id) *' >&2; printf 'half\\c'; exit 3")
    pods.program("ib_write_bw", "echo CUDA; exit 0")
    (pods.path / "ib_write_lat").unlink()
    pods.program("rping", "echo data mismatch")
    said = alone(pods).slots[0]
    assert said is not None
    assert said["p"].output == Output(3, "a b  $(id) *\nhalf\\c", "")
    assert said["w"].output == Output(0, "CUDA", "")
    assert (said["r"].output.status, said["r"].output.text) == (0, "data mismatch")
    judged = ended_early(said["l"].output, "ib_write_lat")
    assert judged is not None
    assert judged.summary == "ib_write_lat is not in the test image"


@pytest.mark.slow
def test_programs_get_their_words_whatever_these_are(pods: Pods) -> None:
    """A program is taken from the path, even where the shell has one of its own."""
    pods.program("ping", 'echo "$# $*"; exit 1')
    pods.program("ib_write_bw", 'echo "$*"; exit 1')
    said = alone(pods, (2,), wait=-40.0).slots[2]
    assert said is not None
    assert said["p"].output.text == f"14 -n -c 4 -i 0.3 -W 2 -M do -s 8972 -I net1 {ADDRESSES['b']}"
    one, other = both()
    command = command_of(one, other, "w", Settings(), 2)
    assert f"ib_write_bw {said['w'].output.text}" == command
    assert said["v"].output.text.split()[-1] == "18535"


@pytest.mark.slow
def test_a_program_that_hangs_is_ended_and_the_next_one_has_its_time(pods: Pods) -> None:
    pods.program("rping", "echo before; echo $$ >$0.pid; exec sleep 100")
    said = alone(pods, limit=10).slots[0]
    assert said is not None
    assert (said["r"].output.status, said["r"].output.text) == (137, "before")
    assert is_gone(int((pods.path / "rping.pid").read_text()))
    assert said["w"].output.status == 0


@pytest.mark.slow
def test_a_client_comes_again_while_it_is_refused_and_no_longer_than_its_test(pods: Pods) -> None:
    pods.program(
        "ib_write_bw",
        f"[ -e $0.3 ] && {{ cat <<'E'\n{table()}E\nexit 0; }}\n"
        "for n in 1 2 3; do [ -e $0.$n ] || { : >$0.$n; break; }; done\n"
        'echo "Couldn\'t connect to 192.168.111.2:18517"; exit 1',
    )
    pods.program("rping", "echo RDMA_CM_EVENT_REJECTED; exit 1")
    said = alone(pods).slots[0]
    assert said is not None
    assert said["w"].output.status == 0
    assert (said["r"].output.status, said["r"].seconds > 2) == (1, True)


@pytest.mark.slow
def test_a_pod_that_comes_late_misses_its_slots_and_tells_so(pods: Pods) -> None:
    words = alone(pods, (0, 1), wait=-15.0, limit=10)
    assert words.slots[0] is None
    assert words.slots[1] is None


@pytest.mark.slow
def test_counters_are_told_by_how_much_they_rose_around_a_measurement(pods: Pods) -> None:
    place = pods.counters("mlx5_0", packet_seq_err="4294967295", link_downed="3", port_xmit_data="7", out_of_buffer="x")
    pods.program("ib_write_bw", f"echo 5 >{place}/link_downed; echo 1 >{place}/packet_seq_err\ncat <<'E'\n{table()}E")
    said = alone(pods).slots[0]
    assert said is not None
    assert rises(said["w"].reading) == {"link_downed": 2, "packet_seq_err": 2}
    assert rises(said["l"].reading) == {}
    assert set(said["w"].reading.before) == {"hw_counters/link_downed", "hw_counters/packet_seq_err"}


@pytest.mark.slow
def test_counters_that_sysfs_of_a_pod_lacks_come_from_netlink(pods: Pods) -> None:
    """The line is that of iproute2 6.15 for rxe on a booted guest, cut short."""
    line = "link mlx5_0/1 sent_pkts 0 rcvd_pkts 0 duplicate_request 0 out_of_seq_request 19 rcvd_rnr_err 0 "
    pods.program("rdma", f'[ "$*" = "statistic show link mlx5_0/1" ] && echo "{line}"')
    said = alone(pods).slots[0]
    assert said is not None
    assert said["w"].reading.before["hw_counters/out_of_seq_request"] == 19
    assert len(said["w"].reading.before) == 5


@pytest.mark.slow
def test_a_header_that_is_not_the_usual_one_is_told_once(pods: Pods) -> None:
    header = " #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]"
    pods.program("ib_write_bw", f"echo '{header}'; echo ' 65536      5000   11200.10   11100.20     0.177603'")
    words = alone(pods, (0, 1), limit=6)
    for number in (0, 1):
        said = words.slots[number]
        assert said is not None
        assert perftest_result(said["w"].output.text, "gbps")["summary"]["average_gbps"] == pytest.approx(93.115, 0.001)
    assert (pods.folder / "a.results").read_text().count("#bytes") == 1


@pytest.mark.slow
def test_both_sides_name_the_gpu_that_they_took(pods: Pods) -> None:
    pods.program("ib_write_bw", f"echo 'CUDA device 0: PCIe address is 1B:00'\ncat <<'E'\n{table()}E")
    said = alone(pods, gpu=True).slots[0]
    assert said is not None
    assert [perftest_result(said[test].output.text, "gbps")["gpu"] for test in "gh"] == ["1b:00", "1b:00"]


@pytest.mark.slow
def test_a_measurement_runs_on_the_cpus_it_is_held_to(pods: Pods) -> None:
    (cpu, *_others) = sorted(os.sched_getaffinity(0))
    pods.program("ib_write_bw", "grep Cpus_allowed_list /proc/self/status; exit 1")
    one, other = both()
    held = replace(one, placement=Placement(str(cpu)))
    pods.begin("a", table_of(held, [Slot(0, other)], Settings(limit=20), wait=0.0))
    said = pods.collect("a").slots[0]
    assert said is not None
    assert said["w"].output.text.split() == ["Cpus_allowed_list:", str(cpu)]
    missing = replace(one, placement=Placement(f"{cpu} ib_write_bw-of-nobody"))
    pods.begin("b", table_of(missing, [Slot(0, other)], Settings(limit=20), wait=0.0))
    said = pods.collect("b").slots[0]
    assert said is not None
    judged = ended_early(said["w"].output, "ib_write_bw")
    assert judged is not None
    assert judged.summary == "ib_write_bw is not in the test image"


def test_a_table_that_is_cut_begins_nothing(pods: Pods) -> None:
    one, other = both()
    text = table_of(one, [Slot(0, other)], Settings(), wait=0.0)
    assert pods.run(scripts.begin("a"), text[: text.index("slots")]) == "cut\n"
    assert not (pods.folder / "a.results").exists()


@pytest.mark.slow
def test_a_pod_that_is_not_done_in_time_tells_what_it_has(pods: Pods) -> None:
    pods.program("rping", "exec sleep 100")
    one, other = both()
    pods.begin("a", table_of(one, [Slot(0, other)], Settings(limit=8), wait=0.0))
    assert pods.collect("a", 0).slots == {}
    assert pods.collect("a").slots[0] is not None


MEASURING = """#!{python} -SE
import socket, sys, time
words = sys.argv[1:]
port = int(words[words.index("-p") + 1])
server = "-s" in words if "rping" in sys.argv[0] else words[-2] == "-p"
if server:
    with socket.create_server(("127.0.0.1", port)) as listening:
        listening.accept()[0].recv(1)
else:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except ConnectionRefusedError:
        sys.exit(f"Couldn't connect to 127.0.0.1:{{port}}")
    sys.stdout.write(open({table!r}).read())
"""


@pytest.mark.slow
@pytest.mark.parametrize("dead", [False, True])
def test_two_pods_meet_by_themselves_slot_by_slot(pods: Pods, dead: bool) -> None:
    """Both directions, each side once the server and once the client; one that never comes holds nobody up."""
    for name, text in {"ib_write_bw": table(), "ib_write_lat": latency_table(), "rping": "ping data\n"}.items():
        (pods.folder / name).write_text(text)
        pods.program(name, "")
        (pods.path / name).write_text(MEASURING.format(python=sys.executable, table=str(pods.folder / name)))
    one, other = both()
    settings = Settings(limit=8 if dead else 25)
    for side, partner in ((one, other), (other, one)):
        if not dead or side is one:
            pods.begin(side.node, table_of(side, [Slot(0, partner)], settings, wait=1.0))
    words = {node: pods.collect(node).slots[0] if not dead or node == "a" else {} for node in "ab"}
    tests = judge_pair(one, other, words, settings, 0)
    verdicts = [test["verdict"] for test in tests[3:]]
    assert verdicts == (["pass", *["fail"] * 5] if dead else ["pass"] * 6)
    if dead:
        assert tests[-1]["summary"] == "the server side on b never listened"


@pytest.mark.parametrize(("address", "size"), [("10.0.0.1", 8972), ("fd00::1", 8952)])
def test_a_ping_fills_the_packet(address: str, size: int) -> None:
    assert scripts.ping_size(address, 9000) == size
