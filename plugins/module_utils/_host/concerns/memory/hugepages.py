# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Huge pages, now and at boot.

tmpfiles.d(5) is early enough for all but the largest pages. For those memory may be too fragmented by then, so the
kernel reserves them before anything else runs. Neither depends on the kernel's default size, as ``vm.nr_hugepages``
does: the next boot may have another ``default_hugepagesz``.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Iterable, Iterator, NamedTuple

from ...engine.context import ConcernPlan, Context, Handler
from ...engine.operations import Operation, SetAttribute, Work
from ...engine.steps import BOOT, NOW, Step, Value, as_planned, key_of, make_step
from ...facts.kernel_arguments import told_of
from ...facts.memory import LARGEST, argument_of, pool_directory, supports, takes_argument
from ...facts.settings_shapes import Hugepages
from ...machine.access import Host
from ...machine.host_files import marked
from ...spec.arguments import contains
from ...spec.host import HostSpec
from ...spec.memory import PAGE_SIZES

CONCERN = "hugepages"
# The rest is for programs, the page cache and the kernel itself.
_MOST_OF_MEMORY = 0.9
# Of all architectures with RDMA, unless default_hugepagesz says otherwise.
_DEFAULT = "2Mi"
TMPFILES_FILE = "/etc/tmpfiles.d/90-rdma-fabric-hugepages.conf"
_UNTOLD: Hugepages = {"sizes": [], "memory": None, "pages": {}}
# The kernel moves memory about to make room, page by page.
_SECONDS = 300.0
ERRORS = MappingProxyType(
    {
        "ENOENT": "the kernel has no pages of this size or no such NUMA node; next: correct rdma_fabric_hugepages",
        "EINVAL": (
            "the kernel reserves pages of this size only while it boots; next: reboot with the kernel argument that is "
            "set for it (rdma_fabric_allow_reboot: true)"
        ),
    }
)


class Pool(NamedTuple):
    """The pages of one size, of the whole host (``node`` is None) or of one NUMA node."""

    size: str
    node: str | None
    wanted: int

    @property
    def key(self) -> str:
        """Return the key of the pool's step and fact."""
        return self.size if self.node is None else f"{self.size}:{self.node}"

    @property
    def place(self) -> str:
        """Return where the pages are, in words."""
        return "" if self.node is None else f" on NUMA node {self.node}"


def plan(context: Context) -> ConcernPlan:
    """Return a step for each of our files and pools that differs, or one refusal if there is not enough memory."""
    wanted = list(pools(context))
    refusal = _too_much(context, wanted)
    if refusal is not None:
        return [refusal], []
    files = {} if context.removing else boot_files(context)
    steps = [_file_step(context, path) for path, text in sorted(files.items()) if context.boot_differs({path: text})]
    notices = []
    for pool in wanted:
        if not supports(context.actual.facts, pool.size):
            steps.append(_unsupported(context, pool))
        elif _waits_for_reboot(context, pool):
            notices.append(_later(context, pool))
        elif found(context)["pages"].get(pool.key) != pool.wanted:
            steps.append(_pool_step(context, pool))
    return steps, [*notices, *([] if context.removing else _also_set(context, wanted))]


def _also_set(context: Context, wanted: Iterable[Pool]) -> list[str]:
    """Return a notice for each file that sets another number of pages of the kernel's default size at boot."""
    pages = [str(pool.wanted) for pool in wanted if pool.size == _DEFAULT]
    return [
        f"{each['file']} sets vm.nr_hugepages to {each['value']} at boot, and rdma_fabric_hugepages asks for "
        f"{pages[0]} of {_DEFAULT}: keep one"
        for each in found(context).get("also", [])
        if pages and each["value"] not in pages
    ]


def pools(context: Context) -> Iterator[Pool]:
    """Yield every pool of the spec, ordered by size and node."""
    for size, wanted in sorted(context.desired["hugepages"].items(), key=lambda item: PAGE_SIZES[item[0]]):
        if isinstance(wanted, dict):
            yield from (Pool(size, node, pages) for node, pages in wanted.items())
        else:
            yield Pool(size, None, wanted)


def _waits_for_reboot(context: Context, pool: Pool) -> bool:
    """Return whether a kernel argument reserves the pages and is not in effect yet; then there is memory for them."""
    if context.removing or pool.node is not None or not takes_argument(pool.size, pool.wanted):
        return False
    now = found(context)["pages"].get(pool.key) or 0
    running = told_of(context.actual.facts)["running"]
    return now < pool.wanted and not contains(running, argument_of(pool.size, pool.wanted))


