# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of /proc/sys, now and at boot.

Interfaces that share a subnet need settings of their own. Without them each answers ARP for the addresses of all, and
the kernel drops packets that arrive by another interface than the route back (Documentation/networking/ip-sysctl.rst:
arp_ignore, arp_announce, rp_filter).

Some settings cut the uplink off. When any interface begins to forward IPv6, the kernel forgets the default routers of
all interfaces that don't accept advertisements while forwarding (net/ipv6/addrconf.c, addrconf_fixup_forwarding;
net/ipv6/route.c, rt6_purge_dflt_routers). Only an interface's own settings decide what it accepts of advertisements
(ipv6_accept_ra, addrconf_prefix_rcv).
"""

from __future__ import annotations

import ipaddress
from types import MappingProxyType
from typing import Callable, Iterator, Mapping, NamedTuple, Sequence

from ...engine.context import ConcernPlan, Context, Handler
from ...engine.operations import Operation, SetAttribute, Work
from ...engine.steps import BOOT, NOTHING, NOW, Step, Value, key_of, make_step
from ...facts.shapes import Netdev
from ...facts.sysctls import parse
from ...facts.uplink import ADVERTISED, IPV4, IPV6, shared_networks
from ...machine.access import Host
from ...machine.host_files import marked
from ...machine.probe import network_of
from ...spec import sysctls
from ...spec.host import CONSENTS, HostSpec

CONCERN = "sysctl"
_ALL, _DEFAULT = "all", "default"
_IPV6 = "net/ipv6/conf/"
# The value of accept_ra that accepts advertisements even while the interface forwards.
_ALWAYS = "2"
_ACCEPT_RA = f"{_IPV6}accept_ra"
# Their values for ``all`` have no effect: only the interface's own counts.
_OWN_ONLY = (_ACCEPT_RA, f"{_IPV6}accept_ra_defrtr", f"{_IPV6}accept_ra_pinfo", f"{_IPV6}autoconf")
_LIMIT = "net.{family}.neigh.default.gc_thresh{number}"
_SPOKEN = {"ipv4": "IPv4", "ipv6": "IPv6"}
# The kernel uses the larger of the interface's own value and that of all interfaces (inetdevice.h, IN_DEV_MAXCONF).
_LARGER_COUNTS = ("arp_announce", "arp_filter", "arp_ignore", "rp_filter")
_THE_UPLINK = "what reaches the node by the uplink"
_FOR_GOOD = "no variable allows this, because no former value brings that back at once; next: leave it out"
_SECONDS = 10.0
_NOT_ALLOWED = (
    "the kernel rejects this write; next: run as root (become: true) on the host itself, not in a container, "
    "or leave it out of rdma_fabric_sysctls"
)
ERRORS = MappingProxyType(
    {
        "ENOENT": (
            "this kernel has no such setting, or its module or interface is gone; next: load the module "
            "(rdma_fabric_kernel_modules) or leave it out of rdma_fabric_sysctls"
        ),
        "EINVAL": "the kernel refuses the value; next: correct it in rdma_fabric_sysctls",
        "ERANGE": "the value is outside of what the kernel takes; next: correct it in rdma_fabric_sysctls",
        "EPERM": _NOT_ALLOWED,
        "EACCES": _NOT_ALLOWED,
        "EROFS": "/proc/sys is read only, as in a container; next: run on the host itself",
    }
)


class Setting(NamedTuple):
    """One setting of the spec: ``now`` is its present value, None if unknown; ``problem`` says why it can't be set.

    ``waits`` is its interface if that does not exist yet. ``key`` identifies the setting in the baseline: for a setting
    of an interface by PCI address, so that it does not depend on the interface's name.
    """

    name: str
    wanted: str
    now: str | None
    variable: str
    problem: str = ""
    waits: str = ""
    key: str = ""


def plan(context: Context) -> ConcernPlan:
    """Return a step for each setting that differs now, one for our file, and refusals of settings that can't hold."""
    wanted, notices = settings(context)
    steps = [step for setting in wanted for step in _steps_of(context, setting)]
    files = boot_files(context)
    if files and not context.removing and context.boot_differs(files):
        steps.append(_file_step(context, wanted))
    for setting in wanted:
        if not setting.problem and not context.removing:
            steps += _overridden(context, setting)
            notices += _remarks(context, setting, {other.name: other.wanted for other in wanted})
    return steps, [*notices, *_small_tables(context)]


