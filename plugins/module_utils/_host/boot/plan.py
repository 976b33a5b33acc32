# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans what keeps settings across reboots: files of network managers and the boot unit."""

from __future__ import annotations

from typing import Collection, Iterable, Mapping

from ..engine.context import ConcernPlan, Context
from ..engine.steps import BOOT, NEEDS_CONSENT, NOTHING, PLANNED, Step, make_step
from ..machine.host_files import BOOT_SPEC_FILE, UNIT, UNIT_FILE
from ..machine.program import program_path
from ..spec.host import CONSENTS
from ..spec.persisted import SELECTING, BootEntry, boot_entries_in, cards_in, device_of
from ..spec.routes import route_text, rule_text
from .files import guards_next_boot, manager_files, unit_files
from .losses import KeptRoutes, Loss, kept_routes, losses
from .orphaned import kept_no_longer
from .persisted import boot_entries
from .persistence import NOBODY, Persistence, followers, persistence

CONCERN = "boot"


def plan(context: Context) -> ConcernPlan:
    """Return the steps about managers' files, the boot unit and lost settings, and notices about the last boot.

    Files of managers that are no longer needed are removed with all other orphaned files.
    """
    kept = [] if context.removing else context.once(persistence)
    routed = [] if context.removing else context.once(kept_routes)
    steps = [_file_step(context, path, kept, routed) for path in _differing(context)]
    steps += [_refused(entry) for entry in kept if entry.refusal]
    steps += [_refused_routes(entry) for entry in routed if entry.refusal]
    steps += _unit_step(context)
    # If the same change needs this consent now, its own step already names it.
    waiting = {step["id"] for step in context.earlier}
    lost = losses(context, boot_entries(context))
    steps += [_loss_step(loss) for loss in lost if not (loss.consent and loss.step_now in waiting)]
    return sorted(steps, key=lambda step: step["id"]), [*_last_boot(context), *_guarded(context)]


def _differing(context: Context) -> list[str]:
    wanted = manager_files(context)
    return [path for path, text in wanted.items() if context.boot_files.get(path) != text]


def _file_step(context: Context, path: str, kept: list[Persistence], routed: list[KeptRoutes]) -> Step:
    links = sorted((entry for entry in kept if entry.path == path), key=lambda entry: entry.name)
    routes = sorted((entry for entry in routed if entry.path == path), key=lambda entry: entry.name)
    settings = [*map(_settings_of, links), *map(_routes_of, routes)]
    names = sorted({entry.name for entry in links} | {entry.name for entry in routes})
    devices = {entry.interface.key for entry in links} | {entry.interface.key for entry in routes}
    manager = links[0].manager if links else routes[0].manager
    return make_step(
        CONCERN,
        path,
        action=f"keep {', '.join(settings)}",
        before=context.boot_files.get(path),
        after=manager_files(context)[path],
        reason=f"{manager} configures {', '.join(names)} at boot",
        interrupts=_kept_no_longer(context, path, devices),
        undo=context.boot_undo_said(path),
        when=BOOT,
        detail=_reload_detail(followers(context, path)),
    )


def _kept_no_longer(context: Context, path: str, devices: Collection[str]) -> str:
    """Return what the file no longer keeps, without an MTU that the boot unit restores for the functions of a port."""
    former, now = context.boot_files.get(path, ""), manager_files(context)[path]
    by_the_unit = any("mtu" in entry for entry in boot_entries(context) if device_of(entry) in devices)
    return kept_no_longer(former, now, mtu=not by_the_unit)


def _reload_detail(followed: Mapping[str, int]) -> str:
    if not followed:
        return ""
    return (
        f"NetworkManager reloads its configuration; until then it gives {', '.join(sorted(followed))} the MTU of the "
        "device below"
    )


def _refused(entry: Persistence) -> Step:
    return make_step(
        CONCERN,
        f"{entry.interface.key}:{entry.manager}",
        target=entry.name,
        action=f"keep {_settings_of(entry)}",
        after=[entry.mtu, entry.state],
        reason=f"{'no manager' if entry.manager == NOBODY else entry.manager} configures {entry.name} at boot",
        refusal=entry.refusal,
    )


def _refused_routes(entry: KeptRoutes) -> Step:
    return make_step(
        CONCERN,
        f"{entry.interface.key}:routing",
        target=entry.name,
        action=f"keep {_routes_of(entry)}",
        after=[*map(route_text, entry.routes), *map(rule_text, entry.rules)],
        reason="the kernel forgets routes and rules at a reboot",
        refusal=entry.refusal,
    )


def _routes_of(entry: KeptRoutes) -> str:
    texts = [f"route {route_text(route)}" for route in entry.routes]
    texts += [f"rule {rule_text(rule)}" for rule in entry.rules]
    return f"{' and '.join(texts)} of {entry.name}"


