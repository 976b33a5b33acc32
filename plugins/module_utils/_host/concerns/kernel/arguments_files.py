# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which kernel arguments a host's next boot gets from us, and the file that says so. Pure."""

from __future__ import annotations

from ...engine.context import Context
from ...facts.hugepages import boot_arguments
from ...facts.kernel_arguments import GRUB, told_of
from ...facts.kernel_arguments_record import DROP_IN, RECORD, drop_in, listed, record
from ...facts.settings_shapes import KernelArguments
from ...spec.arguments import NETNS_MODES, contains, count, vendor_problem


def found(context: Context) -> KernelArguments:
    """Return what the facts tell of kernel arguments, nothing for a host that was not asked."""
    return told_of(context.actual.facts)


def own_file(context: Context) -> str:
    """Return where the arguments that are ours are listed: in GRUB's drop-in, or in a file of their own."""
    return DROP_IN if found(context)["loader"] == GRUB else RECORD


def own_arguments(context: Context) -> list[str]:
    """Return the arguments that our file lists now."""
    return listed(context.boot_files.get(own_file(context), ""))


def wanted_arguments(context: Context) -> list[str]:
    """Return every argument that the host shall boot with and that fits its processor, in order."""
    return [argument for argument in asked_arguments(context) if not problem_of(context, argument)]


def asked_arguments(context: Context) -> list[str]:
    """Return every argument that is asked for, those of huge pages and of RDMA's mode included."""
    mode = context.desired["netns_mode"]
    of_mode = [NETNS_MODES[mode]] if mode else []
    return [*context.desired["kernel_arguments"], *of_mode, *boot_arguments(context.desired, context.actual.facts)]


def problem_of(context: Context, argument: str) -> str:
    """Say why an argument means nothing to this host's processor; empty when it does."""
    machine = context.actual.facts["system"]["machine"]
    return vendor_problem(argument, machine, found(context)["cpu_vendor"])


def arguments_of_ours(context: Context) -> list[str]:
    """Return the wanted arguments that nobody else gives the host: only those are written."""
    line = next_line(context)
    active = _active(context)
    return [argument for argument in wanted_arguments(context) if count(line, argument) <= int(argument in active)]


def next_line(context: Context) -> list[str]:
    """Return what is known of the next boot's line; where nothing is, the running one stands for it."""
    facts = found(context)
    return list(facts["running"] if facts["next"] is None else facts["next"])


def missing_arguments(context: Context) -> list[str]:
    """Return the arguments of ours that the next boot would not have."""
    line = next_line(context)
    return [argument for argument in arguments_of_ours(context) if not contains(line, argument)]


def boot_files(context: Context) -> dict[str, str]:
    """Return the file that lists our arguments, none when there are none to write or nothing may write them."""
    arguments = arguments_of_ours(context)
    if not arguments or found(context)["cannot"]:
        return {}
    return {own_file(context): file_text(context, arguments, arguments)}


def file_text(context: Context, arguments: list[str], listing: list[str]) -> str:
    """Return the text of our file; ``listing`` holds also those that are just being taken out."""
    return drop_in(arguments, listing) if own_file(context) == DROP_IN else record(listing)


def _active(context: Context) -> list[str]:
    """Return the arguments of ours that the boot loader's configuration was last made with, as far as it is known."""
    line = next_line(context)
    return [argument for argument in own_arguments(context) if count(line, argument)]
