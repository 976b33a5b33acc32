# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start, stop and look at a lab of booted guests."""

from __future__ import annotations

import contextlib
import fcntl
import http.client
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Iterator, Mapping, NamedTuple, Sequence

from ..api import Api, ApiError
from ..gobuild import Report, cache_root
from ..node_bundle import gather_bundle
from ..pki import Authority, KeyPair
from ..process import tail
from ..programs import Programs, gather
from .boot import choose_accelerator
from .budget import SECONDS_PER_GUEST, SECONDS_PER_RESTORED, Budget
from .cluster import ready_nodes
from .cluster_server import AUTHORITY
from .identity import LONGEST_SOCKET, Keys, guest_files, link_to, longest_control_path, write_config_disk, write_reach
from .image import NoSpace, gather_image, require_space
from .keeper import DETACH, Program, end_connections, identity_of, write_json
from .layout import (
    API_PORT,
    MANAGEMENT_HOST,
    MANAGEMENT_PREFIX,
    REGISTRY_PORT,
    Guest,
    InvalidLayout,
    plan_guests,
    pod_subnet,
    tap_name,
)
from .monitor import MonitorRefused
from .node_disk import gather_node_disk
from .node_identity import node_files, write_access, write_control_plane
from .overlay import empty_overlay
from .qemu import NODE, ROOT, Image, Machine, config_disk, guest_argv, overlay_file, qemu_environment
from .reach import STATE, LabNotUp, holder, read_state
from .recipe import GIB
from .requirements import look, missing
from .saved import SWITCH, Made, copy, memory_file, own_files, place_of, save, usable
from .speed import measure_slowness
from .standins import standin_lines
from .topology import FLAT
from .waiting import (
    SET_CLOCK,
    KeeperEnded,
    LabFailed,
    Watch,
    ended_programs,
    on_guests,
    wait_for_guests,
    wait_for_nodes,
)

CHECKOUT = Path(__file__).resolve().parents[3]
LABS = CHECKOUT / "build" / "lab"
DEFAULT_DIRECTORY = LABS / "default"
POLICY = CHECKOUT / "inventories" / "lab" / "group_vars"  # what the guests and their cluster are to be like
LINKED = ("inventory.yml", POLICY.name)  # from the default lab's directory
BYTES_PER_GUEST = GIB  # room for what a guest writes
STOP_SECONDS = 30.0
KILL_SECONDS = 15.0
POLL_SECONDS = 1.0
CLUSTER = "cluster"  # the control plane's directory
KUBECONFIG = "kubeconfig"
FORWARDER = Path(__file__).with_name("forward.py")


class Options(NamedTuple):
    """How a lab is started: its directory, guests, rails, how long it lives, and the process it must not outlive.

    ``start_seconds``: what its start may take on an idle machine, None for what its guests usually may; ``cluster``:
    whether its guests are made nodes of a Kubernetes cluster; ``topology``: one of ``TOPOLOGIES``.
    """

    directory: Path
    guests: int = 2
    rails: int = 1
    seconds: int = 7200
    start_seconds: int | None = None
    owner: int | None = None
    cluster: bool = True
    topology: str = FLAT


class Parts(NamedTuple):
    """What a cluster is made of: programs, the directory of the archives that its registry serves, the nodes' disk."""

    programs: Programs
    images: Path
    node_disk: Path


class Cluster(NamedTuple):
    """The cluster of a lab: what it is made of, its authority and the way in.

    ``entrance``: the listening socket, in the starter's network namespace, that leads to the API server.
    """

    parts: Parts
    authority: Authority
    entrance: socket.socket

    @property
    def port(self) -> int:
        """The port of the entrance on loopback."""
        port: int = self.entrance.getsockname()[1]
        return port