def _later(context: Context, pool: Pool) -> str:
    """Return the note on pages that only a kernel argument reserves, whose step may be refused."""
    pages = f"{pool.wanted} huge pages of {pool.size}"
    if told_of(context.actual.facts)["cannot"]:
        return f"{pages} are reserved neither now nor by a reboot: the refused kernel argument says why"
    return f"{pages} are reserved from the next reboot on"


def _too_much(context: Context, wanted: list[Pool]) -> Step | None:
    memory = found(context)["memory"]
    kib = sum(pool.wanted * PAGE_SIZES[pool.size] for pool in wanted)
    if memory is None or kib <= memory * _MOST_OF_MEMORY:
        return None
    return make_step(
        CONCERN,
        "memory",
        target="huge pages",
        action=f"reserve {kib >> 10} MiB",
        before=found(context)["pages"],
        after={pool.key: pool.wanted for pool in wanted},
        reason="rdma_fabric_hugepages asks for it",
        refusal=f"it has {memory >> 10} MiB; at most {int(memory * _MOST_OF_MEMORY) >> 10} of them may be reserved",
    )


def _unsupported(context: Context, pool: Pool) -> Step:
    return make_step(
        CONCERN,
        pool.key,
        target=f"huge pages of {pool.size}",
        action=f"reserve {pool.wanted}{pool.place}",
        after=pool.wanted,
        reason="rdma_fabric_hugepages asks for it",
        refusal=f"processor and kernel have {', '.join(found(context)['sizes'])}",
    )


def _pool_step(context: Context, pool: Pool) -> Step:
    now = found(context)["pages"].get(pool.key)
    return make_step(
        CONCERN,
        pool.key,
        target=f"huge pages of {pool.size}",
        action=f"reserve {pool.wanted}{pool.place}",
        before=now,
        after=pool.wanted,
        reason=(
            f"there were {pool.wanted} before rdma.fabric changed it"
            if context.removing
            else f"rdma_fabric_hugepages asks for {pool.wanted}, now {'unknown' if now is None else now}"
        ),
        when=NOW,
        undo="" if now is None else f"reserve {now}",
    )


def _file_step(context: Context, path: str) -> Step:
    return make_step(
        CONCERN,
        path,
        action="reserve huge pages at every boot",
        before=context.boot_files.get(path),
        after=boot_files(context)[path],
        reason="what is reserved now would be gone after a reboot",
        when=BOOT,
        undo=context.boot_undo_said(path),
    )


def found(context: Context) -> Hugepages:
    """Return the facts about huge pages, empty if they were not read."""
    return context.actual.facts["settings"].get("hugepages", _UNTOLD)


def boot_files(context: Context) -> dict[str, str]:
    """Return our file, none if it would be empty."""
    lines: list[str] = []
    for size, wanted in context.desired["hugepages"].items():
        if not supports(context.actual.facts, size):
            continue
        if isinstance(wanted, dict):
            lines += [_line(pool_directory(size, node), pages) for node, pages in wanted.items()]
        elif size not in LARGEST:
            lines.append(_line(pool_directory(size), wanted))
    return {TMPFILES_FILE: marked(lines)} if lines else {}


def _line(directory: str, pages: int) -> str:
    return f"w {directory}/nr_hugepages - - - - {pages}"


def work(context: Context, step: Step) -> Work:
    """Return how the pages of a pool are reserved, or one of our files written."""
    key = key_of(step)
    if key.startswith("/"):
        return context.work_of_files({key: boot_files(context)[key]})
    size, _colon, node = key.partition(":")
    path, wanted = f"{pool_directory(size, node or None)}/nr_hugepages", as_planned(step["to"], int)
    undo: list[Operation] = [] if step["from"] is None else [SetAttribute(path, str(step["from"]), _SECONDS)]

    def verify(host: Host) -> str:
        return _shortfall(host.read(path).strip(), wanted, size)

    return Work([SetAttribute(path, str(wanted), _SECONDS)], undo, verify)


def restore(desired: HostSpec, key: str, original: Value) -> None:
    """Add the original number of pages to the spec."""
    if isinstance(original, bool) or not isinstance(original, int):
        return
    size, _colon, node = key.partition(":")
    if node:
        nodes = desired["hugepages"].setdefault(size, {})
        if isinstance(nodes, dict):
            nodes[node] = original
    else:
        desired["hugepages"][size] = original


def _shortfall(text: str, wanted: int, size: str) -> str:
    now = int(text) if text.isdecimal() else -1
    if now == wanted:
        return ""
    if now > wanted:
        return (
            f"{now} pages of {size} are left, {wanted} were requested: programs use the others; next: end them and run "
            "again"
        )
    return (
        f"the kernel gave {max(now, 0)} of {wanted} pages of {size}: memory is in use or broken into pieces; next: "
        "free memory and run again, or reboot, as they are reserved at boot before memory is used"
    )


HANDLER = Handler(work, ERRORS, restore)
