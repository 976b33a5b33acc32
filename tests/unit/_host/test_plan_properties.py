# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.concerns import ORDER
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.steps import STATUSES, describe
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.plan import make_plan
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput
from ansible_collections.rdma.fabric.tests.sweeps import examples
from ansible_collections.rdma.fabric.tests.unit._host.host_facts import (
    desired,
    facts,
    facts_after,
    interface,
    ipoib,
    module,
    netdev,
    nic,
    ofed,
    request,
    with_functions,
)

ADDRESSES = ["0000:18:00.0", "0000:40:00.0", "0000:4f:00.0", "0000:5e:00.0"]
NAMES = ["ens1", "ens2", "ens3", "ens4"]
MODULES = ["rdma_ucm", "ib_umad", "nvme_rdma"]
# The same examples in every run, and nothing left behind: a gate that fails can be run again.
REPEATABLE = settings(max_examples=examples(200), derandomize=True, database=None)
MTUS = [1280, 1500, 4200, 9000, 9978, 9979]


@st.composite
def hosts(draw: Any) -> Any:
    """A host with four ports, some with functions, one or none of them the uplink, the last one InfiniBand."""
    netdevs = []
    for name, address in zip(NAMES, ADDRESSES):
        make = ipoib if name == "ens4" else netdev
        netdevs.append(make(name, address, mtu=draw(st.sampled_from([1500, 2044, 4092])), up=draw(st.booleans())))
    layer = {"ens4": "InfiniBand"}
    nics = [
        nic(address, name, link_layer=layer.get(name, "Ethernet"), sriov=draw(st.sampled_from([None, offered()])))
        for name, address in zip(NAMES, ADDRESSES)
    ]
    state = facts(nics, netdevs, modules={name: module() for name in draw(st.sets(st.sampled_from(MODULES)))})
    for entry in nics:
        if entry["sriov"] is not None and draw(st.booleans()):
            state = with_functions(
                state, entry["address"], draw(st.integers(1, 3)), draw(st.sampled_from([1500, 9000]))
            )
    uplink = draw(st.sampled_from([None, *range(len(NAMES))]))
    if uplink is not None:
        state["uplinks"] = [{"netdev": NAMES[uplink], "pci": ADDRESSES[uplink], "reasons": ["default route"]}]
    return state


def offered() -> Any:
    return {"total": 8, "enabled": 0, "vf_device": "101e", "autoprobe": True, "vfs": [], "settings": None}


@st.composite
def wishes(draw: Any) -> Any:
    """What a user may ask of such a host, the impossible included."""
    names = draw(st.permutations([*NAMES, "rail0", "rail1", "rail2", "rail3"]))
    entries = []
    for address, name in zip(draw(st.permutations([*ADDRESSES, "0000:99:00.0"])), names):
        mtu = draw(st.sampled_from([None, *MTUS]))
        vf_mtu = draw(st.sampled_from([None, 1500, mtu]))
        fits = vf_mtu is None or mtu is None or vf_mtu <= mtu
        entries.append(
            interface(
                pci=address,
                # Names of kernel and udev are legal only for who has them, and here they stand for any name in use.
                name=draw(st.sampled_from([None, name])),
                mtu=mtu,
                vf_mtu=vf_mtu if fits else None,
                vfs=draw(st.sampled_from([None, 0, 2, 3, 9])),
                state=draw(st.sampled_from([None, "up", "down"])),
            )
        )
    return desired(
        *draw(st.lists(st.sampled_from(entries), unique_by=lambda entry: entry["pci"])),
        kernel_modules=sorted(draw(st.sets(st.sampled_from(MODULES)))),
        protected_interfaces=draw(st.sampled_from([[], ["ens1"], ["ens9"]])),
        consents={"vf_reset": draw(st.booleans()), "uplink_change": draw(st.booleans())},
        requests=draw(st.sampled_from([[], [request(driver=ofed("24.07-0.6.1.0-0"))]])),
    )


