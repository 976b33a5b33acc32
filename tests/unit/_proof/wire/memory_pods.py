# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-ins of the wire tests: pods whose programs answer as told, without a cluster, a network or RDMA.

``MemoryPods`` takes the place of the shell in them. It does what the scripts do with a table, and answers for programs.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Callable, Iterator, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire import campaign, scripts
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.campaign import Settings
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.counters import TOLD
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.outputs import may_come_up
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.pair import judge_pair, may_meet
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.shell import Output, ShellTrouble
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.side import Known, PodState, Side, examine

NETWORK = "default/rail0"
UNKNOWN = Known()
PASSED_PING = (
    "PING 192.168.111.2 (192.168.111.2) from 192.168.111.1 net1: 1472(1500) bytes of data.\n"
    "--- 192.168.111.2 ping statistics ---\n"
    "4 packets transmitted, 4 received, 0% packet loss, time 903ms\n"
    "rtt min/avg/max/mdev = 0.210/0.305/0.420/0.050 ms\n"
)
PASSED_RPING = "ping data: rdma-ping-0\n"
UNREACHABLE_RPING = "cma event RDMA_CM_EVENT_UNREACHABLE, error -110\n"
LOST_PING = "4 packets transmitted, 0 received, 100% packet loss, time 3050ms\n"
LONG_PING = "ping: local error: message too long, mtu=1500\n4 packets transmitted, 0 received, +4 errors\n"
REJECTED = "cma event RDMA_CM_EVENT_REJECTED, error 8\nwait for CONNECTED state 4\nconnect error -1\n"


def table(gbps: float = 92.0) -> str:
    """Return what the client side of ib_write_bw prints for one size."""
    rate = gbps / 8 / 65536 * 1e3
    return (
        "---------------------------------------------------------------------------------------\n"
        "                    RDMA_Write BW Test\n"
        " Dual-port       : OFF\t\tDevice         : mlx5_0\n"
        " Number of qps   : 1\t\tTransport type : IB\n"
        " Mtu             : 4096[B]\n"
        " Link type       : Ethernet\n"
        "---------------------------------------------------------------------------------------\n"
        " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
        f" 65536      5000             {gbps:.2f}              {gbps:.2f}     \t\t     {rate:.6f}\n"
        "---------------------------------------------------------------------------------------\n"
    )


def latency_table(us: float = 1.82) -> str:
    """Return what the client side of ib_write_lat prints."""
    columns = "t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]"
    values = f"{us:.2f}           {us * 3:.2f}         {us:.2f}  \t       {us:.2f}     \t0.10\t\t{us * 1.5:.2f}"
    return (
        "---------------------------------------------------------------------------------------\n"
        "                    RDMA_Write Latency Test\n"
        " Mtu             : 4096[B]\n"
        " Link type       : Ethernet\n"
        "---------------------------------------------------------------------------------------\n"
        f" #bytes #iterations    {columns}   99.9% percentile[usec] \n"
        f" 2       1000          {values} \t\t{us * 2:.2f}\n"
        "---------------------------------------------------------------------------------------\n"
    )