def settings(context: Context) -> tuple[list[Setting], list[str]]:
    """Return every setting of the spec, ordered by name, and notices."""
    derived, notices = multirail_settings(context)
    explicit = asked(context)
    found = [_setting(context, name, value, "rdma_fabric_sysctls") for name, value in explicit.items()]
    found += [
        _setting(context, name, value, "rdma_fabric_multirail_sysctls")
        for name, value in derived.items()
        if name not in explicit
    ]
    kept = sorted(_judged(context, setting) for setting in found if not _goes(context, setting.name))
    return [setting._replace(key=_key(context, setting.name)) for setting in kept], notices


def boot_files(context: Context) -> dict[str, str]:
    """Return the file that sets everything at boot, none if there is nothing to set."""
    lasting = [setting for setting in settings(context)[0] if not setting.problem]
    return {sysctls.FILE: file_text({setting.name: setting.wanted for setting in lasting})} if lasting else {}


def file_text(wanted: Mapping[str, str]) -> str:
    """Return the text of our file; udev applies settings of an interface whenever one of that name appears."""
    return marked(f"{name} = {wanted[name]}" for name in sorted(wanted))


def listed(context: Context) -> dict[str, str]:
    """Return the settings of our file as it is on the host."""
    return {given.name: given.value for given in parse(context.boot_files.get(sysctls.FILE, ""))}


def work(context: Context, step: Step) -> Work:
    """Return how a setting is set, or our file written."""
    key = key_of(step)
    if key == sysctls.FILE:
        return context.work_of_files(boot_files(context))
    name, wanted = step["target"], str(step["to"])
    path = sysctls.attribute(name)
    undo: list[Operation] = [] if step["from"] is None else [SetAttribute(path, str(step["from"]), _SECONDS)]

    def verify(host: Host) -> str:
        now = host.read(path).strip()
        return (
            "" if sysctls.same_value(now, wanted) else f"{name} is {now}, not {wanted}: the kernel took another value"
        )

    return Work([SetAttribute(path, wanted, _SECONDS)], undo, verify)


def restore(desired: HostSpec, key: str, original: Value) -> None:
    """Add the original value of a setting to the spec; the key of an interface's setting has its PCI address."""
    if isinstance(original, str) and key != sysctls.FILE:
        desired["sysctls"][key] = original


def asked(context: Context) -> dict[str, str]:
    """Return the values of rdma_fabric_sysctls, or the original values of a removal, by the names of the settings.

    A removal may have two values of one setting: earlier releases kept it by the name of the interface. That one is the
    older value, so it takes precedence.
    """
    given = context.desired["sysctls"]
    values = {name: value for name, value in given.items() if _port_of(context, name) is None}
    for key, value in given.items():
        port = _port_of(context, key)
        if port is not None:
            values.setdefault(sysctls.for_interface(key, context.name_of(port)), value)
    return values


def value_of(context: Context, name: str) -> str | None:
    """Return the present value of a setting, None if unknown."""
    value = context.actual.facts["settings"].get("sysctl", {}).get(name)
    return None if value is None else " ".join(value.split())


