# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's container images hold programs that run: each is unpacked and started in a changed root, without guests."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import subprocess
import tarfile
import time
from pathlib import Path
from typing import Callable, Iterator

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.components.whereabouts import START
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import objects_of, render
from ansible_collections.rdma.fabric.tests.lab.elf import is_elf, needs
from ansible_collections.rdma.fabric.tests.lab.image_set import APPLETS, UPSTREAM
from ansible_collections.rdma.fabric.tests.lab.images import DEFAULT_PATH
from ansible_collections.rdma.fabric.tests.lab.node_bundle import gather_bundle
from ansible_collections.rdma.fabric.tests.lab.node_programs import CNI_PLUGINS
from ansible_collections.rdma.fabric.tests.lab.programs import KUBERNETES_VERSION, to_standard_error
from ansible_collections.rdma.fabric.tests.unit._fabric.specs import spec_of

SECONDS = 30.0
ACCOUNT = "var/run/secrets/kubernetes.io/serviceaccount"
IN_CLUSTER = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443", "WHEREABOUTS_NAMESPACE": "nnn"}
Unpack = Callable[[str], Path]
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(scope="session")
def bundle(capable: None) -> Path:
    return gather_bundle(os.environ, to_standard_error)


@pytest.fixture
def unpack(bundle: Path, tmp_path: Path) -> Unpack:
    """Unpack an image's layer into a directory of this test."""

    def unpacked(name: str) -> Path:
        root = tmp_path / name
        root.mkdir()
        with tarfile.open(bundle / "images" / f"{name}.tar") as archive:
            manifest = archive.extractfile("manifest.json")
            assert manifest is not None
            layer = archive.extractfile(json.load(manifest)[0]["Layers"][0])
            assert layer is not None
            subprocess.run(["tar", "-x", "-C", str(root)], input=layer.read(), check=True)
        (root / "dev" / "null").touch()
        return root

    return unpacked


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a program in a changed root; it ends with the test."""
    running: list[subprocess.Popen[str]] = []

    def started(root: Path, *argv: str, **environ: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            ["chroot", str(root), *argv],
            env={"PATH": DEFAULT_PATH, **environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        running.append(process)
        return process

    yield started
    for process in running:
        try:
            os.killpg(process.pid, 9)
        except ProcessLookupError:
            process.poll()
        process.communicate()


def run(start: Start, root: Path, *argv: str, **environ: str) -> tuple[int, str]:
    process = start(root, *argv, **environ)
    output = process.communicate(timeout=SECONDS)[0]
    return process.returncode, output


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def test_kubelet_and_plugins_of_the_host_run(bundle: Path) -> None:
    kubelet = subprocess.run([bundle / "bin" / "kubelet", "--version"], check=True, capture_output=True, text=True)
    assert kubelet.stdout == f"Kubernetes v{KUBERNETES_VERSION}\n"
    for plugin in (bundle / "cni").iterdir():
        environ = {"CNI_COMMAND": "VERSION"}
        answer = subprocess.run(
            [plugin], check=True, capture_output=True, env=environ, input=b'{"cniVersion": "1.0.0"}'
        )
        assert "1.0.0" in json.loads(answer.stdout)["supportedVersions"]


@pytest.mark.parametrize(
    ("image", "argv", "says"),
    [
        ("multus", "/thin_entrypoint --help", "--cleanup-config-on-exit"),
        ("multus", "/usr/src/multus-cni/bin/multus --version", "version:v4.2.3"),
        ("rdma-shared-device-plugin", "/bin/k8s-rdma-shared-dp -version", "version:v1.5.3"),
        ("node-feature-discovery", "nfd-master -version", "nfd-master v0.17.3"),
        ("node-feature-discovery", "nfd-worker -version", "nfd-worker v0.17.3"),
        ("node-feature-discovery", "nfd-gc -version", "nfd-gc v0.17.3"),
        ("rping-test", "ib_write_bw --version", "Version: "),
        ("rping-test", "ib_send_lat --help", "--rdma_cm"),
        ("rping-test", "rping -h", "rping -c"),
        ("rping-test", "ibv_devinfo -h", "--ib-dev"),
        ("rping-test", "ip -V", "ip utility, iproute2"),
        ("rping-test", "rdma -V", "rdma utility, iproute2"),
        ("rping-test", "ping -V", "ping from iputils"),
        ("rping-test", "bash --version", "GNU bash"),
        ("rping-test", r"sh -c echo\ $((6*7))", "42"),
    ],
)
def test_programs_start(unpack: Unpack, start: Start, image: str, argv: str, says: str) -> None:
    _status, output = run(start, unpack(image), *shlex.split(argv))
    assert says in output


@pytest.mark.parametrize("image", ["pause", "multus", "node-feature-discovery", "rdma-shared-device-plugin"])
def test_images_without_libraries_hold_static_programs(unpack: Unpack, image: str) -> None:
    programs = [path for path in unpack(image).rglob("*") if path.is_file() and not path.is_symlink()]
    linked = {path.name: needs(path.read_bytes()) for path in programs if is_elf(path.read_bytes()[:4])}
    assert linked
    assert all(need.loader == "" and need.libraries == () for need in linked.values()), linked


def test_every_name_of_busybox_is_one_of_its_programs(unpack: Unpack, start: Start) -> None:
    _status, output = run(start, unpack("rping-test"), "busybox", "--list")
    assert set(APPLETS) <= set(output.split())


def test_pause_collects_orphans_and_ends_when_it_is_asked_to(unpack: Unpack) -> None:
    script = 'sleep 0.5 & sleep 3 & exec chroot "$0" /pause'
    process = subprocess.Popen(["sh", "-c", script, str(unpack("pause"))])
    try:
        # The longer one outlives the program's start by far: with both gone it listens to signals.
        until(lambda: not children(process.pid), "ended children are collected")
        process.terminate()
        assert process.wait(SECONDS) == 0
    finally:
        process.kill()
        process.wait()


def children(pid: int) -> list[str]:
    """Give the processes whose parent is ``pid``, ended ones too, once it has become pause."""
    if Path(f"/proc/{pid}/comm").read_text() != "pause\n":
        return ["not yet known"]
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


@pytest.mark.parametrize(
    ("image", "entrypoint", "reference"),
    [
        ("cni-plugins", "/install_plugins.sh", {}),
        ("cni-plugins-upstream", "/entrypoint.sh", {"repository": UPSTREAM, "version": "v1.5.0"}),
    ],
)
def test_the_plugins_image_puts_every_plugin_in_its_place_at_once_and_stays(
    unpack: Unpack, start: Start, image: str, entrypoint: str, reference: dict[str, str]
) -> None:
    """As the manifest starts it: upstream's image writes over programs that may run."""
    root = unpack(image)
    folder = root / "host/opt/cni/bin"
    folder.mkdir(parents=True)
    (folder / "ptp").write_text("an older one")
    objects = objects_of(render(spec_of({"secondaryNetwork": {"cniPlugins": reference}})))
    (body,) = (each for each in objects if each["metadata"]["name"] == "cni-plugins-ds")
    (container,) = body["spec"]["template"]["spec"]["containers"]
    with (folder / "ptp").open() as running:
        process = start(root, *container.get("command", [entrypoint]))
        until(lambda: sleeps(process.pid), "all is copied")
        assert running.read() == "an older one"
    assert {path.name for path in folder.iterdir()} == set(CNI_PLUGINS.packages)
    assert (folder / "ptp").read_bytes() == (root / "usr/src/cni/bin/ptp").read_bytes()
    assert os.access(folder / "macvlan", os.X_OK)
    assert process.poll() is None
    process.terminate()
    assert process.wait(SECONDS) == 0


