# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host that is a root directory: real programs and a real disk, with the hardware and the kernel of a recorded one.

It has namespaces of its own, and no network. What is written goes to memory, over the directory. /sys and the list of
loaded modules are files of a recorded host; the kernel of this machine neither loads nor unloads anything for it, so
``boot`` only writes down what the kernel of that root would find to load.
"""

from __future__ import annotations

import base64
import errno
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any, Mapping, Sequence

import ansible

from tools.checkout import BUILD, CHECKOUT

from .driver_root import NAMESPACES
from .run_module import LOADED
from .vendor_debs import HOLDS

SECONDS = 300.0
PROGRAMS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_CODE = "/opt/rdma-fabric"
# Programs in the root must neither load modules into this machine's kernel nor stop it.
_FORBIDDEN = "-sys_module,-sys_boot,-sys_time"
# What the hosts' Python has compiled of both, for those that come later.
_COMPILED = BUILD / "bytecode" / "hosts"
# Arguments: the directory of the host, its memory, the layers below, where this checkout, Ansible, bytecode and builds
# of modules are.
_SETUP = r"""
set -e
work=$1 size=$2 layers=$3 checkout=$4 ansible=$5 compiled=$6 built=$7 root=$1/root
mount --make-rprivate /
mount -t tmpfs -o "size=$size,mode=755" none "$work/memory"
mkdir "$work/memory/upper" "$work/memory/work"
mount -t overlay -o "lowerdir=$layers,upperdir=$work/memory/upper,workdir=$work/memory/work" none "$root"
mount -t proc none "$root/proc"
mount -t tmpfs -o mode=755 none "$root/run"
mount -t devpts -o newinstance,ptmxmode=666 none "$root/dev/pts"
mount --bind "$work/recorded/sys" "$root/sys"
mount --bind "$work/recorded/osrelease" "$root/proc/sys/kernel/osrelease"
code=$root/opt/rdma-fabric
mkdir -p "$code/ansible_collections/rdma/fabric" "$code/ansible" "$code/bytecode" "$code/built"
mount --bind "$checkout" "$code/ansible_collections/rdma/fabric"
mount --bind "$ansible" "$code/ansible"
mount --bind "$compiled" "$code/bytecode"
mount --bind "$built" "$code/built"
for place in ansible_collections/rdma/fabric ansible; do mount -o remount,bind,ro "$code/$place"; done
echo ready
while read -r _; do :; done
"""


class RootHost:
    """The host while it is there; ``root`` is its root directory as this process sees it.

    ``layers`` are directories, the uppermost first, that are never written to. ``document`` is the recorded host whose
    /sys it has, ``kernel`` the release of the kernel that it runs, ``size`` the room on its disk. ``built`` is where
    hosts keep for each other what they have compiled.
    """

    def __init__(
        self,
        directory: Path,
        layers: Sequence[Path],
        document: Mapping[str, Any],
        kernel: str,
        size: str = "4g",
        *,
        built: Path,
    ) -> None:
        self.kernel = kernel
        self._directory = directory
        self._size = size
        self._layers = ":".join(map(str, layers))
        self._built = built
        self._recorded = directory / "recorded"
        self._memory = directory / "memory"
        self._keeper: subprocess.Popen[str] | None = None
        self._inside = ""
        _lay_out(document, kernel, self._recorded)
        for name in ("memory", "root"):
            (directory / name).mkdir()

    def __enter__(self) -> RootHost:
        _COMPILED.mkdir(parents=True, exist_ok=True)
        code = [str(CHECKOUT), str(Path(ansible.__file__).parent), str(_COMPILED), str(self._built)]
        places = [str(self._directory), self._size, self._layers, *code]
        self._keeper = subprocess.Popen(
            [*NAMESPACES, "bash", "-c", _SETUP, "setup", *places],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self._keeper.stdout is not None
        answer = self._keeper.stdout.readline()
        if answer != "ready\n":
            reason = answer + self._keeper.stdout.read()
            self.__exit__()
            raise OSError(f"no host of a root directory: {reason.strip()}")
        self._inside = Path(f"/proc/{self._keeper.pid}/task/{self._keeper.pid}/children").read_text().strip()
        self.boot()
        return self

    def __exit__(self, *_reason: object) -> None:
        """End every process of the host; its mounts and what was written go with them."""
        if self._keeper is not None:
            self._keeper.kill()
            self._keeper.communicate()
            self._keeper = None

    @property
    def root(self) -> Path:
        return Path(f"/proc/{self._inside}/root{self._directory}/root")

    def command(self, *argv: str) -> list[str]:
        """Give the words that run a command on the host."""
        enter = ["nsenter", f"--target={self._inside}", "--mount", "--pid", "--net", "--ipc", "--uts"]
        limit = ["setpriv", f"--bounding-set={_FORBIDDEN}", "chroot", f"{self._directory}/root"]
        variables = [f"PATH={PROGRAMS}", "HOME=/root", "LC_ALL=C", "PYTHONDONTWRITEBYTECODE=1", f"PYTHONPATH={_CODE}"]
        return [*enter, *limit, "env", "--ignore-environment", *variables, *argv]

    def run(self, *argv: str, text: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            self.command(*argv), input=text, capture_output=True, text=True, check=False, timeout=SECONDS
        )

    def told(self, *argv: str) -> str:
        """Give what a command printed that has to succeed."""
        done = self.run(*argv)
        assert done.returncode == 0, f"{argv}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def start(self, *argv: str) -> subprocess.Popen[str]:
        """Start a command; it ends with the host at the latest."""
        return subprocess.Popen(
            self.command(*argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def module(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Run a module of the collection; give its result, a failure as well."""
        done = self.run(*_module(name), text=json.dumps(arguments))
        assert done.stdout.lstrip().startswith("{"), f"{name} gave no result:\n{done.stdout}{done.stderr}"
        result: dict[str, Any] = json.loads(done.stdout)
        return result

    def start_module(self, name: str, arguments: Mapping[str, Any]) -> subprocess.Popen[str]:
        """Start a module; what it prints is its result."""
        running = self.start(*_module(name))
        assert running.stdin is not None
        running.stdin.write(json.dumps(arguments))
        running.stdin.close()
        running.stdin = None
        return running

    def cut_power(self) -> None:
        """End every process at once, as a loss of power does; what is on the disk stays, /run is empty."""
        self.told("kill", "-KILL", "--", "-1")
        for entry in (self.root / "run").iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()

    def fill(self) -> None:
        """Leave no room on the disk, until ``clear``."""
        taken = os.statvfs(f"/proc/{self._inside}/root{self._memory}")
        self._resize(str((taken.f_blocks - taken.f_bfree) * taken.f_frsize))

    def clear(self) -> None:
        """Give the disk the room again that it began with."""
        self._resize(self._size)

    def _resize(self, size: str) -> None:
        enter = ["nsenter", f"--target={self._inside}", "--mount"]
        subprocess.run([*enter, "mount", "-o", f"remount,size={size}", str(self._memory)], check=True)

    def keep(self, target: Path) -> None:
        """Copy what was written to the disk, to be a layer of other hosts."""
        source = self.root.parent / "memory/upper"
        subprocess.run(["cp", "--archive", str(source), str(target)], check=True)

    def hold(self, name: str) -> None:
        """Have what knows the name wait when it gets there."""
        (self.root / HOLDS[1:]).mkdir(exist_ok=True)
        os.mkfifo(self.root / HOLDS[1:] / name)

    def reach(self, name: str, running: subprocess.Popen[str]) -> int:
        """Wait until something is held back by ``name``; give the descriptor that lets it go on when it is closed."""
        place = self.root / HOLDS[1:] / name
        end = time.monotonic() + SECONDS
        while True:
            try:
                descriptor = os.open(place, os.O_WRONLY | os.O_NONBLOCK)
            except OSError as error:
                # Nobody reads it yet.
                if error.errno != errno.ENXIO:
                    raise
                assert running.poll() is None, f"{name} was never reached: {running.communicate()}"
                assert time.monotonic() < end, f"{name} was not reached in {SECONDS:g} s"
                time.sleep(0.02)
            else:
                place.unlink()
                return descriptor

    def boot(self) -> list[str]:
        """Write down that the host runs what modprobe finds on its disk; give the files of modules, in order.

        Fails with what modprobe says where it finds no whole driver.
        """
        files = self.loadable("mlx5_ib")
        lines = {}
        shutil.rmtree(self._recorded / "sys/module", ignore_errors=True)
        for file, fields, note in zip(files, _fields_of(self.told("modinfo", *files)), self._notes(files), strict=True):
            name = Path(file).name.partition(".")[0].replace("-", "_")
            lines[name] = [user for user in fields["depends"].replace("-", "_").split(",") if user]
            self._load(name, file, fields, note)
        users = {name: [user for user, used in lines.items() if name in used] for name in lines}
        text = "".join(
            f"{name} 16384 {len(by)} {''.join(f'{user},' for user in by) or '-'} Live 0x0000000000000000\n"
            for name, by in reversed(users.items())
        )
        (self.root / LOADED[1:]).write_text(text, encoding="utf-8")
        return files

    def loadable(self, name: str) -> list[str]:
        """Give the files that modprobe would load for a module, each of which is there."""
        lines = self.told("modprobe", "--show-depends", f"--set-version={self.kernel}", name).splitlines()
        files = [line.split()[1] for line in lines if line.startswith("insmod ")]
        self.told("modinfo", *files)
        return files

    def _notes(self, files: Sequence[str]) -> list[bytes]:
        """Give the note of each module that says which build it is of."""
        script = """cd /run && for file; do
            xzcat -f "$file" > module && objcopy -O binary -j .note.gnu.build-id module note && base64 -w 0 note && echo
        done"""
        return [base64.b64decode(line) for line in self.told("sh", "-ec", script, "notes", *files).splitlines()]

    def _load(self, name: str, file: str, fields: Mapping[str, str], note: bytes) -> None:
        """Write down what sysfs has of a module that was loaded from ``file``."""
        place = self._recorded / "sys/module" / name
        (place / "notes").mkdir(parents=True)
        (place / "taint").write_text("OE\n" if "/updates/" in file else "\n", encoding="utf-8")
        for field in ("version", "srcversion"):
            if fields.get(field):
                (place / field).write_text(f"{fields[field]}\n", encoding="utf-8")
        (place / "notes/.note.gnu.build-id").write_bytes(note)


def _fields_of(told: str) -> list[dict[str, str]]:
    """Give what modinfo has told of each module, by field; of those that a module has several times the first."""
    found: list[dict[str, str]] = []
    for line in told.splitlines():
        field, _colon, value = line.partition(":")
        if field == "filename":
            found.append({})
        found[-1].setdefault(field, value.strip())
    return found


def _module(name: str) -> list[str]:
    return ["python3", "-m", "ansible_collections.rdma.fabric.tests.lab.run_module", name]


def _lay_out(document: Mapping[str, Any], kernel: str, target: Path) -> None:
    """Write the /sys of a recorded host, without its modules, and the release of its kernel."""
    for path, text in document["files"].items():
        if path.startswith("/sys/") and not path.startswith("/sys/module/"):
            place = target / path[1:]
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
    for path in document["dirs"]:
        if path.startswith("/sys/"):
            (target / path[1:]).mkdir(parents=True, exist_ok=True)
    for path, link in document["links"].items():
        if path.startswith("/sys/"):
            place = target / path[1:]
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(link)
    (target / "osrelease").write_text(f"{kernel}\n", encoding="utf-8")
