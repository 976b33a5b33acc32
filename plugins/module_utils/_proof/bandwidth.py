# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a measured bandwidth is what the link, PCIe and the way to the GPU allow. Pure.

The measured value is the median of the averages of large messages, in Gb/s; the expected one is what the narrowest
part of the way carries. Rates of links are payload rates as sysfs and vendors give them (100, 200, 400 Gb/s).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput, Violation

from .output_text import is_positive
from .perftest import LARGE_MESSAGE

KINDS = ("host", "gpu")
# Memory of such a GPU is not behind its PCIe slot.
C2C = "C2C"
DISTANCES = ("PIX", "PXB", C2C, "PHB", "NODE", "SYS")

# Gb/s that a lane carries after encoding, headers and flow control, by its speed in GT/s. Measured ceilings: Gen3 x16
# 105 to 110, Gen4 x16 200 to 215, Gen5 x16 420 to 440, Gen6 x16 about 850. The lower ends are taken.
_LANE_GBPS = {2.5: 1.7, 5.0: 3.4, 8.0: 6.6, 16.0: 12.6, 32.0: 26.2, 64.0: 53.0}
_WIDTHS = (1, 2, 4, 8, 12, 16, 32)

HOST_THRESHOLD = 0.90
# Between GPU and NIC one or more switches keep up with the link. Through a host bridge the processor forwards the
# packets, and how well depends on its model: measured rates lie between half and nine tenths, so only what is plainly
# broken fails.
# Across NUMA nodes the link between processors is shared besides.
# Over NVLink-C2C (Grace) the processor forwards them as well; no public measurement of it with perftest is known, so it
# is asked for as much as one host bridge.
GPU_THRESHOLDS = {"PIX": 0.85, "PXB": 0.85, C2C: 0.70, "PHB": 0.70, "NODE": 0.60, "SYS": 0.50}
_WAY = {
    "PHB": "through a host bridge (PHB)",
    "NODE": "through two host bridges of one NUMA node (NODE)",
    "SYS": "across NUMA nodes (SYS)",
}


class Way(NamedTuple):
    """The way of a test as its caller knows it: rate of the link in Gb/s, kind of memory, distance of GPU and NIC."""

    link_gbps: float | None
    kind: str
    distance: str | None

    @property
    def slow(self) -> bool:
        """Whether the processor stands between GPU and NIC."""
        return self.kind == "gpu" and self.distance in _WAY


class Limit(NamedTuple):
    """The narrowest part of a way: ``name`` is link, pcie or gpu path, ``gbps`` what it carries in one direction."""

    name: str
    gbps: float
    what: str


def pcie_gbps(speed_gts: float, width: int) -> float:
    """Return the Gb/s that a PCIe link carries in one direction: ``speed_gts`` in GT/s a lane, ``width`` in lanes."""
    return round(_LANE_GBPS[speed_gts] * width, 1)


def bandwidth_verdict(
    result: dict[str, Any],
    link_gbps: float | None = None,
    *,
    pcie: dict[str, Any] | None = None,
    kind: str | None = None,
    distance: str | None = None,
    gpu_pcie: dict[str, Any] | None = None,
    emulated: bool = False,
    threshold: float | None = None,
) -> dict[str, Any]:
    """Judge a bandwidth result of :func:`perftest.perftest_result`; the verdict is documented with the filter.

    ``kind`` says whose memory was at the ends (one of KINDS; without it gpu if the output says so), ``distance`` the
    label of the path between GPU and NIC, ``pcie`` and ``gpu_pcie`` are ``{"speed_gts", "width"}`` of their slots,
    ``threshold`` replaces the gate (a share of the expected rate). Raises InvalidInput with every flaw.
    """
    way = Way(link_gbps, kind or _kind(result), distance)
    _check(result, way, {"pcie": pcie, "gpu_pcie": gpu_pcie}, threshold)
    measured = result["summary"]["average_gbps"] if result["summary"] else None
    limit = _limit(link_gbps, pcie, gpu_pcie if way.kind == "gpu" and distance != C2C else None)
    directions = 2 if result["bidirectional"] else 1
    expected = round(limit.gbps * directions, 1) if limit else None
    ratio = round(measured / expected, 3) if measured is not None and expected else None
    gate = threshold if threshold is not None else _gate(way)
    verdict: dict[str, Any] = {
        "measured_gbps": measured,
        "expected_gbps": expected,
        "limit": None if limit is None else "gpu path" if way.slow else limit.name,
        "ratio": ratio,
        "threshold": None if emulated else gate,
        "hints": [],
    }
    if measured is None or not result["complete"]:
        return {"verdict": "fail", "reason": _broken(result, measured), **verdict}
    told = f"{_rate(measured)} measured"
    if limit is None or ratio is None:
        return {"verdict": "reported", "reason": f"{told}; no link rate is given to judge it by", **verdict}
    told += f", {expected:.1f} Gb/s expected of {limit.what}{' in both directions' if directions == 2 else ''}"
    if emulated:
        return {"verdict": "reported", "reason": f"{told}; the hardware is emulated, its rate is not judged", **verdict}
    outcome, why = _judge(result, ratio, gate, way)
    verdict["hints"] = _hints(result, limit, ratio, way) if outcome != "pass" else []
    return {"verdict": outcome, "reason": f"{told}: {why}", **verdict}