def sleeps(pid: int) -> bool:
    """Tell whether a shell waits for a program that sleeps."""
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if Path(f"/proc/{child}/comm").read_text() == "sleep\n":
                return True
    return False


def test_multus_is_installed_with_its_passthru(unpack: Unpack, start: Start) -> None:
    root = unpack("multus")
    (root / "host/opt/cni/bin").mkdir(parents=True)
    status, output = run(start, root, "/install_multus", "--type", "thin")
    assert status == 0, output
    assert {path.name for path in (root / "host/opt/cni/bin").iterdir()} == {"multus", "passthru"}


def test_whereabouts_is_installed_and_its_token_renewed_as_the_manifest_starts_it(unpack: Unpack, start: Start) -> None:
    root = unpack("whereabouts")
    for folder in ("host/opt/cni/bin", "host/etc/cni/net.d"):
        (root / folder).mkdir(parents=True)
    account = root / ACCOUNT.replace("var/run", "run")
    account.mkdir(parents=True)
    (account / "token").write_text("first-token")
    (account / "ca.crt").write_text("a certificate\n")
    program, files = root / "host/opt/cni/bin/whereabouts", root / "host/etc/cni/net.d/whereabouts.d"
    files.mkdir()
    replaced = [program, files / "whereabouts.conf", files / "whereabouts.kubeconfig"]
    for path in replaced:
        path.write_text("an older one")
    in_use = [path.open() for path in replaced]
    environ = {**IN_CLUSTER, "TOKEN_CHECK_SECONDS": "0.1", "CONTROL_LOOP": "/whereabouts-control-loop"}
    (root / "whereabouts-control-loop").write_text("#!/bin/sh\necho started $*\nexec sleep infinity\n")
    (root / "whereabouts-control-loop").chmod(0o755)
    process = start(root, "/bin/sh", "-c", START, **environ)
    assert process.stdout is not None
    assert process.stdout.readline() == "Done configuring CNI.  Sleep=false\n"
    assert process.stdout.readline() == "started -log-level verbose\n"
    # Each took the place of the older one at once: a pod may just be set up with that.
    assert [stream.read() for stream in in_use] == ["an older one"] * len(replaced)
    assert os.access(program, os.X_OK)
    assert program.read_bytes() == (root / "whereabouts").read_bytes()
    kubeconfig = files / "whereabouts.kubeconfig"
    settings = json.loads((files / "whereabouts.conf").read_text())
    assert settings["kubernetes"]["kubeconfig"] == "/etc/cni/net.d/whereabouts.d/whereabouts.kubeconfig"
    assert {path.name for path in files.iterdir()} == {path.name for path in replaced[1:]}
    first = kubeconfig.read_text()
    assert 'token: "first-token"' in first
    assert "server: https://10.96.0.1:443" in first
    (account / "token").write_text("second-token")
    until(lambda: "second-token" in kubeconfig.read_text(), "the token is renewed")
    assert kubeconfig.read_text() == first.replace("first-token", "second-token")
    assert kubeconfig.stat().st_mode & 0o077 == 0


def test_the_sriov_plugin_reads_its_configuration_as_the_manifest_starts_it(unpack: Unpack, start: Start) -> None:
    root = unpack("sriov-network-device-plugin")
    _status, output = run(start, root, "/entrypoint.sh", "--log-dir=sriovdp", "--log-level=10")
    assert "/etc/pcidp/config.json: no such file or directory" in output
    assert (root / "var/log/sriovdp").is_dir()


def test_the_shared_plugin_reads_its_configuration_where_the_manifest_mounts_it(unpack: Unpack, start: Start) -> None:
    _status, output = run(start, unpack("rdma-shared-device-plugin"), "/bin/k8s-rdma-shared-dp")
    assert "/k8s-rdma-shared-dev-plugin/config.json: no such file or directory" in output
