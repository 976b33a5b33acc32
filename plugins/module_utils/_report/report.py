# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report of a run as plain data: what was found, planned, pushed and left undone. Pure.

The same input gives the same report; time and measurements come in from outside. The schema of the result is
``docs/report.schema.json``.
"""

from __future__ import annotations

import json
from typing import Any, Collection, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.document import failure_lines, left_out_together
from ansible_collections.rdma.fabric.plugins.module_utils._violations import named

from .cluster import cluster_section, images_of
from .hosts import STEP_STATUSES, counted, host_row, natural_key, step_counts
from .ipoib import has_ipoib
from .outcome import outcome_of, refusals
from .parts import PUSH, WORDS, Parts
from .remarks import ATTENTION, KINDS, UNFINISHED, fleet_remarks
from .rollout import rollout_section
from .topology import built_alike, device_map, topology_classes
from .wire import nccl_section, proof_words, verification_section

FORMAT = "rdma.fabric/report/v1"
# What differs between two runs that found the same: kept from the older report while nothing else changed.
VOLATILE = ("generated_at", "measured")
_STEP_KEYS = (
    "id",
    "concern",
    "target",
    "action",
    "from",
    "to",
    "when",
    "reason",
    "interrupts",
    "undo",
    "status",
    "consent",
    "detail",
)
_THE_PUSH = "The push to a cluster"
# What changes objects: what a run does, and what it has done.
_CHANGES = {
    "created": ("to create", "created"),
    "configured": ("to change", "changed"),
    "deleted": ("to delete", "deleted"),
}
_REQUEST_SECTIONS = ("node_policies", "networks", "attachments", "objects")


def build_report(
    *,
    spec: dict[str, Any] | None,
    hosts: list[dict[str, Any]],
    cluster: dict[str, Any] | None,
    rendered: list[dict[str, Any]],
    notices: list[str],
    unknown_interfaces: Sequence[str] = (),
    generated_at: str,
    title: str,
    validation: dict[str, Any] | None = None,
    unfinished: Sequence[Mapping[str, str]] = (),
    earlier: Collection[str] = (),
    left_out: Collection[str] = (),
    wanted: Sequence[str] = (),
    proof: Mapping[str, Any] | None = None,
    nccl: Mapping[str, Any] | None = None,
    nccl_result: Mapping[str, Any] | None = None,
    turns: Sequence[dict[str, Any]] = (),
    run: Mapping[str, Any] | None = None,
    check: bool = False,
) -> dict[str, Any]:
    """Return the report of one run. ``check``: it was one of check mode.

    ``hosts`` are host documents, ``cluster`` the result of the batch apply (None: not asked for), ``rendered`` the
    waves, ``validation`` the document of a fabric test; all of them have passed ``documents``. ``unfinished``: hosts
    that the run did not bring to the end (``host``, ``why``). ``earlier``: hosts whose documents are of a run before
    this one, which are shown and not counted; ``left_out``: hosts that this run was not to read. ``wanted`` are the
    parts that the run was to bring about beside the hosts (``report_parts.PARTS``). ``proof`` is the result of the task
    that proves; without one ``validation`` is shown and not counted. ``nccl`` is the document of NCCL tests,
    ``nccl_result`` the result of the task that ran them, if this run did. ``turns`` are what the turns of hosts took,
    of this run or one before it. ``unknown_interfaces`` are notices of interfaces that cluster objects name and no host
    has. ``generated_at`` is an ISO 8601 time in UTC. ``run`` is how the run was started: the collection's ``version``,
    ``command``, ``limit`` and ``inventory``.
    """
    documents = sorted(hosts, key=lambda document: natural_key(document["host"]))
    expected = None if spec is None else sorted(spec.get("hosts") or {}, key=natural_key)
    classes = topology_classes([(document["host"], device_map(document["facts"])) for document in documents])
    plans = _plans(documents)
    reasons = {each["host"]: each["why"] for each in unfinished}
    remarks = fleet_remarks(
        documents, expected, reasons, built_alike(classes), left_out=left_out, over_ipoib=has_ipoib(spec)
    )
    rows = [{**host_row(document), "earlier": document["host"] in earlier} for document in documents]
    _refer(rows, classes, plans, remarks)
    parts = Parts(wanted, cluster, proof, nccl_result, whole=not unfinished)
    pushed = cluster_section(cluster, rendered, parts.push_missing())
    # A proof that this run was to repeat and did not would pass for its own.
    validation = None if parts.proof_missing() else validation
    report = {
        "format": FORMAT,
        "title": title,
        "generated_at": generated_at,
        "run": {"version": "", "command": "", "limit": "", "inventory": [], **(run or {})},
        "measured": _measured(cluster),
        "asked": _asked(spec),
        "hosts": rows,
        "topologies": classes,
        "plans": plans,
        "cluster": pushed,
        "validation": verification_section(validation),
        "nccl": None if nccl is None or parts.nccl_broke() else nccl_section(nccl),
        "rollout": rollout_section(turns),
        "images": images_of(rendered),
        "remarks": remarks,
        "remark_kinds": {kind: KINDS[kind] for kind in KINDS if any(r["kind"] == kind for r in remarks)},
        "notices": list(dict.fromkeys([*notices, *unknown_interfaces, *((cluster or {}).get("notices") or [])])),
    }
    own = of_this_run(report, proved=proof is not None)
    summary = _summary(own, parts, unknown_interfaces, check=check)
    report["summary"] = summary
    summary["outcome"] = outcome_of({**own, "summary": summary}, [*reasons], check=check)
    return report


def of_this_run(report: dict[str, Any], *, proved: bool | None = None) -> dict[str, Any]:
    """Return the report without what it shows of earlier runs, of hosts and a proof: what a run's result is made of.

    That a host did not finish is of this run also where its facts are not. Whether the run ``proved`` its
    summary says, once there is one.
    """
    proved = bool(report["summary"]["pairs"]) if proved is None else proved
    earlier = {row["name"] for row in report["hosts"] if row["earlier"]}
    plans = [{**plan, "hosts": [host for host in plan["hosts"] if host not in earlier]} for plan in report["plans"]]
    return {
        **report,
        "hosts": [row for row in report["hosts"] if not row["earlier"]],
        "plans": [plan for plan in plans if plan["hosts"]],
        "validation": report["validation"] if proved else None,
        "remarks": [each for each in report["remarks"] if each["host"] not in earlier or each["kind"] == UNFINISHED],
    }


def report_text(report: dict[str, Any]) -> str:
    """Return the report as JSON text: sorted keys, plain ASCII, one newline at the end."""
    return json.dumps(report, indent=1, sort_keys=True) + "\n"


def keep_volatile(report: dict[str, Any], older: Any) -> dict[str, Any]:
    """Return ``report`` with time and measurements of ``older`` when nothing else differs between the two."""
    if not isinstance(older, dict) or any(key not in older for key in VOLATILE):
        return report
    kept = {**report, **{key: older[key] for key in VOLATILE}}
    return kept if kept == older else report


def recap_lines(report: dict[str, Any], *, check: bool = False) -> list[str]:
    """Return what the end of a run says of its own hosts: the headline, what needs attention, what was not done.

    ``check``: the run was one of check mode, so what the report calls done would only be.
    """
    report = of_this_run(report)
    summary = report["summary"]
    lines = [_headline(summary, report, check=check)]
    # In the order of the remarks, which also a report that was read from a file has; its keys are sorted.
    for kind in dict.fromkeys(remark["kind"] for remark in report["remarks"]):
        text = report["remark_kinds"][kind]
        names = [remark["host"] for remark in report["remarks"] if remark["kind"] == kind]
        if text["severity"] == ATTENTION:
            lines.append(f"attention: {text['title']}: {named(names, 5)}")
    lines += [f"attention: {each}" for each in summary["unknown_interfaces"]]
    if report["validation"]:
        lines += [f"attention: {line}" for line in failure_lines(report["validation"], 5)]
        odd = [each["says"] for each in report["validation"]["parity"] if each["verdict"] == "fail"]
        lines += [f"attention: {line}" for line in odd[:5]]
    lines += refusals(report)
    lines += _waiting_steps(report["plans"], summary["steps"])
    lines += [f"not ready: {w['kind']}/{w['name']}: {w['reason'] or ''}" for w in _waiting(report)]
    lines += [f"not done: {item['what']}: {item['why']}" for item in summary["not_done"]]
    return lines


def outline(report: dict[str, Any]) -> list[str]:
    """Return one line for each thing that the report says: what a difference between two reports is shown with."""
    lines = [report["summary"]["headline"]]
    for row in report["hosts"]:
        steps = counted(row["steps"]["total"], "step")
        links = ", ".join(f"{count} {state}" for state, count in sorted(row["links"].items()))
        lines.append(f"host {row['name']}: {steps} {row['plan_digest']}, links: {links}")
    for remark in report["remarks"]:
        devices = "; ".join(f"{device['name']} {device['seen']}".strip() for device in remark["devices"])
        lines.append(f"remark {remark['kind']}: {remark['host']}: {devices}")
    for wave in report["cluster"]["waves"]:
        for item in wave["objects"]:
            name = "/".join(part for part in (item["kind"], item["namespace"], item["name"]) if part)
            lines.append(f"object {name}: {' '.join([item['action'], *item['fields']])}")
    for wait in report["cluster"]["waits"]:
        lines.append(f"wait {wait['kind']}/{wait['name']}: {'ready' if wait['ready'] else wait['reason']}")
    for network in (report.get("validation") or {}).get("networks", []):
        lines += [
            f"pair {pair['a']} - {pair['b']} on {network['label']}: {pair['verdict']}" for pair in network["pairs"]
        ]
    lines += [f"image {entry['image']}" for entry in report["images"]]
    return lines + [f"notice {notice}" for notice in report["notices"]]


def _plans(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Group hosts whose plans are equal, the biggest group first; hosts with an empty plan come last."""
    grouped: dict[str, dict[str, Any]] = {}
    for document in documents:
        steps = [{key: step.get(key) for key in _STEP_KEYS} for step in document["plan"]["steps"]]
        plan = {"steps": steps, "notices": document["plan"]["notices"]}
        same = json.dumps(plan, sort_keys=True)
        grouped.setdefault(same, {**plan, "hosts": []})["hosts"].append(document["host"])
    ordered = sorted(
        grouped.values(), key=lambda p: (not p["steps"], -len(p["hosts"]) * len(p["steps"]), natural_key(p["hosts"][0]))
    )
    return [
        {"id": f"plan-{index}", "hosts": plan["hosts"], "counts": step_counts(plan["steps"]), **plan}
        for index, plan in enumerate(ordered, 1)
    ]