class Making(NamedTuple):
    """How the guests of a lab are made: their image, how they run, and what makes a cluster of them, if anything."""

    guests: Sequence[Guest]
    image: Image
    machine: Machine
    parts: Parts | None

    @property
    def disks(self) -> dict[str, Path]:
        """The disks that all guests read."""
        return {ROOT: self.image.disk, **({NODE: self.parts.node_disk} if self.parts else {})}

    def of(self, guest: Guest, keys: Keys, authority: Authority | None) -> Made:
        """Give how one guest is made with a lab's keys and the authority of its cluster, if it has one."""
        files = guest_files(guest, self.guests, keys)
        files.update(node_files(guest, self.guests, authority) if authority else {})
        return Made(guest_argv(self.image, guest, len(self.guests), self.machine, node=bool(authority)), files)

    def place(self, cache: Path) -> Path:
        """Give where such guests are kept."""
        nobodys = Keys("", {guest.name: ("", "") for guest in self.guests})
        authority = Authority() if self.parts else None
        made = [self.of(guest, nobodys, authority) for guest in self.guests]
        return place_of(cache, list(self.disks.values()), made)


@contextlib.contextmanager
def held(directory: Path, wait: float) -> Iterator[int]:
    """Hold the lab's lock; give its descriptor, which the keeper inherits. Raises ``LabFailed`` when it is taken.

    The lock is held from the beginning of `up` to the end of the keeper, whatever ends that: it tells whether a lab is
    up without looking at processes.
    """
    directory.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + wait
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() >= deadline:
                    raise LabFailed(f"the lab in {directory} is in use; `make lab-down` stops it") from error
                time.sleep(POLL_SECONDS / 4)
        yield descriptor
    finally:
        os.close(descriptor)