def shuffled(value: Any, order: random.Random) -> Any:
    if isinstance(value, dict):
        items = list(value.items())
        order.shuffle(items)
        return {key: shuffled(item, order) for key, item in items}
    if isinstance(value, list):
        # A function's number is its place in the list, so that one order means something.
        items = [shuffled(item, order) for item in value]
        if items and not isinstance(items[0], str):
            order.shuffle(items)
        return items
    return value


def told_by_facts(plan: Any) -> list[Any]:
    """The steps whose effect ``facts_after`` shows: packages and builds of a driver are not among them."""
    return [step for step in plan["steps"] if step["concern"] not in {"driver", "peer_memory"}]


@pytest.mark.slow
@given(hosts(), wishes())
@REPEATABLE
def test_a_plan_is_ordered_and_each_step_is_told_apart(state: Any, wanted: Any) -> None:
    steps = make_plan(wanted, state)["steps"]
    positions = [ORDER.index(step["concern"]) for step in steps]
    assert positions == sorted(positions)
    ids = [step["id"] for step in steps]
    assert len(ids) == len(set(ids))
    for step in steps:
        assert step["status"] in STATUSES
        assert step["reason"] and step["action"] and step["target"] and step["undo"] and step["interrupts"]
        assert (step["consent"] is not None) >= (step["status"] == "needs_consent")
        assert step["detail"] or step["status"] not in ("refused",)
        assert describe(step).isprintable()


@pytest.mark.slow
@given(hosts(), wishes(), st.randoms(use_true_random=False))
@REPEATABLE
def test_the_order_of_the_input_does_not_matter(state: Any, wanted: Any, order: random.Random) -> None:
    assert make_plan(shuffled(wanted, order), shuffled(state, order)) == make_plan(wanted, state)


@pytest.mark.slow
@given(hosts(), wishes())
@REPEATABLE
def test_a_plan_that_was_carried_out_is_not_planned_again(state: Any, wanted: Any) -> None:
    plan = make_plan(wanted, state)
    again = make_plan(wanted, facts_after(plan, state))
    if all(step["status"] == "planned" for step in plan["steps"]):
        assert told_by_facts(again) == []
    done = {step["id"] for step in told_by_facts(plan) if step["status"] == "planned"}
    assert not done & {step["id"] for step in again["steps"]}


@pytest.mark.slow
@given(hosts(), wishes())
@REPEATABLE
def test_repeated_runs_come_to_rest(state: Any, wanted: Any) -> None:
    for _run in range(4):
        plan = make_plan(wanted, state)
        state = facts_after(plan, state)
    assert [step for step in told_by_facts(make_plan(wanted, state)) if step["status"] == "planned"] == []


@given(hosts(), wishes())
@REPEATABLE
def test_no_step_that_a_run_executes_interrupts_the_uplink(state: Any, wanted: Any) -> None:
    wanted["consents"]["uplink_change"] = False
    protected = {uplink["pci"] for uplink in state["uplinks"]}
    protected |= {entry["pci"] for entry in state["netdevs"] if entry["name"] in wanted["protected_interfaces"]}
    for step in make_plan(wanted, state)["steps"]:
        if step["status"] == "planned" and step["interrupts"] != "nothing":
            assert step["id"].split(":", 1)[1].replace(":vfs", "") not in protected
            assert not any(name in step["interrupts"].split() for name in wanted["protected_interfaces"])


@pytest.mark.slow
@given(hosts(), wishes())
@REPEATABLE
def test_planning_changes_neither_wish_nor_facts(state: Any, wanted: Any) -> None:
    before = repr((wanted, state))
    make_plan(wanted, state)
    assert repr((wanted, state)) == before


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "interfaces",
                        "pci",
                        "name",
                        "mtu",
                        "consents",
                        "vf_reset",
                        "requests",
                        "driver",
                        "node_labels",
                        "protected_interfaces",
                    ]
                )
                | st.text(max_size=3),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
@REPEATABLE
def test_any_document_is_accepted_or_refused_with_violations(document: Any) -> None:
    try:
        accepted = check_spec(document)
    except InvalidInput as invalid:
        assert invalid.violations
    else:
        make_plan(accepted, facts())
