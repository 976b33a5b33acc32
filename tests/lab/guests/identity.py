# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files that make a guest that guest, and those by which the host reaches it: keys, ssh, inventory."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, Mapping, NamedTuple, Sequence

from .layout import MANAGEMENT_HOST, MANAGEMENT_PREFIX, RAIL_PREFIX, Guest
from .recipe import FILES

CONFIG_DISK_SIZE = "8M"
CONFIG_DISK_LABEL = "rdma-lab"  # lab-identity.service mounts it
REACH = Path(__file__).with_name("reach.py")
# OpenSSH binds ControlPath with a suffix of 17 characters first; a unix socket's path has at most 107 bytes.
LONGEST_SOCKET = 107 - 17


class Keys(NamedTuple):
    """SSH keys of a lab, as text: the user's public key, and the host keys by guest name (private, public)."""

    user_public: str
    hosts: Mapping[str, tuple[str, str]]


def guest_files(guest: Guest, guests: Sequence[Guest], keys: Keys) -> dict[str, str]:
    """Give the contents of a guest's configuration disk: path below its root -> text."""
    private, public = keys.hosts[guest.name]
    hosts = "".join(f"{each.address} {each.name}\n" for each in guests)
    files = {
        "guest.sh": (FILES / "guest.sh").read_text(encoding="utf-8"),
        "etc/hostname": f"{guest.name}\n",
        "etc/hosts": f"127.0.0.1 localhost\n{hosts}",
        "etc/ssh/ssh_host_ed25519_key": private,
        "etc/ssh/ssh_host_ed25519_key.pub": public,
        "etc/ssh/sshd_config.d/rdma-lab.conf": "AuthorizedKeysFile /etc/rdma-lab/authorized_keys\nUseDNS no\n",
        "etc/rdma-lab/authorized_keys": keys.user_public,
        "etc/rdma-lab/rails": "".join(f"{port.mac}\n" for port in guest.ports),
        "etc/systemd/network/20-mgmt.network": (
            f"[Match]\nName=mgmt0\n\n[Network]\nAddress={guest.address}/{MANAGEMENT_PREFIX}\nGateway={MANAGEMENT_HOST}\n"
        ),
    }
    for port in guest.ports:
        # Making virtual functions takes the card's link away for a moment: its address stays all the same.
        files[f"etc/systemd/network/30-rail{port.rail}.network"] = (
            f"[Match]\nPermanentMACAddress={port.mac}\n\n"
            f"[Network]\nAddress={port.address}/{RAIL_PREFIX}\nConfigureWithoutCarrier=yes\n"
        )
    return files


def ssh_config(directory: Path, guests: Sequence[Guest]) -> str:
    """Give an ssh configuration that reaches the guests by name or address, apart from the user's own."""
    reach = [sys.executable, "-I", "-S", str(REACH), str(directory)]
    blocks = [f"Host {guest.name} {guest.address}\n    HostName {guest.address}\n" for guest in guests]
    common = {
        "User": "root",
        "IdentityFile": _quoted(directory / "id_ed25519"),
        "IdentitiesOnly": "yes",
        "UserKnownHostsFile": _quoted(directory / "known_hosts"),
        "GlobalKnownHostsFile": "/dev/null",
        "StrictHostKeyChecking": "yes",
        "ProxyCommand": f"{shlex.join(reach).replace('%', '%%')} %h %p",
        "ProxyUseFdpass": "yes",
        "ControlMaster": "auto",
        "ControlPersist": "1800",
        "ControlPath": _quoted(directory / "run" / "ssh-", "%h"),
        "ServerAliveInterval": "15",
        "LogLevel": "ERROR",
    }
    lines = "".join(f"    {name} {value}\n" for name, value in common.items())
    return "".join([*blocks, f"Host *\n{lines}"])


def _quoted(path: Path, token: str = "") -> str:
    # ssh expands % in its paths; quotes keep blanks.
    return f'"{str(path).replace("%", "%%")}{token}"'


def longest_control_path(directory: Path, guests: Sequence[Guest]) -> str:
    """Give the longest path among the control sockets of ``ssh_config``."""
    return max((str(directory / "run" / f"ssh-{guest.address}") for guest in guests), key=len)


def known_hosts(guests: Sequence[Guest], keys: Keys) -> str:
    """Give the guests' host keys in the form of a known_hosts file."""
    return "".join(f"{guest.name},{guest.address} {keys.hosts[guest.name][1]}" for guest in guests)


def inventory(directory: Path, guests: Sequence[Guest], kubeconfig: Path | None = None) -> dict[str, Any]:
    """Give an Ansible inventory: the guests in the group ``rdma_fabric``, and where their cluster is reached."""
    variables = {
        "ansible_user": "root",
        "ansible_python_interpreter": "/usr/bin/python3",
        "ansible_pipelining": True,
        "ansible_ssh_args": f"-F {shlex.quote(str(directory / 'ssh_config'))}",
        "ansible_timeout": 60,
    }
    hosts = {guest.name: {"ansible_host": guest.address} for guest in guests}
    everywhere = {"rdma_fabric_kubeconfig": str(kubeconfig)} if kubeconfig else {}
    # Named, so that it can be named: `--limit rdma-1,localhost`.
    localhost = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
    groups = {
        "rdma_fabric": {"hosts": hosts, "vars": variables},
        "ungrouped": {"hosts": {"localhost": localhost}},
    }
    return {"all": {"vars": everywhere, "children": groups}}


def make_key(path: Path, comment: str) -> tuple[str, str]:
    """Make an SSH key pair at ``path`` unless it is there; give its private and public text."""
    if not path.exists():
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)]
        subprocess.run(argv, check=True, stdin=subprocess.DEVNULL)
    return path.read_text(encoding="utf-8"), path.with_name(f"{path.name}.pub").read_text(encoding="utf-8")


def write_reach(directory: Path, guests: Sequence[Guest], kubeconfig: Path | None) -> Keys:
    """Write keys, ssh configuration, known hosts and inventory into the lab's directory; give the keys."""
    secret = directory / "keys"
    secret.mkdir(mode=0o700, exist_ok=True)
    hosts = {guest.name: make_key(secret / guest.name, guest.name) for guest in guests}
    keys = Keys(make_key(directory / "id_ed25519", "rdma.fabric lab")[1], hosts)
    (directory / "known_hosts").write_text(known_hosts(guests, keys), encoding="utf-8")
    (directory / "ssh_config").write_text(ssh_config(directory, guests), encoding="utf-8")
    # JSON is YAML, and what the inventory plugin for *.yml reads.
    (directory / "inventory.yml").write_text(
        json.dumps(inventory(directory, guests, kubeconfig), indent=2) + "\n", encoding="utf-8"
    )
    return keys


def link_to(target: Path, link: Path) -> None:
    """Make ``link`` a symbolic link to ``target``, in the place of an older one."""
    link.unlink(missing_ok=True)
    link.symlink_to(target)


def write_config_disk(files: Mapping[str, str], scratch: Path, disk: Path) -> None:
    """Write ``files`` as a small ext4 file system into ``disk``; ``scratch`` is a new directory to lay them out in."""
    for path, text in files.items():
        (scratch / path).parent.mkdir(parents=True, exist_ok=True)
        (scratch / path).write_text(text, encoding="utf-8")
    disk.unlink(missing_ok=True)
    options = ["-O", "^has_journal", "-L", CONFIG_DISK_LABEL, "-d", str(scratch)]
    argv = ["mke2fs", "-q", "-F", "-t", "ext4", *options, str(disk), CONFIG_DISK_SIZE]
    subprocess.run(argv, check=True, capture_output=True, text=True)