def probe_text(address: str, **changes: Any) -> str:
    """Return what the probe prints in a pod on mlx5_0; ``changes`` replace the values of its parts."""
    given = {
        "mtu": "9000",
        "operstate": "up",
        "netdevs": "lo eth0 net1",
        "device": "mlx5_0|0000:18:00.0",
        "state": "4: ACTIVE",
        "rate": "100 Gb/sec (4X EDR)",
        "link_layer": "Ethernet",
        "slot": "5",
        "kind": "RoCE v2",
        "chars": "rdma_cm uverbs0",
        "locals": f"127.0.0.1 10.44.0.2 {address}",
        "own": "",
        "peer": "",
        "gpu": "",
        "cuda": "",
        **changes,
    }
    gid = "0000:0000:0000:0000:0000:ffff:" + "{:02x}{:02x}:{:02x}{:02x}".format(*map(int, address.split(".")))
    name = given["device"].partition("|")[0]
    lines = [f"netdev|{each}" for each in given["netdevs"].split()]
    lines += ["address|02:00:00:00:00:01", f"mtu|{given['mtu']}", f"operstate|{given['operstate']}"]
    lines += [f"char|{each}" for each in given["chars"].split()]
    if given["device"]:
        lines.append(f"device|{given['device']}")
        lines.append(f"port|{name}|1|{given['link_layer']}|{given['state']}|{given['rate']}")
        lines.append(f"gid|{name}|1|0|0000:0000:0000:0000:0000:ffff:0a2c:0002|RoCE v2|eth0")
        lines.append(f"gid|{name}|1|{int(given['slot']) - 1}|{gid}|IB/RoCE v1|net1")
        lines.append(f"gid|{name}|1|{given['slot']}|{gid}|{given['kind']}|net1")
    lines += [f"{key}|{each}" for key in ("own", "peer", "cuda", "gpu") for each in given[key].split()]
    lines += [f"local|{each}" for each in given["locals"].split()]
    return "\n".join([*lines, "end", ""])


def network_status(address: str, network: str = NETWORK) -> str:
    """Return the annotation that Multus writes."""
    first = {"name": "cbr0", "interface": "eth0", "ips": ["10.44.0.2"], "default": True}
    return json.dumps([first, {"name": network, "interface": "net1", "ips": [address], "mac": "02:00:00:00:00:01"}])


Answer = Output | ShellTrouble
TRIES = 3


@dataclass
class MemoryPods:
    """Stands in for pods; ``answers`` maps (pod, program) to what it leaves, used up one by one but the last.

    Programs are ping, rping, ib_write_bw and ib_write_lat of the client side, and serve; beside them probe (the log of
    the pod), begin and collect may answer or be in trouble. ``rising`` are the counters of a device that rise with each
    measurement, ``late`` the pods that come too late for every slot.
    """

    answers: dict[tuple[str, str], list[Answer]] = field(default_factory=dict)
    rising: dict[str, dict[str, int]] = field(default_factory=dict)
    late: set[str] = field(default_factory=set)
    calls: list[tuple[str, str, list[str], float]] = field(default_factory=list)
    before: Callable[[str, str], None] = lambda _pod, _program: None
    tables: dict[str, str] = field(default_factory=dict)

    def log(self, pod: str, end: str, limit: float) -> str:
        assert end == "end"
        return self._answer(pod, "probe", [], limit).stdout

    def run(self, pod: str, argv: list[str], limit: float, stdin: str = "") -> Output:
        script = argv[3]
        if script == "begin":
            self.tables[pod] = stdin
        answer = self._answer(pod, script, argv[4:], limit)
        if script == "begin" or answer.stdout:
            return answer
        return answer._replace(stdout="".join(f"{line}\n" for line in [*self._found(pod), "end"]))

    def _answer(self, pod: str, program: str, words: list[str], limit: float) -> Output:
        self.calls.append((pod, program, words, limit))
        self.before(pod, program)
        given = self.answers.get((pod, program))
        answer = (given.pop(0) if len(given) > 1 else given[0]) if given else Output(0, USUAL.get(program, ""), "")
        if isinstance(answer, ShellTrouble):
            raise answer
        return answer

    def _found(self, pod: str) -> Iterator[str]:
        """Do what the scripts do with a table: run the programs of each slot, and say in few words how they went."""
        lines = [line.split() for line in self.tables[pod].splitlines()]
        (device,) = (words[1] for words in lines if words[0] == "of")
        rising = {TOLD.index(name) + 1: by for name, by in self.rising.get(device, {}).items()}
        yield " ".join(["b", *(f"h{place}=2" for place in rising)])
        for _slot, number, role, address, size, times, *load in (words for words in lines if words[0] == "slot"):
            if pod in self.late:
                yield f"{number}|late"
                continue
            said = [number]
            for place, (_role, test, _end, side, *argv) in enumerate((w for w in lines if w[0] == role), 1):
                port = str(18515 + int(number) % 1000 * 8 + place)
                filled = {"@a": [address], "@s": [size], "@i": [times], "@p": [port], "@l": load}
                words = [each for word in argv for each in filled.get(word, [word])]
                name = words[3] if words[0] == "taskset" else words[0]
                program = "serve" if side == "server" else name
                left = self._answer(pod, program, words, 0.0)
                for _again in range(TRIES if side == "client" else 0):
                    left = self._answer(pod, program, words, 0.0) if may_come_up(left) else left
                told = brief(left, test, side)
                if told is None:
                    yield from (f"o|{number}|{test}|{line}" for line in left.text.splitlines())
                rises = [f"h{at}+{by}" for at, by in rising.items()] if test not in "pr" else []
                if side == "client" or left.status or told or rises:
                    said.append(" ".join([f"{test}{left.status}", "13", *(told or []), *rises]))
            yield "|".join(said)

    def programs(self) -> list[str]:
        """Return what was run, in order."""
        return [f"{pod.rpartition('/')[2]} {program}" for pod, program, _words, _limit in self.calls]