def _settings_of(entry: Persistence) -> str:
    settings = [f"MTU {entry.mtu}"] if entry.mtu is not None else []
    settings += [f"state {entry.state}"] if entry.state is not None else []
    return f"{' and '.join(settings)} of {entry.name}"


def _unit_step(context: Context) -> list[Step]:
    """Return the step for the boot unit: install, update or remove it."""
    boot = context.actual.facts["boot"]
    state = boot["unit"]
    files = unit_files(context)
    wanted = [program_path()] if files else []
    there = [path for path in (UNIT_FILE, BOOT_SPEC_FILE) if path in context.boot_files]
    same = all(context.boot_files.get(path) == text for path, text in files.items())
    if files:
        if same and state["enabled"] and state["programs"] == wanted:
            return []
    elif guards_next_boot(context) or not (there or state["enabled"] or state["programs"] or boot["result"]):
        return []
    before = boot_entries_in(context.boot_files.get(BOOT_SPEC_FILE))
    after = boot_entries_in(files.get(BOOT_SPEC_FILE))
    other_cards = cards_in(context.boot_files.get(BOOT_SPEC_FILE)) != cards_in(files.get(BOOT_SPEC_FILE))
    verb = ("update" if there else "install") if files else "remove"
    return [
        make_step(
            CONCERN,
            UNIT_FILE,
            target=UNIT,
            action=f"{verb} the boot unit" + (f" for {_described(after)}" if after else ""),
            before=before,
            after=after,
            reason=_reason(bool(files), before == after, other_cards),
            interrupts=NOTHING if context.removing else _lost_registers(before, after),
            undo="bring its former files back" if there or not files else "disable and remove it",
            when=BOOT,
        )
    ]


def _lost_registers(before: Iterable[BootEntry] | None, after: Iterable[BootEntry] | None) -> str:
    """Return the PCIe settings that the boot unit no longer sets; they belong to the host, not to a device."""
    former, wanted = ({key for entry in entries or () for key in entry.get("pcie", {})} for entries in (before, after))
    gone = " and ".join(sorted(former - wanted))
    return f"{gone} of PCIe that it sets, from the next boot on" if gone else NOTHING


def _loss_step(loss: Loss) -> Step:
    return make_step(
        CONCERN,
        f"{loss.device}:{loss.key}",
        target=loss.target,
        action=f"drop {loss.name} at the next boot",
        before=loss.value,
        after=None,
        reason="the input no longer asks for it",
        interrupts=f"{loss.consequence}, from the next boot on",
        undo="ask for it again before the next boot",
        when=BOOT,
        status=NEEDS_CONSENT if loss.consent else PLANNED,
        consent=CONSENTS[loss.consent] if loss.consent else None,
    )


def _reason(wanted: bool, same_entries: bool, other_cards: bool) -> str:
    if not wanted:
        return "nothing is left for it to do"
    if same_entries and other_cards:
        return "an address of its settings has another card since the last boot"
    if same_entries:
        return "its unit or program is missing, not enabled, or of another release"
    return "the kernel forgets these settings at a reboot, and no network manager keeps them"


def _described(entries: list[BootEntry]) -> str:
    """Return the settings of the boot unit by interface, and those of PCIe, in words."""
    parts = []
    for entry in entries:
        if "pcie" in entry:
            parts.append(f"PCIe ({', '.join(entry['pcie'])})")
            continue
        keys = [key for key in entry if key not in SELECTING]
        parts.append(f"{entry.get('pci') or entry.get('current_name')} ({', '.join(keys)})")
    return ", ".join(parts)


def _last_boot(context: Context) -> list[str]:
    result = context.actual.facts["boot"]["result"]
    if not result or result["ok"] or not result["this_boot"]:
        return []
    if result["running"]:
        return [
            "the boot unit did not finish when this host booted: it is still running, timed out or was killed; next: "
            f"read its journal (journalctl -b -u {UNIT})"
        ]
    problems = "; ".join(result["problems"]) or f"read its journal: journalctl -b -u {UNIT}"
    return [f"the boot unit finished with errors at the last boot: {problems}"]


def _guarded(context: Context) -> list[str]:
    guard = context.actual.facts["boot"]["guard"]
    if not guard:
        return []
    what = "a change of the uplink" + (f" ({'; '.join(guard['steps'])})" if guard["steps"] else "")
    if guard["state"] == "staged":
        return [f"{what} acts at the next boot; the first run after it confirms it"]
    if guard["state"] == "armed":
        return [f"{what} awaits confirmation; until then no run changes this host"]
    return [f"{what} was not confirmed in time, so the host reverted it; the next run that applies fails with it"]