def shared_subnets(addresses: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Return groups of interfaces that share an IPv4 network; ``addresses`` are CIDRs by interface."""
    places = ((network_of(cidr), name) for name, cidrs in addresses.items() for cidr in cidrs)
    of_ipv4 = ((network, name) for network, name in places if isinstance(network, ipaddress.IPv4Network))
    return list(shared_networks(of_ipv4).values())


def multirail_settings(context: Context) -> tuple[dict[str, str], list[str]]:
    """Return the settings of interfaces of the spec that share a subnet, by canonical name, and notices."""
    if not context.desired["multirail_sysctls"]:
        return {}, [] if context.removing else _unguarded(context)
    addresses = context.actual.facts["settings"].get("addresses")
    if addresses is None:
        return {}, ["rdma_fabric_multirail_sysctls: the addresses of this host can't be read, so nothing is set for it"]
    rails = {i.netdev["name"]: context.name_of(i.netdev) for i in context.interfaces if i.netdev is not None}
    shared = shared_subnets({name: cidrs for name, cidrs in addresses.items() if name in rails})
    if not shared:
        return {}, [
            "rdma_fabric_multirail_sysctls: no two of rdma_fabric_interfaces share a subnet, so nothing is set for it"
        ]
    together = sorted({rails[name] for members in shared for name in members})
    settings = {
        sysctls.canonical(f"net/ipv4/conf/{name}/{key}"): value
        for name in together
        for key, value in sysctls.MULTIRAIL.items()
    }
    return settings, []


def cut_by(context: Context, name: str, wanted: str, now: str | None) -> str:
    """Return what a setting would take from the uplink, in words; empty if nothing.

    ``now`` is its present value, None if unknown. A setting that does not change takes nothing.
    """
    parts = _split(name)
    cut = _CUTS.get(parts[0]) if parts else None
    if parts is None or cut is None or (now is not None and sysctls.same_value(now, wanted)):
        return ""
    if not cut.harms(wanted, now):
        return ""
    harmed = [uplink for uplink in _uplinks_with(context, cut.need) if _is_harmed(context, name, wanted, uplink)]
    return "; ".join(
        f"it takes {cut.takes} from {uplink}, which carries the uplink ({context.actual.uplink_of(uplink) or ''})"
        for uplink in harmed
    )


def refusal(context: Context, name: str, wanted: str, now: str | None) -> str:
    """Return why a setting is refused because it would cut the uplink; empty if it may be set.

    Consent only allows what a guard can take back in time.
    """
    cut = cut_by(context, name, wanted, now)
    if not cut:
        return ""
    if now is None or not _CUTS[(_split(name) or ("",))[0]].at_once:
        return f"{cut}; {_FOR_GOOD}"
    return "" if context.consents_to("uplink_change") else f"{cut}; {CONSENTS['uplink_change']}: true allows the change"


def _steps_of(context: Context, setting: Setting) -> list[Step]:
    problem, reason, cut = setting.problem, _asked(context, setting), ""
    if not problem:
        if setting.waits or (setting.now is not None and sysctls.same_value(setting.now, setting.wanted)):
            return []
        reason += f", it is {setting.now or 'not known now'}"
        cut = cut_by(context, setting.name, setting.wanted, setting.now)
    return [
        make_step(
            CONCERN,
            setting.key,
            target=setting.name,
            action=f"set {setting.name} to {setting.wanted}",
            before=setting.now,
            after=setting.wanted,
            reason=reason,
            interrupts=_THE_UPLINK if cut else NOTHING,
            when=NOW,
            undo=f"set it to {setting.now}" if setting.now is not None else "",
            detail=cut,
            refusal=problem,
        )
    ]


def _asked(context: Context, setting: Setting) -> str:
    if context.removing:
        return f"it was {setting.wanted} before rdma.fabric changed it"
    return f"{setting.variable} asks for {setting.wanted}"


def _file_step(context: Context, wanted: list[Setting]) -> Step:
    lasting = {setting.name: setting.wanted for setting in wanted if not setting.problem}
    former = listed(context)
    gone = sorted(set(former) - set(lasting))
    settings_text = "1 setting" if len(lasting) == 1 else f"{len(lasting)} settings"
    return make_step(
        CONCERN,
        sysctls.FILE,
        action=f"have {settings_text} set at every boot",
        before=former,
        after=lasting,
        reason="what is set now would be lost with a reboot, and an interface that appears later would lack it",
        when=BOOT,
        undo=f"write the former {sysctls.FILE}" if former else f"remove {sysctls.FILE}",
        detail=f"{', '.join(gone)} no longer; what is set now stays until the reboot" if gone else "",
    )


def _overridden(context: Context, setting: Setting) -> list[Step]:
    """Return a refusal if a file that is applied after ours sets another value at boot."""
    other = context.actual.facts["settings"].get("sysctl_later", {}).get(setting.name)
    if other is None or sysctls.same_value(other["value"], setting.wanted):
        return []
    return [
        make_step(
            CONCERN,
            f"{setting.name}:boot",
            target=setting.name,
            action=f"have {setting.name} set to {setting.wanted} at every boot",
            before=other["value"],
            after=setting.wanted,
            reason=_asked(context, setting),
            refusal=(
                f"{other['file']} is applied after {sysctls.FILE} and sets it to {other['value']}: remove it there"
            ),
        )
    ]


def _remarks(context: Context, setting: Setting, wanted: Mapping[str, str]) -> list[str]:
    remarks = []
    if setting.waits:
        remarks.append(
            f"{setting.name}: there is no interface {setting.waits} now; it is set when one of that name appears"
        )
    other = context.actual.facts["settings"].get("sysctl_conf", {}).get(setting.name)
    if other is not None and not sysctls.same_value(other, setting.wanted):
        remarks.append(f"/etc/sysctl.conf sets {setting.name} to {other}: sysctl --system would undo {setting.wanted}")
    return remarks + _hidden(context, setting, wanted)


def _hidden(context: Context, setting: Setting, wanted: Mapping[str, str]) -> list[str]:
    """Return a notice if the value of all interfaces is larger, so that the interface's own has no effect."""
    interface = sysctls.interface_of(setting.name)
    if interface is None or setting.name.replace("/", ".").rsplit(".", 1)[-1] not in _LARGER_COUNTS:
        return []
    of_all = sysctls.for_interface(setting.name, "all")
    value = wanted.get(of_all) or value_of(context, of_all) or ""
    if not value.isdecimal() or not setting.wanted.isdecimal() or int(value) <= int(setting.wanted):
        return []
    return [
        f"{setting.name} = {setting.wanted} has no effect: {of_all} is {value}, and the kernel uses the larger one; "
        f"lower {of_all} in rdma_fabric_sysctls"
    ]


def _small_tables(context: Context) -> list[str]:
    """Return a notice for each neighbour table that is too small, unless the spec makes it larger.

    RDMA over Ethernet needs neighbour entries, too: in a flat subnet each rail of a host has an entry for every port
    that it talks to.
    """
    if context.removing or not context.interfaces:
        return []
    found = []
    for family, table in context.actual.facts["settings"].get("neighbours", {}).items():
        name = _LIMIT.format(family=family, number=3)
        asked = context.desired["sysctls"].get(name, "")
        if asked.isdecimal() and int(asked) > table["hard"]:
            continue
        full = f", and was full {table['overflows']} times since the boot" if table["overflows"] else ""
        found.append(
            f"the table of {_SPOKEN[family]} neighbours holds {table['entries']} of at most {table['hard']} entries "
            f"({name}){full}: without room in it connections to further hosts fail (neighbour table overflow in the "
            f"kernel's log); next: raise {_LIMIT.format(family=family, number='1')} to 3 with rdma_fabric_sysctls"
        )
    return found


def _judged(context: Context, setting: Setting) -> Setting:
    problem = setting.problem or refusal(context, setting.name, setting.wanted, setting.now)
    return setting._replace(problem=problem)


def _key(context: Context, name: str) -> str:
    interface = sysctls.interface_of(name)
    for nic in context.actual.nics.values():
        port = context.actual.port_of(nic)
        if port is not None and context.name_of(port) == interface:
            return sysctls.for_interface(name, nic["address"])
    return name


def _goes(context: Context, name: str) -> bool:
    """Return whether a removal destroys the VF of a setting, and the setting with it."""
    interface = sysctls.interface_of(name)
    return any(
        context.destroys(context.actual.nics.get(netdev["pci"] or ""))
        and interface in (netdev["name"], context.name_of(netdev))
        for netdev in context.actual.netdevs.values()
    )


def _setting(context: Context, name: str, wanted: str, variable: str) -> Setting:
    interface = sysctls.interface_of(name)
    later_names = {context.name_of(netdev): netdev["name"] for netdev in context.actual.netdevs.values()}
    if interface is None or interface in later_names:
        former = name if interface is None else sysctls.for_interface(name, later_names[interface])
        problem = "" if _is_there(context, former) else f"this kernel has no {sysctls.attribute(former)}"
        return Setting(name, wanted, value_of(context, former), variable, problem)
    if interface in context.actual.netdevs:
        new_name = context.name_of(context.actual.netdevs[interface])
        problem = f"this plan renames {interface} to {new_name}: write {sysctls.for_interface(name, new_name)}"
        return Setting(name, wanted, None, variable, problem)
    now = value_of(context, name)
    return Setting(name, wanted, now, variable, waits=interface if now is None else "")


def _is_there(context: Context, name: str) -> bool:
    """Return whether the kernel has a setting, or a module that the plan loads may add it."""
    loads = any(step["concern"] == "modules" for step in context.earlier)
    absent = context.actual.facts["settings"].get("sysctl_absent", [])
    return loads or name not in absent


def _port_of(context: Context, key: str) -> Netdev | None:
    """Return the interface whose PCI address a key has in place of its name, None if it has none."""
    nic = context.actual.nics.get(sysctls.interface_of(key) or "")
    return context.actual.port_of(nic) if nic is not None else None


def _unguarded(context: Context) -> list[str]:
    """Return a notice for each group of RDMA ports in one subnet that answer ARP for each other, listed or not."""
    listed = {i.netdev["name"]: context.name_of(i.netdev) for i in context.interfaces if i.netdev is not None}
    found = []
    for network, names in context.actual.facts["settings"].get("shared_subnets", {}).items():
        with_them = "" if listed.keys() >= set(names) else "list all of them in rdma_fabric_interfaces and set "
        found.append(
            f"{', '.join(listed.get(name, name) for name in names)} are in one subnet ({network}), and with arp_ignore "
            "0 each answers ARP for the addresses of all, so traffic may come in by another one than it is for; next: "
            f"{with_them}rdma_fabric_multirail_sysctls: true, or a subnet for each"
        )
    return found


class _Cut(NamedTuple):
    """What a setting takes from an uplink that has ``need``, if ``harms`` is true of the wanted and present value.

    ``at_once``: the former value brings that back at once.
    """

    need: str
    takes: str
    harms: Callable[[str, str | None], bool]
    at_once: bool = False


def _becomes(value: str) -> Callable[[str, str | None], bool]:
    return lambda wanted, now: sysctls.same_value(wanted, value)


def _is_on(wanted: str, now: str | None = None) -> bool:
    return not sysctls.same_value(wanted, "0")


def _accepts_less(wanted: str, now: str | None) -> bool:
    return sysctls.same_value(wanted, "0") or (now == _ALWAYS and not sysctls.same_value(wanted, _ALWAYS))


_ROUTE = "its default route, which router advertisements tell"
_ADDRESSES = "its addresses, which router advertisements tell"
_CUTS = MappingProxyType(
    {
        "net/ipv4/conf/arp_ignore": _Cut(IPV4, "its answers to ARP", _becomes("8"), at_once=True),
        f"{_IPV6}disable_ipv6": _Cut(IPV6, "IPv6 with all of its addresses", _is_on),
        _ACCEPT_RA: _Cut(ADVERTISED, _ROUTE, _accepts_less),
        f"{_IPV6}accept_ra_defrtr": _Cut(ADVERTISED, _ROUTE, _becomes("0")),
        f"{_IPV6}accept_ra_pinfo": _Cut(ADVERTISED, _ADDRESSES, _becomes("0")),
        f"{_IPV6}autoconf": _Cut(ADVERTISED, _ADDRESSES, _becomes("0")),
        f"{_IPV6}addr_gen_mode": _Cut(ADVERTISED, _ADDRESSES, _becomes("1")),
        f"{_IPV6}forwarding": _Cut(ADVERTISED, f"{_ROUTE}, unless its accept_ra is {_ALWAYS} before", _is_on),
    }
)


def _split(name: str) -> tuple[str, str] | None:
    """Split the setting of an interface into its name without the interface, and the interface, all or default."""
    parts = sysctls.path_below(name).split("/")
    if len(parts) != 5 or parts[0] != "net" or parts[2] != "conf":
        return None
    return "/".join([*parts[:3], parts[4]]), parts[3]


def _uplinks_with(context: Context, need: str) -> Iterator[str]:
    for uplink in context.actual.facts["uplinks"]:
        if need in uplink["needs"]:
            yield uplink["netdev"]


def _is_harmed(context: Context, name: str, wanted: str, uplink: str) -> bool:
    accept_ra = sysctls.accept_ra_of(name, uplink)
    if accept_ra is not None:
        return value_of(context, accept_ra) != _ALWAYS
    key, interface = _split(name) or ("", "")
    if key in _OWN_ONLY and interface == _ALL:
        return False
    if key == _ACCEPT_RA and _is_on(wanted) and not _forwards(context, uplink):
        return False
    # An uplink gets its new name at the next boot, and then the setting of that name applies.
    later = (each.wanted.get("name") for each in context.interfaces if each.netdev and each.netdev["name"] == uplink)
    return interface in (_ALL, _DEFAULT, uplink, *later)


def _forwards(context: Context, uplink: str) -> bool:
    """Return whether an uplink forwards IPv6 once the plan is done, or the plan makes another interface forward.

    Both remove the default route of an uplink that does not accept advertisements while forwarding. An unknown value
    counts as forwarding.
    """
    wanted = {name: value for name, value in asked(context).items() if sysctls.accept_ra_of(name, uplink) is not None}
    if any(map(_is_on, wanted.values())):
        return True
    # A write to "all" reaches every interface, but it is not written if it is 0 already.
    of_all = sysctls.forwarding_of(_ALL)
    if of_all in wanted and _is_on(value_of(context, of_all) or ""):
        return False
    netdev = context.actual.netdevs.get(uplink)
    if netdev is not None and sysctls.forwarding_of(context.name_of(netdev)) in wanted:
        return False
    return _is_on(value_of(context, sysctls.forwarding_of(uplink)) or "")


HANDLER = Handler(work, ERRORS, restore)
