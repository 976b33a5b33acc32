# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes the kernel line of the next boot."""

from __future__ import annotations

from types import MappingProxyType

from ...engine.context import Context
from ...engine.operations import Operation, PutFile, RemoveFile, Run, Work
from ...engine.steps import Step
from ...facts.kernel_arguments import CMDLINE_FILE, GRUBBY, SYSTEMD_BOOT, next_line
from ...facts.kernel_arguments_record import REMOVED, record
from ...machine.access import Host
from ...machine.probe import Probe
from ...spec.arguments import contains, count, grouped, name_of, words_of
from .arguments_files import arguments_of_ours, file_text, found, own_arguments, own_file

# os-prober looks at every disk.
_SECONDS = 600.0
ERRORS = MappingProxyType(
    {
        "ENOENT": "a file or program of the boot loader is missing; next: install its package again and run again",
        "EROFS": "/boot or /etc is mounted read only; next: mount it writable and run again",
        "ENOSPC": "/boot is full; next: remove old kernels (apt autoremove, dnf remove) and run again",
    }
)


def work(context: Context, _step: Step) -> Work:
    """Return how the next boot's line is changed.

    Our file lists what is being taken out until the boot loader's configuration is made again: whoever is killed on the
    way leaves a list from which the next run goes on.
    """
    before, after = own_arguments(context), arguments_of_ours(context)
    gone = [argument for argument in before if argument not in after]
    path = own_file(context)
    listing = [*after, *gone]
    gone_now = [argument for argument in gone if count(found(context)["running"], argument)]
    noted = list(dict.fromkeys([*found(context)["removed"], *gone_now]))
    do: list[Operation] = [PutFile(path, file_text(context, after, listing))]
    do += [PutFile(REMOVED, record(noted))] if gone and noted else []
    do += _loader_operations(context, after, gone)
    do.append(PutFile(path, file_text(context, after, after)) if after else RemoveFile(path))
    undo: list[Operation] = [PutFile(path, file_text(context, before, listing))]
    undo += _loader_operations(context, before, [argument for argument in after if argument not in before])
    undo.append(PutFile(path, file_text(context, before, before)) if before else RemoveFile(path))
    loader = found(context)["loader"]

    def verify(host: Host) -> str:
        return _problem(next_line(Probe(host), loader), after, [a for a in gone if not _others_have(context, a)])

    return Work(do, undo, verify)


def _loader_operations(context: Context, wanted: list[str], gone: list[str]) -> list[Operation]:
    facts = found(context)
    if facts["loader"] == GRUBBY:
        return _by_grubby(context, wanted, gone)
    if facts["loader"] == SYSTEMD_BOOT:
        installs = [
            Run(("kernel-install", "add", version, image), _SECONDS) for version, image in facts["kernels"].items()
        ]
        return [PutFile(CMDLINE_FILE, _changed_line(facts["line"], wanted, gone)), *installs]
    return [Run(tuple(facts["update"] or ("update-grub",)), _SECONDS)]


def _by_grubby(context: Context, wanted: list[str], gone: list[str]) -> list[Operation]:
    """Return the call of grubby after which the line has what is wanted behind what others set of the same names.

    What is added takes all arguments of its name out first, whoever set them, and of one that is removed the first that
    looks like it goes (update_args of rhboot/grubby, grubby-bls): so those of others are given as well.
    """
    others = [word for word in _of_others(context) if name_of(word) in {*map(name_of, _words([*wanted, *gone]))}]
    given = [*others, *wanted]
    kept = {*map(name_of, _words(given))}
    removed = [word for word in _words(gone) if name_of(word) not in kept]
    options = [f"--args={' '.join(given)}"] if given else []
    options += [f"--remove-args={' '.join(removed)}"] if removed else []
    return [Run(("grubby", "--update-kernel=ALL", *options), _SECONDS)] if options else []


def _of_others(context: Context) -> list[str]:
    """Return the words that are not ours, which are at its end, of the next boot's line, else of the running one."""
    facts = found(context)
    arguments = grouped(facts["running"] if facts["next"] is None else facts["next"])
    for argument in own_arguments(context):
        if argument in arguments:
            del arguments[len(arguments) - 1 - arguments[::-1].index(argument)]
    return _words(arguments)


def _words(arguments: list[str]) -> list[str]:
    return [word for argument in arguments for word in argument.split()]


def _changed_line(line: str, wanted: list[str], gone: list[str]) -> str:
    """Return the text of /etc/kernel/cmdline: what stands there stays, ours is taken out and added at the end."""
    kept = [argument for argument in grouped(words_of(line)) if argument not in gone and argument not in wanted]
    return f"{' '.join([*kept, *wanted])}\n"


def _others_have(context: Context, argument: str) -> bool:
    """Return whether somebody else sets the argument too, so that it stays on the line when ours goes."""
    return count(found(context)["next"] or [], argument) > 1


def _problem(line: list[str] | None, wanted: list[str], gone: list[str]) -> str:
    if line is None:
        return "the boot loader's default entry can't be read back; next: look at its configuration"
    missing = [argument for argument in wanted if not contains(line, argument)]
    left = [argument for argument in gone if contains(line, argument)]
    problems = [f"the default entry lacks {' '.join(missing)}"] if missing else []
    problems += [f"the default entry still has {' '.join(left)}"] if left else []
    if not problems:
        return ""
    return f"{' and '.join(problems)}; next: look for a later file that sets the whole line (/etc/default/grub.d)"
