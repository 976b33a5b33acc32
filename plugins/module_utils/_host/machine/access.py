# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Access to a host below a root directory: files, links, programs, and a clock."""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
import select
import signal
import subprocess
import time
from pathlib import Path
from typing import Callable, List, NamedTuple, Protocol, Sequence

# Attributes of sysfs have at most a page (4 KiB); other files may be longer and are truncated to this.
READ_LIMIT = 64 * 1024
# A node with hundreds of pods has hundreds of interfaces, for each of which ip(8) prints some 400 bytes.
OUTPUT_LIMIT = 4 * 1024 * 1024
# Routes and addresses: a node of a cluster of 500 has as many routes, of 128 bytes each.
_TABLES = "/proc/net/"
# Every pod of a node has several mounts, some of them with kilobytes of options.
MOUNTS = "/proc/self/mountinfo"
# Every file of an OpenShift node, with its content.
MACHINE_CONFIG = "/etc/machine-config-daemon/currentconfig"
_LONG = (_TABLES, MOUNTS, MACHINE_CONFIG)
# The kernel follows at most 40 links while it resolves a path (MAXSYMLINKS).
MAX_LINKS = 40
# Directories of system programs, which the PATH of an SSH connection often lacks.
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
OURS = "rdma-fabric"
_MOST_DESCRIPTORS = 1024
_GRACE = 1.0
Names = List[str]


class Clock(Protocol):
    """A monotonic clock."""

    def now(self) -> float:
        """Return the seconds since a fixed moment."""

    def sleep(self, seconds: float) -> None:
        """Suspend execution for this time."""


class SystemClock:
    """The clock of this machine."""

    def now(self) -> float:
        """Return the seconds since a fixed moment."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Suspend execution for this time."""
        time.sleep(seconds)


class HostError(Exception):
    """An error from the host: ``code`` is the name of the errno (``ENOENT``), ``path`` the file or program."""

    def __init__(self, code: str, path: str) -> None:
        self.code = code
        self.path = path
        super().__init__(f"{path}: {code}")


class CommandResult(NamedTuple):
    """The result of a program: exit status, and both outputs as text, each at most OUTPUT_LIMIT bytes."""

    rc: int
    stdout: str
    stderr: str


class Host(Protocol):
    """Read-only access to a host: files, links, programs.

    Paths are absolute, as the host sees them, and every failure is a HostError. Facts and plans only get this, so they
    can't change anything.
    """

    def read(self, path: str) -> str:
        """Return a file's text; bytes that are not UTF-8 become U+FFFD.

        A file of ours is complete, or fails with EFBIG; any other is truncated to ``text_limit`` bytes.
        """

    def read_bytes(self, path: str, limit: int = READ_LIMIT) -> bytes:
        """Return a file's bytes, at most ``limit`` of them."""

    def exists(self, path: str) -> bool:
        """Return whether the path exists; false for a dangling link."""

    def list(self, path: str) -> Names:
        """Return the names in a directory, sorted."""

    def link(self, path: str) -> str:
        """Return the raw target of a symbolic link."""

    def realpath(self, path: str) -> str:
        """Return the path with all links resolved."""

    def run(self, argv: Sequence[str], timeout: float) -> CommandResult:
        """Run a program without a shell for at most ``timeout`` seconds."""


class Machine(Host, Protocol):
    """Access that can change a host; only the execution of a plan gets one."""

    def replace(self, path: str, text: str, mode: int) -> None:
        """Replace the file's content by ``text`` atomically: readers see the old text or the new, never a part."""

    def remove(self, path: str) -> None:
        """Remove a file, if it exists."""

    def rename(self, path: str, to: str) -> None:
        """Rename a file in its directory atomically; if two callers rename the same file, one gets ENOENT."""

    def set_attribute(self, path: str, text: str, timeout: float) -> None:
        """Write ``text`` to an existing attribute of sysfs or procfs in one call of at most ``timeout`` seconds."""

    def write_at(self, path: str, offset: int, data: bytes) -> None:
        """Write ``data`` at an offset of an existing file in one call; the rest of the file is unchanged."""


