# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scripts of the test pods, run for real by the shells of this machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Iterator

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering import proof_pods
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire import scripts
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.counters import split_counters
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.endpoint import (
    Attached,
    choose,
    gid_of,
    read_probe,
)
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.outputs import ended_early
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.placement import Placement
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.shell import Output
from ansible_collections.rdma.fabric.tests.lab.servers import free_port
from ansible_collections.rdma.fabric.tests.unit.processes import is_alive, is_gone

pytestmark = pytest.mark.slow

POSIX_SHELLS = (["dash"], ["bash", "--posix"], ["busybox", "sh"])
SHELLS = [[str(shutil.which(words[0])), *words[1:]] for words in POSIX_SHELLS if shutil.which(words[0])]


@pytest.fixture(params=SHELLS, ids=lambda words: Path(words[0]).name)
def shell(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A shell, and a folder for its servers; none of them outlives the test, whatever it finds."""
    monkeypatch.setattr(scripts, "SCRATCH", str(tmp_path))
    yield request.param
    for path in tmp_path.glob("*.pid"):
        with contextlib.suppress(ValueError, ProcessLookupError):
            os.kill(int(path.read_text()), signal.SIGKILL)


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


def test_both_sides_of_a_measurement_run_on_the_cpus_they_are_held_to(shell: list[str]) -> None:
    (cpu, *_others) = sorted(os.sched_getaffinity(0))
    held = [*Placement(str(cpu)).prefix, "grep", "Cpus_allowed_list", "/proc/self/status"]
    assert run(shell, scripts.bounded(20, held)).stdout.split() == ["Cpus_allowed_list:", str(cpu)]
    run(shell, scripts.serve("held", 20, None, held))
    assert run(shell, scripts.finish("held", 20)).stdout.split()[-2:] == ["Cpus_allowed_list:", str(cpu)]


def test_a_program_that_taskset_does_not_find_is_told_apart(shell: list[str]) -> None:
    (cpu, *_others) = sorted(os.sched_getaffinity(0))
    done = run(shell, scripts.bounded(20, [*Placement(str(cpu)).prefix, "ib_write_bw-of-nobody"]))
    judged = ended_early(Output(done.returncode, done.stdout, done.stderr), "ib_write_bw")
    assert judged is not None
    assert judged.summary == "ib_write_bw is not in the test image"


def test_a_program_keeps_status_and_outputs(shell: list[str]) -> None:
    done = run(shell, scripts.bounded(5, ["sh", "-c", "echo out; echo err >&2; exit 3"]))
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "err\n")


def test_words_of_a_command_stay_words(shell: list[str]) -> None:
    done = run(shell, scripts.bounded(5, ["printf", "<%s>", "a b", "$(id)", "", "*"]))
    assert done.stdout == "<a b><$(id)><><*>"


def test_a_program_is_taken_from_the_path_even_where_the_shell_has_one_of_its_own(
    shell: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "echo"
    own.write_text("#!/bin/sh\nprintf 'the one of the path: %s' \"$1\"\n", encoding="utf-8")
    own.chmod(0o755)
    monkeypatch.setenv("PATH", f"/nowhere:{tmp_path}:{os.environ['PATH']}")
    assert run(shell, scripts.bounded(5, ["echo", "a b"])).stdout == "the one of the path: a b"
    run(shell, scripts.serve("echo", 5, None, ["echo", "c d"]))
    assert run(shell, scripts.finish("echo", 5)).stdout.splitlines() == ["ended 0", "the one of the path: c d"]


def test_a_program_that_hangs_is_ended(shell: list[str]) -> None:
    started = time.monotonic()
    done = run(shell, scripts.bounded(2, ["sh", "-c", "echo before; exec sleep 60"]))
    assert done.returncode == 137
    assert done.stdout == "before\n"
    assert time.monotonic() - started < 60


def test_a_missing_program_is_told_apart(shell: list[str]) -> None:
    done = run(shell, scripts.bounded(15, ["ib_write_bw-of-nobody"]))
    assert done.returncode == 127
    assert "not found" in done.stderr


def server(port: int, words: str = "") -> list[str]:
    code = (
        f"import socket,time,sys; s=socket.socket(); s.bind(('127.0.0.1',{port})); s.listen(); print('up', flush=True)"
    )
    return ["python3", "-c", f"{code}; {words or 's.accept(); time.sleep(60)'}"]


def test_a_server_is_answered_for_once_it_listens_and_ended_in_the_end(shell: list[str], tmp_path: Path) -> None:
    port = free_port()
    done = run(shell, scripts.serve("a", 30, port, server(port)))
    pid = int((tmp_path / "a.pid").read_text())
    assert done.stdout == "listening\n"
    assert is_alive(pid)
    with socket.create_connection(("127.0.0.1", port), timeout=5):
        ended = run(shell, scripts.finish("a", 0))
    assert ended.stdout.splitlines() == ["killed none", "up"]
    assert is_gone(pid)


def test_a_server_that_ends_leaves_status_and_output(shell: list[str]) -> None:
    port = free_port()
    assert run(shell, scripts.serve("b", 30, port, server(port, "c=s.accept(); sys.exit(4)"))).stdout == "listening\n"
    socket.create_connection(("127.0.0.1", port), timeout=5).close()
    assert run(shell, scripts.finish("b", 5)).stdout.splitlines() == ["ended 4", "up"]


def test_a_status_that_is_not_written_yet_is_waited_for(shell: list[str], tmp_path: Path) -> None:
    (tmp_path / "slow.rc").touch()
    (tmp_path / "slow.out").write_text("up\n")
    with subprocess.Popen(["sh", "-c", f"sleep 0.5; echo 4 >{tmp_path}/slow.rc"]):
        assert run(shell, scripts.finish("slow", 20)).stdout.splitlines() == ["ended 4", "up"]


def test_a_server_that_fails_at_once_is_told(shell: list[str]) -> None:
    assert run(shell, scripts.serve("c", 30, 9, ["sh", "-c", "echo no device; exit 1"])).stdout == "ended\n"
    assert run(shell, scripts.finish("c", 5)).stdout.splitlines() == ["ended 1", "no device"]


def test_a_server_without_a_port_is_only_started(shell: list[str], tmp_path: Path) -> None:
    assert run(shell, scripts.serve("d", 30, None, ["sleep", "60"])).stdout == "started\n"
    pid = int((tmp_path / "d.pid").read_text())
    run(shell, scripts.finish("d", 0))
    assert is_gone(pid)


def test_a_server_ends_itself_when_nobody_comes_back(shell: list[str], tmp_path: Path) -> None:
    # The test listens itself: a program that has to start first can take longer than its limit on a busy machine.
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        assert run(shell, scripts.serve("e", 3, port, ["sleep", "60"])).stdout == "listening\n"
    assert is_gone(int((tmp_path / "e.pid").read_text()))


def test_the_end_of_a_server_that_never_was_is_no_error(shell: list[str]) -> None:
    done = run(shell, scripts.finish("never", 0))
    assert done.stdout.splitlines()[0] == "killed none"


def test_each_side_gets_its_own_device_and_the_client_the_address() -> None:
    load = scripts.Load(65536, 100, 2)
    ours, theirs = scripts.UsedPort("mlx5_0", 1, 3), scripts.UsedPort("mlx5_1", 1, 5)
    server_side = scripts.write_bandwidth(theirs, load, tcp_port=18516)
    client_side = scripts.write_bandwidth(ours, load, tcp_port=18516, server="192.168.111.2")
    shared = ["-F", "--report_gbits", "-s", "65536", "-n", "100", "-q", "2", "-p", "18516"]
    assert server_side == ["ib_write_bw", "-d", "mlx5_1", "-i", "1", "-x", "5", *shared]
    assert client_side == ["ib_write_bw", "-d", "mlx5_0", "-i", "1", "-x", "3", *shared, "192.168.111.2"]
    assert "-x" not in scripts.write_bandwidth(scripts.UsedPort("mlx5_0", 1, None), load, tcp_port=1)
    latency = ["ib_write_lat", "-d", "mlx5_0", "-i", "1", "-x", "3", "-F", "-n", "9", "-p", "7", "10.0.0.2"]
    assert scripts.write_latency(ours, 9, tcp_port=7, server="10.0.0.2") == latency


@pytest.mark.parametrize(("address", "size"), [("10.0.0.1", "8972"), ("fd00::1", "8952")])
def test_a_ping_fills_the_packet_and_leaves_by_the_interface_of_the_network(address: str, size: str) -> None:
    argv = scripts.ping("net1", address, 9000)
    assert argv[argv.index("-I") + 1] == "net1"
    assert argv[argv.index("-s") + 1] == size
    assert argv[argv.index("-M") + 1] == "do"
    assert argv[-1] == address


@pytest.fixture
def port(tmp_path: Path) -> Path:
    """The counters of a port as two drivers have them: numbers, one that is told by nobody, and a file to set."""
    place = tmp_path / "infiniband" / "mlx5_0" / "ports" / "1"
    for name, text in {
        "counters/link_downed": "3\n",
        "counters/port_rcv_data": "N/A (no PMA)\n",
        "hw_counters/packet_seq_err": "4294967295\n",
    }.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    return place


def counting(argv: list[str], port: Path) -> list[str]:
    """Let a script look at the counters of ``port``."""
    return [word.replace("/sys/class/infiniband", str(port.parents[2])) for word in argv]


def test_counters_are_printed_around_a_program(shell: list[str], port: Path) -> None:
    rising = f"echo 5 >{port}/counters/link_downed; printf half"
    argv = scripts.bounded(20, ["sh", "-c", rising], scripts.UsedPort("mlx5_0", 1, None))
    reading, text = split_counters(run(shell, counting(argv, port)).stdout)
    assert reading.before == {"counters/link_downed": 3, "hw_counters/packet_seq_err": 4294967295}
    assert reading.after == {**reading.before, "counters/link_downed": 5}
    assert text.strip() == "half"


def test_counters_keep_the_status_of_a_program(shell: list[str], port: Path) -> None:
    argv = scripts.bounded(20, ["sh", "-c", "exit 7"], scripts.UsedPort("mlx5_0", 1, None))
    assert run(shell, counting(argv, port)).returncode == 7


def test_a_device_without_counters_prints_none(shell: list[str], port: Path) -> None:
    argv = scripts.bounded(20, ["echo", "text"], scripts.UsedPort("mlx5_9", 1, None))
    done = run(shell, counting(argv, port))
    assert (done.stdout.strip(), done.stderr) == ("text", "")


def test_counters_of_a_server_side_come_with_its_end(shell: list[str], port: Path) -> None:
    counted = scripts.UsedPort("mlx5_0", 1, None)
    run(shell, counting(scripts.serve("bw-1", 20, None, ["echo", "served"], counted), port))
    (port / "counters" / "link_downed").write_text("9\n")
    done = run(shell, counting(scripts.finish("bw-1", 20, counted), port))
    reading, text = split_counters(done.stdout)
    assert (reading.before["counters/link_downed"], reading.after["counters/link_downed"]) == (3, 9)
    assert text.split() == ["ended", "0", "served"]


def test_counters_that_sysfs_of_a_pod_lacks_come_from_netlink(
    shell: list[str], port: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line is that of iproute2 6.15 for rxe on a booted guest, cut short."""
    line = "link rxe0/1 sent_pkts 0 rcvd_pkts 0 duplicate_request 0 out_of_seq_request 19 rcvd_rnr_err 0 "
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "rdma").write_text(f'#!/bin/sh\n[ "$*" = "statistic show link rxe0/1" ] && echo "{line}"\n')
    (tmp_path / "bin" / "rdma").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    argv = scripts.bounded(20, ["echo", "text"], scripts.UsedPort("rxe0", 1, None))
    reading, text = split_counters(run(shell, counting(argv, port)).stdout)
    assert reading.after == reading.before
    assert reading.after["hw_counters/out_of_seq_request"] == 19
    assert len(reading.after) == 5
    assert text.strip() == "text"
