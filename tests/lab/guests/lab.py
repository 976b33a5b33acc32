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
from ..pki import Authority
from ..process import tail
from ..programs import Programs, gather
from .boot import choose_accelerator
from .budget import SECONDS_PER_GUEST, Budget
from .cluster import ready_nodes
from .identity import LONGEST_SOCKET, guest_files, link_to, longest_control_path, write_config_disk, write_reach
from .image import gather_image, require_space
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
from .node_disk import gather_node_disk
from .node_identity import node_files, write_access, write_control_plane
from .qemu import Disks, Image, Machine, guest_argv, qemu_environment
from .reach import STATE, LabNotUp, holder, read_state
from .recipe import GIB
from .requirements import look, missing
from .speed import measure_slowness
from .standins import standin_lines
from .topology import FLAT
from .waiting import LabFailed, Watch, ended_programs, wait_for_guests, wait_for_nodes

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


class Cluster(NamedTuple):
    """What the cluster of a lab is started from: programs, images, the nodes' disk, the authority and the way in.

    ``images``: the directory of the archives that the registry serves; ``entrance``: the listening socket, in the
    starter's network namespace, that leads to the API server.
    """

    programs: Programs
    images: Path
    node_disk: Path
    authority: Authority
    entrance: socket.socket

    @property
    def port(self) -> int:
        """The port of the entrance on loopback."""
        port: int = self.entrance.getsockname()[1]
        return port


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
    guests = plan_guests(str(directory), options.guests, options.rails)
    started = time.monotonic()
    if len(longest_control_path(directory, guests)) > LONGEST_SOCKET:
        raise InvalidLayout(f"the path {directory} is too long for the lab's sockets; choose a shorter one (--dir)")
    if _usable(directory):
        _require_same(read_state(directory), options)
        report(f"the lab in {directory} is up already")
        return
    # A lab whose starter was killed is still ending: this one waits for it.
    with held(directory, STOP_SECONDS) as lock:
        write_json(directory / STATE, {**identity_of(os.getpid()), "phase": "preparing", "guests": []})
        image = gather_image(environ, report)
        cluster = _gather_cluster(image, environ, report) if options.cluster else None
        require_space(directory, options.guests * BYTES_PER_GUEST, "the lab", "Free some, or choose another --dir.")
        remembered = cache_root(environ) / "guests" / "kvm.json"
        accelerator = choose_accelerator(image, remembered, report)
        _prepare(options, guests, image, accelerator, cluster)
        slowness = 1.0 if accelerator == "kvm" else measure_slowness(image, environ, report)
        seconds = options.start_seconds or SECONDS_PER_GUEST * options.guests
        report(f"booting {options.guests} guests with {accelerator} in {directory}")
        _boot(guests, lock, cluster, Watch(directory, report, Budget(seconds, slowness)))
    report(f"ready after {time.monotonic() - started:.0f} s: {', '.join(guest.name for guest in guests)}")
    if cluster:
        report(f"cluster: export KUBECONFIG={directory / KUBECONFIG}")
        for line in standin_lines():
            report(line)


def _gather_cluster(image: Image, environ: Mapping[str, str], report: Report) -> Cluster:
    """Find or build what the cluster needs, and open the way into it."""
    programs = gather(environ, report)
    bundle = gather_bundle(environ, report)
    node_disk = gather_node_disk(bundle, image, environ, report)
    return Cluster(programs, bundle / "images", node_disk, Authority(), socket.create_server(("127.0.0.1", 0)))


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


def _prepare(
    options: Options, guests: Sequence[Guest], image: Image, accelerator: str, cluster: Cluster | None
) -> None:
    """Write everything the keeper and the user's programs read."""
    directory = options.directory
    end_connections(directory)  # to a lab that was killed
    for name in ("run", "log", CLUSTER):
        shutil.rmtree(directory / name, ignore_errors=True)
    for name in ("run", "log"):
        (directory / name).mkdir(mode=0o700)
    if cluster:
        write_control_plane(directory / CLUSTER, cluster.authority, cluster.programs)
        write_access(directory / KUBECONFIG, cluster.authority, cluster.port)
    keys = write_reach(directory, guests, directory / KUBECONFIG if cluster else None)
    if cluster:
        link_to(POLICY, directory / POLICY.name)
    if directory == DEFAULT_DIRECTORY:
        for name in LINKED:
            link_to(directory / name, LABS / name)
    programs = _cluster_programs(directory, cluster) if cluster else []
    node_disk = cluster.node_disk if cluster else None
    for guest in guests:
        scratch, disk = directory / "run" / guest.name, f"run/{guest.name}.img"
        files = guest_files(guest, guests, keys)
        if cluster:
            files.update(node_files(guest, guests, cluster.authority))
        write_config_disk(files, scratch, directory / disk)
        shutil.rmtree(scratch)
        machine = Machine(accelerator, options.topology)
        argv = guest_argv(image, guest, len(guests), machine, Disks(disk, node_disk))
        environment = qemu_environment(image.qemu, directory / "run")
        programs.append(Program(guest.name, argv, f"{guest.name}.qemu.log", directory, environment))
    shown = {
        "accelerator": accelerator,
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


def _cluster_programs(directory: Path, cluster: Cluster) -> list[Program]:
    """Give the programs beside the guests: the control plane, the way to it from outside, and the registry."""
    server = [sys.executable, "-m", "tests.lab.guests.cluster_server", str(directory / CLUSTER)]
    descriptor = cluster.entrance.fileno()
    forwarder = [sys.executable, "-I", "-S", str(FORWARDER), str(descriptor), MANAGEMENT_HOST, str(API_PORT)]
    registry = [sys.executable, "-m", "tests.lab.registry", "--images", str(cluster.images)]
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
        "kubectl": str(cluster.programs.kubectl),
        "server": f"https://127.0.0.1:{cluster.port}",
    }


def _boot(guests: Sequence[Guest], lock: int, cluster: Cluster | None, watch: Watch) -> None:
    """Start the keeper, wait for the lab, and leave it alone; otherwise it ends with everything it holds."""
    directory = watch.directory
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
            raise LabFailed(f"the lab ended as it became ready:\n{tail(directory / 'log' / 'keeper.log')}")
        time.sleep(POLL_SECONDS / 10)


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