def is_held(directory: Path) -> bool:
    """Tell whether a lab is up in the directory, or being started or stopped."""
    try:
        with (directory / "lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def up(options: Options, environ: Mapping[str, str], report: Report) -> None:
    """Start a lab and wait until its guests can be used. Raises ``LabFailed`` and its like, nothing left running."""
    flaws = missing(look())
    if flaws:
        raise LabFailed("\n".join(flaws))
    directory = options.directory
    guests = plan_guests(options.guests, options.rails)
    started = time.monotonic()
    if len(longest_control_path(directory, guests)) > LONGEST_SOCKET:
        raise InvalidLayout(f"the path {directory} is too long for the lab's sockets; choose a shorter one (--dir)")
    if _usable(directory):
        _require_same(read_state(directory), options)
        report(f"the lab in {directory} is up already")
        return
    # A lab whose starter was killed is still ending: this one waits for it.
    with held(directory, STOP_SECONDS) as lock:
        _tell_preparing(directory)
        image = gather_image(environ, report)
        parts = _gather_parts(image, environ, report) if options.cluster else None
        require_space(directory, options.guests * BYTES_PER_GUEST, "the lab", "Free some, or choose another --dir.")
        cache = cache_root(environ) / "guests"
        accelerator = choose_accelerator(image, cache / "kvm.json", report)
        making = Making(guests, image, Machine(accelerator, options.topology), parts)
        slowness = 1.0 if accelerator == "kvm" else measure_slowness(image, environ, report)
        # What KVM runs is not moved from one kernel of this machine to the next, and boots in no time.
        place = None if accelerator == "kvm" or environ.get(SWITCH) == "no" else making.place(cache)
        budget = Budget(SECONDS_PER_RESTORED * options.guests, slowness)
        watch = Watch(directory, report, budget, restored=True)
        if not (place and _restore(options, making, lock, watch, place)):
            seconds = options.start_seconds or SECONDS_PER_GUEST * options.guests
            report(f"booting {options.guests} guests with {accelerator} in {directory}")
            _start(options, making, lock, Watch(directory, report, Budget(seconds, slowness)), place)
    report(f"ready after {time.monotonic() - started:.0f} s: {', '.join(guest.name for guest in guests)}")
    if parts:
        report(f"cluster: export KUBECONFIG={directory / KUBECONFIG}")
        for line in standin_lines():
            report(line)


def _gather_parts(image: Image, environ: Mapping[str, str], report: Report) -> Parts:
    """Find or build what a cluster is made of."""
    programs = gather(environ, report)
    bundle = gather_bundle(environ, report)
    return Parts(programs, bundle / "images", gather_node_disk(bundle, image, environ, report))


def _restore(options: Options, making: Making, lock: int, watch: Watch, place: Path) -> bool:
    """Start a lab from what is kept of its like, which is removed where that fails; tell whether the lab is up."""
    if not usable(place):
        return False
    watch.report(f"restoring {options.guests} guests in {options.directory} ({SWITCH}=no boots them)")
    try:
        _start(options, making, lock, watch, place)
    except KeeperEnded:
        raise
    except (LabFailed, OSError, subprocess.CalledProcessError) as reason:
        watch.report(f"the guests cannot be restored, so they are booted: {reason}")
        shutil.rmtree(place, ignore_errors=True)
        _tell_preparing(options.directory)  # what has ended is not what will be waited for
        return False
    return True


def _tell_preparing(directory: Path) -> None:
    write_json(directory / STATE, {**identity_of(os.getpid()), "phase": "preparing", "guests": []})


def _start(options: Options, making: Making, lock: int, watch: Watch, place: Path | None) -> None:
    """Start a lab and wait for it; ``place``: what it is restored from or, once it has booted, kept in."""
    _clear(options.directory)
    if place and watch.restored:
        for path in own_files(making.guests, cluster=options.cluster):
            copy(place / path, options.directory / path)
    cluster = _open_cluster(options.directory, making.parts) if making.parts else None
    _prepare(options, making, cluster, place if watch.restored else None)
    _boot(making, lock, cluster, watch, place)


def _open_cluster(directory: Path, parts: Parts) -> Cluster:
    """Open the way into a cluster, whose authority is the one that its nodes were restored with, if they were."""
    pair = [directory / CLUSTER / name for name in AUTHORITY]
    known = KeyPair(*(path.read_bytes() for path in pair)) if pair[0].exists() else None
    return Cluster(parts, Authority(pair=known), socket.create_server(("127.0.0.1", 0)))


def _usable(directory: Path) -> bool:
    try:
        return read_state(directory).get("phase") == "ready" and holder(directory) > 0
    except LabNotUp:
        return False


def _require_same(state: Mapping[str, Any], options: Options) -> None:
    """Raise ``LabFailed`` unless the lab that is up is the one asked for, with all its guests."""
    running = len(state["guests"]), state["rails"], state["topology"]
    asked = options.guests, options.rails, options.topology
    if running != asked:
        is_up, is_not = (f"{guests} guests, {rails} rails, {topology}" for guests, rails, topology in (running, asked))
        raise LabFailed(
            f"the lab in {options.directory} is up with {is_up}, not with {is_not}; `make lab-down` stops it, or "
            "choose another --dir"
        )
    if options.cluster and not state.get("cluster"):
        raise LabFailed(
            f"the lab in {options.directory} is up without a cluster; `make lab-down` stops it, or choose another --dir"
        )
    if ended_programs(state):
        ended = ", ".join(ended_programs(state))
        raise LabFailed(f"{ended} of the lab in {options.directory} ended; `make lab-down` stops it")


def _clear(directory: Path) -> None:
    """Remove what an earlier lab in the directory has left there."""
    end_connections(directory)  # to a lab that was killed
    for name in ("run", "log", CLUSTER):
        shutil.rmtree(directory / name, ignore_errors=True)
    for name in ("run", "log"):
        (directory / name).mkdir(mode=0o700)


def _prepare(options: Options, making: Making, cluster: Cluster | None, place: Path | None) -> None:
    """Write everything the keeper and the user's programs read; ``place``: what the guests are restored from."""
    directory, guests = options.directory, making.guests
    if cluster:
        write_control_plane(directory / CLUSTER, cluster.authority, cluster.parts.programs)
        write_access(directory / KUBECONFIG, cluster.authority, cluster.port)
    keys = write_reach(directory, guests, directory / KUBECONFIG if cluster else None)
    if cluster:
        link_to(POLICY, directory / POLICY.name)
    if directory == DEFAULT_DIRECTORY:
        for name in LINKED:
            link_to(directory / name, LABS / name)
    programs = _cluster_programs(directory, cluster) if cluster else []
    environment = qemu_environment(making.image.qemu)
    for guest in guests:
        made = making.of(guest, keys, cluster.authority if cluster else None)
        argv = _prepare_guest(making, guest, made, directory, place)
        programs.append(Program(guest.name, argv, f"{guest.name}.qemu.log", directory, environment))
    shown = {
        "accelerator": making.machine.accelerator,
        "restored": place is not None,
        "rails": options.rails,
        "topology": options.topology,
        "guests": [{"name": guest.name, "address": guest.address} for guest in guests],
        "cluster": _shown(directory, cluster) if cluster else None,
    }
    plan = {
        "address": f"{MANAGEMENT_HOST}/{MANAGEMENT_PREFIX}",
        "taps": [tap_name(guest) for guest in guests],
        "routes": {pod_subnet(guest): guest.address for guest in guests} if cluster else {},
        "seconds": options.seconds,
        "owner": options.owner,
        "programs": [program._asdict() | {"cwd": str(program.cwd)} for program in programs],
        "shown": shown,
    }
    write_json(directory / "plan.json", plan)


def _prepare_guest(making: Making, guest: Guest, made: Made, directory: Path, place: Path | None) -> list[str]:
    """Write the disks of a guest; give the command that runs it."""
    for disk, shared in making.disks.items():
        below = place / overlay_file(guest, disk) if place else shared
        content = empty_overlay(below, "qcow2" if place else "raw", shared.stat().st_size)
        (directory / overlay_file(guest, disk)).write_bytes(content)
    if place:
        return [*made.argv, "-incoming", f"file:{memory_file(place, guest)}"]
    scratch = directory / "run" / guest.name
    write_config_disk(made.files, scratch, directory / config_disk(guest))
    shutil.rmtree(scratch)
    return made.argv


def _cluster_programs(directory: Path, cluster: Cluster) -> list[Program]:
    """Give the programs beside the guests: the control plane, the way to it from outside, and the registry."""
    server = [sys.executable, "-m", "tests.lab.guests.cluster_server", str(directory / CLUSTER)]
    descriptor = cluster.entrance.fileno()
    forwarder = [sys.executable, "-I", "-S", str(FORWARDER), str(descriptor), MANAGEMENT_HOST, str(API_PORT)]
    registry = [sys.executable, "-m", "tests.lab.registry", "--images", str(cluster.parts.images)]
    registry += ["--listen", f"{MANAGEMENT_HOST}:{REGISTRY_PORT}"]
    return [
        Program("control-plane", server, "control-plane.log", CHECKOUT, {}),
        Program("forwarder", forwarder, "forwarder.log", directory, {}, [descriptor]),
        Program("registry", registry, "registry.log", CHECKOUT, {}),
    ]


def _shown(directory: Path, cluster: Cluster) -> dict[str, str]:
    """Give what the lab's state says of its cluster."""
    return {
        "kubeconfig": str(directory / KUBECONFIG),
        "kubectl": str(cluster.parts.programs.kubectl),
        "server": f"https://127.0.0.1:{cluster.port}",
    }


def _boot(making: Making, lock: int, cluster: Cluster | None, watch: Watch, place: Path | None) -> None:
    """Start the keeper, wait for the lab, and leave it alone; otherwise it ends with everything it holds.

    ``place``: where guests that have booted are kept.
    """
    directory, guests = watch.directory, making.guests
    entrance = [cluster.entrance.fileno()] if cluster else []
    with (directory / "log" / "keeper.log").open("wb") as log:
        keeper = subprocess.Popen(
            [sys.executable, "-m", "tests.lab.guests.keeper", str(directory)],
            cwd=CHECKOUT,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a terminal's Ctrl-C ends the starter; the keeper follows in order
            pass_fds=(lock, *entrance),
        )
    if cluster:
        cluster.entrance.close()  # the forwarder's alone from now on
    if keeper.stdin is None:
        raise RuntimeError("the keeper's standard input was asked for")
    ready = False
    try:
        wait_for_guests(guests, keeper, watch)
        if cluster:
            wait_for_nodes(guests, Api.from_kubeconfig(directory / KUBECONFIG), keeper, watch)
        if place and not watch.restored:
            _keep(guests, place, watch, cluster=cluster is not None)
        keeper.stdin.write(DETACH)
        keeper.stdin.flush()
        ready = True
    finally:
        # Its end without a word ends the lab.
        with contextlib.suppress(BrokenPipeError):
            keeper.stdin.close()
        if not ready:
            with contextlib.suppress(subprocess.TimeoutExpired):
                keeper.wait(STOP_SECONDS)
            keeper.kill()
    deadline = time.monotonic() + STOP_SECONDS
    while not _usable(directory):
        if keeper.poll() is not None or time.monotonic() >= deadline:
            raise KeeperEnded(f"the lab ended as it became ready:\n{tail(directory / 'log' / 'keeper.log')}")
        time.sleep(POLL_SECONDS / 10)


def _keep(guests: Sequence[Guest], place: Path, watch: Watch, *, cluster: bool) -> None:
    """Keep the guests as they are, for later labs; this one is as good without."""
    try:
        save(watch.directory, guests, place, watch.report, cluster=cluster)
    except (MonitorRefused, NoSpace, OSError, subprocess.CalledProcessError) as reason:
        watch.report(f"the hosts cannot be kept as they are: {reason}")
    on_guests(guests, SET_CLOCK, watch)


def down(directory: Path, report: Report) -> None:
    """Stop a lab and everything of it; a lab that is not up is no error."""
    if not is_held(directory):
        if directory.is_dir():
            _sweep(directory)
        report(f"no lab is up in {directory}")
        return
    for number, seconds in ((signal.SIGTERM, STOP_SECONDS), (signal.SIGKILL, KILL_SECONDS)):
        with contextlib.suppress(LabNotUp, ProcessLookupError):
            os.kill(holder(directory), number)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if not is_held(directory):
                _sweep(directory)
                report(f"the lab in {directory} is down")
                return
            time.sleep(POLL_SECONDS / 4)
    raise LabFailed(f"the lab in {directory} is still held by a process (`fuser {directory / 'lock'}` names it)")


def _sweep(directory: Path) -> None:
    """Remove what a lab needs only while it is up; logs and keys stay."""
    end_connections(directory)
    for name in ("run", f"{CLUSTER}/run"):
        shutil.rmtree(directory / name, ignore_errors=True)
    (directory / KUBECONFIG).unlink(missing_ok=True)
    if directory == DEFAULT_DIRECTORY:
        for name in LINKED:
            (LABS / name).unlink(missing_ok=True)


def status(directory: Path) -> tuple[list[str], bool]:
    """Describe a lab, a line each, and tell whether it can be used."""
    try:
        state = read_state(directory)
    except LabNotUp as error:
        return [str(error)], False
    if not is_held(directory):
        unsaid = "it was not started to the end" if state["phase"] == "preparing" else "it was killed"
        reason = state.get("reason") or unsaid
        return [f"no lab is up in {directory}; the last one ended: {reason}"], False
    lines, usable = describe(state, directory, time.time()), state["phase"] == "ready" and not ended_programs(state)
    if state.get("cluster") and usable:
        nodes, ready = describe_nodes(state)
        return [*lines, *nodes], ready
    return lines, usable


def describe_nodes(state: Mapping[str, Any]) -> tuple[list[str], bool]:
    """Describe a running lab's cluster, a line each, and tell whether all guests are Ready nodes."""
    kubeconfig = Path(state["cluster"]["kubeconfig"])
    try:
        nodes = ready_nodes(Api.from_kubeconfig(kubeconfig))
    except (OSError, ApiError, http.client.HTTPException) as error:
        return [f"the cluster does not answer: {error}"], False
    conditions = {guest["name"]: nodes.get(guest["name"]) for guest in state["guests"]}
    words = {True: "Ready", False: "not Ready", None: "not registered"}
    lines = [f"node {name}: {words[ready]}" for name, ready in conditions.items()]
    lines += [f"export KUBECONFIG={kubeconfig}", f"kubectl: {state['cluster']['kubectl']}", *standin_lines()]
    return lines, all(conditions.values())


def describe(state: Mapping[str, Any], directory: Path, now: float) -> list[str]:
    """Describe a running lab's state, a line each."""
    lines = [f"lab in {directory}: {state['phase']}"]
    if "ends" in state:
        minutes = max(0.0, state["ends"] - now) / 60
        lines[0] += f", {state['accelerator']}, {state['rails']} rails, ends in {minutes:.0f} min"
    for guest in state["guests"]:
        code = state.get("ended", {}).get(guest["name"])
        condition = "running" if code is None else f"ended with status {code}"
        lines.append(
            f"{guest['name']} {guest['address']} {condition}, console: {directory}/log/{guest['name']}.console"
        )
    for name in ended_programs(state):
        if name not in {guest["name"] for guest in state["guests"]}:
            lines.append(f"{name} ended with status {state['ended'][name]}, log: {directory}/log/{name}.log")
    return lines