def _rate(gbps: float) -> str:
    return f"{gbps:.1f} Gb/s" if gbps >= 1 else f"{gbps * 1000:.0f} Mb/s"


def _judge(result: dict[str, Any], ratio: float, gate: float | None, way: Way) -> tuple[str, str]:
    """Return the verdict and its reason for a rate that may be judged; no ``gate``: the way to the GPU is not known."""
    share = f"{ratio:.0%}"
    if gate is None:
        return _judge_unknown_way(ratio, share)
    through = f" on a way {_WAY[str(way.distance)]}" if way.slow else ""
    if ratio >= gate:
        return "pass", f"{share} is at least the {gate:.0%} required{through}"
    largest = (result["summary"] or {}).get("largest_bytes")
    if largest is not None and largest < LARGE_MESSAGE:
        why = f"{share} is below {gate:.0%}, but messages of {largest} bytes do not show the rate of a link"
        return "reported", f"{why}; measure with {LARGE_MESSAGE} bytes or more"
    return "fail", f"{share} is below the {gate:.0%} required{through}"


def _judge_unknown_way(ratio: float, share: str) -> tuple[str, str]:
    best, worst = max(GPU_THRESHOLDS.values()), min(GPU_THRESHOLDS.values())
    if ratio >= best:
        return "pass", f"{share} is at least the {best:.0%} required on the shortest path between GPU and NIC"
    if ratio < worst:
        return "fail", f"{share} is below the {worst:.0%} required even across NUMA nodes"
    why = f"{share} is too little for a GPU beside its NIC ({best:.0%}) and enough across NUMA nodes ({worst:.0%})"
    return "reported", f"{why}; give the PCI distance to judge it"


def _kind(result: Any) -> str:
    return "gpu" if isinstance(result, dict) and result.get("cuda") else "host"


def _gate(way: Way) -> float | None:
    if way.kind == "host":
        return HOST_THRESHOLD
    return GPU_THRESHOLDS[way.distance] if way.distance else None


def _limit(link_gbps: float | None, pcie: dict[str, Any] | None, gpu_pcie: dict[str, Any] | None) -> Limit | None:
    if link_gbps is None:
        return None
    limits = [Limit("link", float(link_gbps), f"a link of {link_gbps:g} Gb/s")]
    for name, place, link in (("pcie", "the NIC", pcie), ("gpu path", "the GPU", gpu_pcie)):
        if link and link.get("speed_gts") and link.get("width"):
            speed, width = float(link["speed_gts"]), int(link["width"])
            what = f"PCIe at {speed:g} GT/s x{width} of {place}"
            limits.append(Limit(name, pcie_gbps(speed, width), what))
    return min(limits, key=lambda limit: limit.gbps)


def _broken(result: dict[str, Any], measured: float | None) -> str:
    start = "the output is not complete" if measured is not None else "nothing was measured"
    if not result["problems"]:
        return start
    first = result["problems"][0]
    return f"{start}: {first['problem']} ({first['cause']}; {first['next_step']})"