def _refer(
    rows: list[dict[str, Any]],
    classes: list[dict[str, Any]],
    plans: list[dict[str, Any]],
    remarks: list[dict[str, Any]],
) -> None:
    """Write into every host's row which class, plan and remarks are its own."""
    class_of = {name: entry["id"] for entry in classes for name in entry["hosts"]}
    plan_of = {name: entry["id"] for entry in plans for name in entry["hosts"]}
    remarks_of: dict[str, list[dict[str, Any]]] = {}
    for remark in remarks:
        remarks_of.setdefault(remark["host"], []).append(remark)
    for row in rows:
        own = remarks_of.get(row["name"], [])
        row["topology"] = class_of[row["name"]]
        row["plan"] = plan_of[row["name"]]
        row["remarks"] = {
            "attention": sum(remark["severity"] == ATTENTION for remark in own),
            "notes": sum(remark["severity"] != ATTENTION for remark in own),
        }


def _asked(spec: dict[str, Any] | None) -> dict[str, Any]:
    if spec is None:
        return {"namespace": None, "cluster_policy": None, "sections": [], "counts": {}}
    policy = spec.get("cluster_policy")
    return {
        "namespace": spec.get("namespace"),
        "cluster_policy": policy["name"] if policy else None,
        "sections": sorted(policy["spec"]) if policy else [],
        "counts": {section: len(spec.get(section) or []) for section in _REQUEST_SECTIONS},
        **({"engine": spec["engine"]} if spec.get("chart") else {}),
    }