class LiveHost:
    """The machine this code runs on, or a tree mounted at ``root``."""

    def __init__(self, root: str = "/") -> None:
        self._root = os.path.realpath(root)

    def read(self, path: str) -> str:
        """Return a file's text; a file of ours is complete."""
        return read_text(path, self.read_bytes)

    def read_bytes(self, path: str, limit: int = READ_LIMIT) -> bytes:
        """Return a file's bytes, at most ``limit`` of them; does not block on a FIFO."""
        try:
            descriptor = os.open(self._local(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as stream:
                return stream.read(limit) or b""
        except OSError as error:
            raise HostError(errno_name(error), path) from error

    def exists(self, path: str) -> bool:
        """Return whether the path exists."""
        try:
            return Path(self._local(path)).exists()
        except (OSError, HostError):
            return False

    def list(self, path: str) -> Names:
        """Return the names in a directory, sorted."""
        try:
            return sorted(entry.name for entry in Path(self._local(path)).iterdir())
        except OSError as error:
            raise HostError(errno_name(error), path) from error

    def link(self, path: str) -> str:
        """Return the raw target of a symbolic link."""
        parent, name = posixpath.split(path)
        try:
            return str(os.readlink(posixpath.join(self._local(parent), name)))
        except OSError as error:
            raise HostError(errno_name(error), path) from error

    def realpath(self, path: str) -> str:
        """Return the path, as the host sees it, with all links resolved."""
        resolved = follow(path, self._target)
        if not Path(self._below(resolved)).exists():
            raise HostError("ENOENT", path)
        return resolved

    def run(self, argv: Sequence[str], timeout: float) -> CommandResult:
        """Run a program without a shell; fails for a tree mounted elsewhere, whose programs can't run here."""
        if self._root != "/":
            raise HostError("ENOSYS", argv[0])
        return _finished(argv, timeout)

    def _below(self, path: str) -> str:
        return path if self._root == "/" else self._root + path

    def _local(self, path: str) -> str:
        return path if self._root == "/" else self._below(follow(path, self._target))

    def _target(self, path: str) -> str | None:
        try:
            return os.readlink(self._below(path))
        except OSError:
            return None


class LiveMachine(LiveHost):
    """The machine this code runs on, with write access."""

    def replace(self, path: str, text: str, mode: int) -> None:
        """Write a hidden file beside ``path``, sync it and rename it to ``path``; missing directories are created."""
        parent, name = posixpath.split(path)
        try:
            self._make_directories(parent)
            final = posixpath.join(self._local(parent), name)
            temporary = temporary_name(final)
            try:
                _unlink(temporary)
                _write_durably(temporary, encoded(text), mode)
                Path(temporary).rename(final)
            except OSError:
                # What can't be removed now is replaced by the next run; report the original error.
                with contextlib.suppress(OSError):
                    _unlink(temporary)
                raise
            _sync_directory(posixpath.dirname(final))
        except OSError as error:
            raise HostError(errno_name(error), path) from error

    def remove(self, path: str) -> None:
        """Remove a file, a leftover of an interrupted ``replace``, and directories that were only made for the file."""
        parent, name = posixpath.split(path)
        try:
            directory = self._local(parent)
            final = posixpath.join(directory, name)
            _unlink(temporary_name(final))
            if _unlink(final):
                _sync_directory(directory)
            while is_own_directory(parent) and _remove_directory(directory):
                parent, directory = posixpath.dirname(parent), posixpath.dirname(directory)
                _sync_directory(directory)
        except FileNotFoundError:
            return
        except OSError as error:
            raise HostError(errno_name(error), path) from error

    def rename(self, path: str, to: str) -> None:
        """Rename a file in its directory atomically, and sync the directory."""
        try:
            directory = self._local(posixpath.dirname(path))
            Path(directory, posixpath.basename(path)).rename(Path(directory, posixpath.basename(to)))
            _sync_directory(directory)
        except OSError as error:
            raise HostError(errno_name(error), path) from error

    def set_attribute(self, path: str, text: str, timeout: float) -> None:
        """Write to an existing file in one call; fail with ETIMEDOUT if it takes longer than ``timeout``.

        A child process writes: a process that hangs in the kernel can't be interrupted, only abandoned.
        """
        local = self._local(path)
        receiver, sender = os.pipe()
        child = os.fork()
        if child == 0:
            _write_attribute(local, text.encode("utf-8"), sender)
        os.close(sender)
        try:
            ready, _writable, _failed = select.select([receiver], [], [], timeout)
            answer = os.read(receiver, 16) if ready else b""
        finally:
            os.close(receiver)
        if not ready:
            os.kill(child, signal.SIGKILL)
            _reap(child)
            raise HostError("ETIMEDOUT", path)
        _reap(child)
        if answer != b"0":
            # A killed child writes no answer.
            raise HostError(errno_name(OSError(int(answer or errno.EINTR), "")), path)

    def write_at(self, path: str, offset: int, data: bytes) -> None:
        """Write at an offset of an existing file, such as a PCI function's configuration space, in one call."""
        try:
            descriptor = os.open(self._local(path), os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.pwrite(descriptor, data, offset)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise HostError(errno_name(error), path) from error

    def _make_directories(self, path: str) -> None:
        missing = []
        while not self.exists(path):
            missing.append(path)
            path = posixpath.dirname(path)
        for directory in reversed(missing):
            local = self._local(directory)
            # Readers of the files need not be root (networkd, apt). A run that was killed before a chmod would leave
            # the mode of root's umask for ever.
            umask = os.umask(0o022)
            try:
                Path(local).mkdir(0o755)
            finally:
                os.umask(umask)
            _sync_directory(posixpath.dirname(local))


def text_limit(path: str) -> int:
    """Return the maximum length of a file that is read as text, in bytes.

    The kernel's network tables grow with the cluster, files of ours with the host.
    """
    return OUTPUT_LIMIT if path.startswith(_LONG) or OURS in path else READ_LIMIT


def read_text(path: str, read_bytes: Callable[[str, int], bytes]) -> str:
    """Return a file's text, as every ``Host`` does; ``read_bytes`` returns the first bytes of a file.

    A truncated file of ours could be mistaken for a complete one, so one that is too long fails with EFBIG.
    """
    limit = text_limit(path)
    data = read_bytes(path, limit + 1)
    if len(data) > limit and OURS in path:
        raise HostError("EFBIG", path)
    return data[:limit].decode("utf-8", "replace")


def encoded(text: str) -> bytes:
    """Return the bytes of a text, in which lone surrogates stand for bytes that are not UTF-8."""
    return text.encode("utf-8", "surrogateescape")


def temporary_name(path: str) -> str:
    """Return the name under which a new ``path`` is written: beside it and hidden.

    Programs that read a configuration directory ignore its suffix.
    """
    parent, name = posixpath.split(path)
    return posixpath.join(parent, f".{name}.{OURS}")


def is_temporary(path: str) -> bool:
    """Return whether a path has such a name: a run that was killed left the file, complete or not."""
    return posixpath.basename(path).startswith(".") and path.endswith(f".{OURS}")


def follow(path: str, target_of: Callable[[str], str | None]) -> str:
    """Return ``path`` with all links resolved, as the kernel does below a root directory.

    ``target_of`` returns the raw target of a link, or None for anything else. ``..`` never leads above the root.
    """
    done = "/"
    rest = [part for part in reversed(path.split("/")) if part not in {"", "."}]
    links = 0
    while rest:
        part = rest.pop()
        if part == "..":
            done = posixpath.dirname(done)
            continue
        here = f"{done}/{part}" if done != "/" else f"/{part}"
        target = target_of(here)
        if target is None:
            done = here
            continue
        links += 1
        if links > MAX_LINKS:
            raise HostError("ELOOP", path)
        if target.startswith("/"):
            done = "/"
        rest.extend(piece for piece in reversed(target.split("/")) if piece not in {"", "."})
    return done


def errno_name(error: OSError) -> str:
    """Return the symbolic name of an error's number, ``EIO`` if it has none."""
    # Linux uses one number for both names; the kernel's documentation uses this one.
    if error.errno == errno.EOPNOTSUPP:
        return "EOPNOTSUPP"
    return errno.errorcode.get(error.errno or 0, "EIO")


def is_own_directory(path: str) -> bool:
    """Return whether a directory only exists for files of ours: its path has our name, or it has drop-ins of a unit."""
    name = posixpath.basename(path)
    return OURS in path or (name.endswith(".d") and "." in name[: -len(".d")])


def _write_durably(path: str, data: bytes, mode: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    try:
        os.fchmod(descriptor, mode)
        while data:
            data = data[os.write(descriptor, data) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_directory(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some file systems can't sync a directory and return an error.
        if error.errno not in {errno.EINVAL, errno.EOPNOTSUPP}:
            raise
    finally:
        os.close(descriptor)


def _unlink(path: str) -> bool:
    try:
        Path(path).unlink()
    except FileNotFoundError:
        return False
    return True


def _remove_directory(path: str) -> bool:
    try:
        Path(path).rmdir()
    except OSError:
        # It contains files of others, or stays as an empty directory, which is harmless.
        return False
    return True


def _write_attribute(path: str, data: bytes, answer_to: int) -> None:
    """Write in the child process and exit: the errno number goes to ``answer_to``, 0 on success."""
    number = errno.EINVAL
    try:
        # A child that hangs in the kernel must not keep the caller's connection open.
        nowhere = os.open(os.devnull, os.O_RDWR)
        for standard in range(3):
            os.dup2(nowhere, standard)
        os.closerange(3, answer_to)
        os.closerange(answer_to + 1, _MOST_DESCRIPTORS)
        os.write(os.open(path, os.O_WRONLY | os.O_CLOEXEC), data)
        number = 0
    except OSError as error:
        number = error.errno or errno.EIO
    finally:
        os.write(answer_to, str(number).encode("ascii"))
        os._exit(0)


def _reap(child: int) -> None:
    """Wait for a child to exit; one that hangs in the kernel is left to init."""
    end = time.monotonic() + _GRACE
    while os.waitpid(child, os.WNOHANG)[0] == 0 and time.monotonic() < end:
        time.sleep(0.01)


def _finished(argv: Sequence[str], timeout: float) -> CommandResult:
    """Run a program to its end; after the timeout it is killed with all its children."""
    path = os.pathsep.join(filter(None, (os.environ.get("PATH"), SYSTEM_PATH)))
    environment = {**os.environ, "LC_ALL": "C", "PATH": path}
    try:
        # Not run_command: the boot unit's program and the guard run without Ansible.
        program = subprocess.Popen(  # pylint: disable=ansible-bad-function
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        code = errno_name(error) if isinstance(error, OSError) else "EINVAL"
        raise HostError(code, argv[0]) from error
    try:
        output, errors = program.communicate(timeout=timeout)
    except subprocess.TimeoutExpired as error:
        _kill_group(program)
        raise HostError("ETIMEDOUT", argv[0]) from error
    return CommandResult(program.returncode, _text(output), _text(errors))


def _kill_group(program: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(program.pid, signal.SIGKILL)
        program.wait(_GRACE)
    except (ProcessLookupError, subprocess.TimeoutExpired):
        # It has exited, or hangs in the kernel, where signals have no effect.
        pass
    for stream in (program.stdout, program.stderr):
        if stream is not None:
            stream.close()


def _text(data: bytes) -> str:
    return data[:OUTPUT_LIMIT].decode("utf-8", "replace")