def _hints(result: dict[str, Any], limit: Limit, ratio: float, way: Way) -> list[str]:
    """Return what to look at next, from what the output and the machine already tell."""
    hints = []
    if limit.name != "link":
        hints.append(f"the port could do {way.link_gbps:g} Gb/s: {limit.what} holds it back (slot, bifurcation, BIOS)")
    if result["bidirectional"] and result.get("source") == "json" and ratio < 0.6:
        # Each of its three tables is written over the one before (linux-rdma/perftest, pull request 322).
        hints.append("the JSON of a run with --report-both has one direction alone: judge its text, or leave that out")
    mtu = result.get("mtu")
    if mtu is not None and mtu < 4096:
        hints.append(f"the path MTU is {mtu} bytes: raise the MTU of the interfaces and the fabric (9000 gives 4096)")
    if result.get("qps") == 1 and (way.link_gbps or 0) >= 400:
        hints.append("one queue pair may not fill this link: use -q 4")
    if way.kind == "gpu" and (way.slow or way.distance is None):
        hints.append(
            "give the pod the GPU and the NIC of one rail (one PCIe switch), and its processors of that NUMA node"
        )
    elif way.kind == "gpu" and way.distance == C2C:
        hints.append(
            "check that the SMMU passes addresses through (iommu.passthrough=1), and pin to the GPU's processor"
        )
    elif way.kind == "gpu" and ratio < min(GPU_THRESHOLDS.values()):
        hints.append(
            "check ACS on the switches between GPU and NIC, and the IOMMU (iommu=pt, on Arm iommu.passthrough=1)"
        )
    elif way.kind == "host" and ratio < 0.6:
        hints.append(
            "about half of the rate: compare PCIe speed and width with their maximum, and pin to the NIC's NUMA node"
        )
    return hints


def _check(result: Any, way: Way, links: dict[str, Any], threshold: Any) -> None:
    flaws: list[Violation] = []
    if not isinstance(result, dict) or not {"kind", "summary", "complete", "problems", "bidirectional"} <= set(result):
        hint = "pass what the filter perftest_result returned"
        flaws.append(Violation("result", "", "this is not a result of perftest", hint))
    elif result["kind"] == "latency":
        flaws.append(Violation("result", "kind", "a latency test has no bandwidth to judge", "run a *_bw test"))
    if way.link_gbps is not None and not is_positive(way.link_gbps):
        flaws.append(Violation("link_gbps", "", f"{way.link_gbps!r} is not a rate in Gb/s", "such as 100 or 400"))
    if way.kind not in KINDS:
        flaws.append(Violation("kind", "", f"{way.kind!r} is not a kind of memory", f"one of {', '.join(KINDS)}"))
    if way.distance is not None and way.distance not in DISTANCES:
        flaws.append(Violation("distance", "", f"{way.distance!r} is not a distance", f"one of {', '.join(DISTANCES)}"))
    if threshold is not None and not (is_positive(threshold) and threshold <= 1):
        flaws.append(Violation("threshold", "", f"{threshold!r} is not a share", "such as 0.9"))
    for name, link in links.items():
        flaws += _link_flaws(name, link)
    if flaws:
        raise InvalidInput(flaws)


def _link_flaws(name: str, link: Any) -> list[Violation]:
    if link is None:
        return []
    if not isinstance(link, dict):
        return [Violation(name, "", f"{type(link).__name__} given, a mapping is needed", "speed_gts and width")]
    speed, width = link.get("speed_gts"), link.get("width")
    flaws = []
    if speed is not None and not (is_positive(speed) and float(speed) in _LANE_GBPS):
        known = ", ".join(f"{each:g}" for each in _LANE_GBPS)
        flaws.append(Violation(name, "speed_gts", f"{speed!r} is not a PCIe speed in GT/s", f"one of {known}"))
    if width is not None and (isinstance(width, bool) or width not in _WIDTHS):
        known = ", ".join(str(each) for each in _WIDTHS)
        flaws.append(Violation(name, "width", f"{width!r} is not a PCIe width", f"one of {known}"))
    return flaws