def _measured(cluster: dict[str, Any] | None) -> dict[str, Any]:
    if not cluster:
        return {"requests": {}}
    return {"requests": {verb: count for verb, count in sorted((cluster.get("requests") or {}).items()) if count}}


def _waiting(report: dict[str, Any]) -> list[dict[str, Any]]:
    return [wait for wait in report["cluster"]["waits"] if not wait["ready"]]


def idle_waits(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the waits for workloads that are through because no node takes their pods."""
    return [wait for wait in report["cluster"]["waits"] if wait["ready"] and wait["desired"] == 0]


def _summary(report: dict[str, Any], parts: Parts, unknown_interfaces: Sequence[str], *, check: bool) -> dict[str, Any]:
    rows, cluster = report["hosts"], report["cluster"]
    rails = [rail for row in rows for rail in row["rails"]]
    families = [family for row in rows for family in row["nics"]]
    steps = {key: sum(row["steps"][key] for row in rows) for key in ("total", *STEP_STATUSES)}
    attention = sum(remark["severity"] == ATTENTION for remark in report["remarks"])
    summary: dict[str, Any] = {
        "hosts": {"total": len(rows), "recorded": sum(row["recorded"] for row in rows)},
        "nics": {
            "physical": sum(family["physical"] for family in families),
            "virtual": sum(family["virtual"] for family in families),
        },
        "gpus": sum(gpu["count"] for row in rows for gpu in row["gpus"]),
        "rails": {"total": len(rails), "up": sum(rail["link"] == "up" for rail in rails)},
        "steps": steps,
        "executed": sum(row["executed"] for row in rows),
        "objects": cluster["counts"],
        "waits": {"total": len(cluster["waits"]), "ready": sum(wait["ready"] for wait in cluster["waits"])},
        "remarks": {"attention": attention, "notes": len(report["remarks"]) - attention},
        "notices": len(report["notices"]),
        "unknown_interfaces": list(unknown_interfaces),
        "pairs": dict(report["validation"]["counts"]) if report["validation"] else None,
        "failed": parts.failed(),
    }
    failed = (report["validation"] or {}).get("verdict") == "fail"
    summary["verdict"] = _verdict(summary, len(idle_waits(report)), failed=failed)
    summary["headline"] = _headline(summary, report)
    summary["not_done"] = _not_done(report, summary, parts, check=check)
    return summary


def _verdict(summary: dict[str, Any], idle: int, *, failed: bool) -> str:
    steps, objects, waits = summary["steps"], summary["objects"], summary["waits"]
    if (
        failed
        or summary["failed"]
        or summary["remarks"]["attention"]
        or summary["unknown_interfaces"]
        or steps["refused"]
        or waits["ready"] < waits["total"]
        or idle
    ):
        return "attention"
    return "pending" if steps["total"] or objects["rendered"] else "settled"


def _headline(summary: dict[str, Any], report: dict[str, Any], *, check: bool = False) -> str:
    hosts, refused, waits = summary["hosts"], summary["steps"]["refused"], summary["waits"]
    steps = summary["steps"]["total"] - refused
    remarks, lame = summary["remarks"]["attention"], waits["total"] - waits["ready"]
    unknown, idle = len(summary["unknown_interfaces"]), len(idle_waits(report))
    recorded = "recorded host" if hosts["recorded"] == hosts["total"] else "host"
    some = f"{hosts['recorded']:,} of them recorded" if 0 < hosts["recorded"] < hosts["total"] else ""
    parts = [
        *([proof_words(report["validation"])] if report["validation"] else []),
        *(f"the {WORDS[part]} failed" for part in summary["failed"]),
        *([f"{counted(hosts['total'], recorded)} planned"] if hosts["total"] else []),
        *([some] if some else []),
        *([f"{counted(summary['executed'], 'step')} executed"] if summary["executed"] else []),
        *([f"{counted(steps, 'step')} pending" if steps else "no step pending"] if hosts["total"] else []),
        *([f"{counted(refused, 'step')} refused"] if refused else []),
        *_objects(summary["objects"], rendered=bool(report["cluster"]["skipped"]), check=check),
        *([f"{counted(lame, 'workload')} not ready"] if lame else []),
        *([f"{counted(idle, 'workload')} on no node"] if idle else []),
        *([counted(remarks, "remark")] if remarks else []),
        *([counted(unknown, "unmet need")] if unknown else []),
        *([] if summary["verdict"] == "attention" else ["nothing stands out"]),
    ]
    return ", ".join(parts)


def _objects(objects: Mapping[str, int], *, rendered: bool, check: bool) -> list[str]:
    """Return how many objects are in the cluster and what became of them, or in check mode what would."""
    if not objects["total"]:
        return []
    if rendered:
        return [f"{counted(objects['total'], 'object')} rendered"]
    present = objects["total"] - objects["created" if check else "deleted"]
    changes = [(todo if check else done, objects[action]) for action, (todo, done) in _CHANGES.items()]
    told = [("in the cluster", present), *changes]
    first, *others = [(words, count) for words, count in told if count]
    return [f"{counted(first[1], 'object')} {first[0]}", *(f"{count:,} {words}" for words, count in others)]


def _not_done(report: dict[str, Any], summary: dict[str, Any], parts: Parts, *, check: bool) -> list[dict[str, str]]:
    """Return what the run was to bring about and did not, in check mode what a run would not either."""
    done: list[dict[str, str]] = []

    def say(what: str, why: str) -> None:
        done.append({"what": what, "why": why})

    skipped = report["cluster"]["skipped"]
    if skipped and (PUSH in summary["failed"] or parts.was_wanted(PUSH)):
        say(_THE_PUSH, skipped)
    if parts.proof_missing():
        say("The proof on the wire", str(parts.proof_missing()))
    recorded = summary["hosts"]["recorded"] == summary["hosts"]["total"]
    if summary["steps"]["planned"] and parts.was_wanted(PUSH) and (recorded or not check):
        why = "recorded hosts are only planned" if recorded else "the hosts were read and planned"
        say(counted(summary["steps"]["planned"], "planned step"), why)
    if report["validation"]:
        for who, why in left_out_together(report["validation"]["left_out"]):
            say(f"The proof of {who}", why)
        pairs = [pair for network in report["validation"]["networks"] for pair in network["pairs"]]
        if not any(rate["memory"] == "gpu" for pair in pairs for rate in pair["rates"]):
            say("GPUDirect transfers", "no pod had a GPU, so the proof wrote between host memories")
    if parts.unwaited():
        say(f"Waiting for {counted(parts.unwaited(), 'workload')}", "rdma_fabric_wait is false")
    idle = len(idle_waits(report))
    if idle:
        say(f"Pods of {counted(idle, 'workload')}", "no node takes them, so none was started")
    return done


def _waiting_steps(plans: list[dict[str, Any]], counts: Mapping[str, int]) -> list[str]:
    """Return a line for steps that wait for a consent, and one for those that wait for a boot."""
    steps = [step for plan in plans for step in plan["steps"]]
    consents = sorted({step["consent"] for step in steps if step["status"] == "needs_consent" and step["consent"]})
    concerns = sorted({step["concern"].replace("_", " ") for step in steps if step["status"] == "needs_reboot"})
    return [
        *([f"consent: {counted(counts['needs_consent'], 'step')}: set {named(consents, 5)}"] if consents else []),
        *([f"reboot: {named(concerns, 5)}: takes effect with the next boot"] if concerns else []),
    ]