USUAL = {
    "begin": "begun\n",
    "ping": PASSED_PING,
    "rping": PASSED_RPING,
    "ib_write_bw": table(),
    "ib_write_lat": latency_table(),
}


def brief(left: Output, test: str, side: str) -> list[str] | None:
    """Return the numbers of a program that went well, as the script of the pods does; None for what says more."""
    if left.status != 0 or "mismatch" in left.text or "alidat" in left.text:
        return None
    found: list[str] = []
    for words in (line.split() for line in left.stdout.splitlines()):
        if words[:2] == ["CUDA", "device"]:
            found.append(f"gpu={words[-1]}")
        elif side == "client" and words[1:2] == ["packets"]:
            found += [words[0], words[3]]
        elif side == "client" and words[:1] == ["rtt"]:
            found.append(words[3].split("/")[1])
        elif side == "client" and len(words) > 1 and words[0][0].isdigit() and words[1][0].isdigit():
            found += words
    return found if found or test == "r" or side == "server" else None


def meet(shell: MemoryPods, one: Side, other: Side, settings: Settings | None = None) -> list[dict[str, Any]]:
    """Let two pods meet in a slot, if they may, and return what came of each test."""
    given, said = settings or Settings(), dict[str, Any]()
    for side, partner in ((one, other), (other, one)):
        said[side.node] = {}
        if may_meet(one, other, given):
            text = campaign.table(side, [campaign.Slot(0, partner)], given, wait=0.0)
            shell.run(side.pod, scripts.begin("t"), 30.0, text)
    for side in (one, other) if may_meet(one, other, given) else ():
        found = campaign.read_words(shell.run(side.pod, scripts.collect("t", 30), 60.0).stdout)
        said[side.node] = found.slots.get(0, {})
    return judge_pair(one, other, said, given, 0)


ADDRESSES = {"a": "192.168.111.1", "b": "192.168.111.2"}


def memory_pods(**probes: str) -> MemoryPods:
    """Return pods a and b; ``probes`` replace what the probe prints in one of them."""
    answers: dict[tuple[str, str], list[Answer]] = {}
    for node, address in ADDRESSES.items():
        answers[(f"ns/{node}", "probe")] = [Output(0, probes.get(node, probe_text(address)), "")]
    return MemoryPods(answers)


def sides(shell: MemoryPods, mtu: int | None = None, **states: PodState) -> list[Side]:
    """Look into pods a and b, on the nodes a and b."""
    return sides_of(shell, states, mtu=mtu)


def sides_of(
    shell: MemoryPods,
    states: Mapping[str, PodState],
    *,
    mtu: int | None = None,
    known: Known = UNKNOWN,
    gpu: bool = False,
) -> list[Side]:
    """Look into pods a and b, which may have a GPU; facts of both hosts say ``known`` of the device."""
    found = []
    for node, address in ADDRESSES.items():
        state = states.get(node, PodState(f"ns/{node}", network_status(address)))
        found.append(examine(shell, node, state, network=NETWORK, mtu=mtu, limits=lambda _choice: known, gpu=gpu))
    return found
