# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Routes and rules with everything else that a run does: kept, there after a boot, and gone again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.concerns import ORDER
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.managers.routes import PROTOCOL, kept_in
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import BOOT_SPEC_FILE
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run
from ansible_collections.rdma.fabric.tests.unit._host import igb
from ansible_collections.rdma.fabric.tests.unit._host.families import PF
from ansible_collections.rdma.fabric.tests.unit._host.kernel import routes
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.kernel.sweep import sweep
from ansible_collections.rdma.fabric.tests.unit._host.routing.hosts import (
    ALL,
    EVERYTHING,
    IPV4,
    LINK,
    PORT,
    REMOVE,
    RULE,
    RULE6,
    STATIC,
    STEP,
    applied,
    done,
    host,
    ip,
    told,
    wish,
)

MANAGED = "/etc/systemd/network/20-rail.network"
DROP_IN = f"{MANAGED}.d/90-rdma-fabric.conf"
NETWORKD = "/etc/systemd/system/multi-user.target.wants/systemd-networkd.service"
EVERY: Run = replace(igb.APPLY, concerns=ORDER)


class TestBoot:
    """With all concerns, on a host whose interface systemd-networkd configures."""

    def managed(self) -> Kernel:
        kernel = host()
        kernel.tree.add_file(NETWORKD, "")
        kernel.tree.add_file(MANAGED, f"[Match]\nName={PORT}\n[Network]\nAddress=10.1.0.2/24\n")
        return kernel

    def boot(self, kernel: Kernel) -> None:
        """Start anew: networkd brings routes with the protocol of its file, and rules with its own."""
        ip(kernel, f"link set dev {PORT} down")
        ip(kernel, f"link set dev {PORT} up")
        kernel.tree.discard(routes.RULES)
        routes.give_address(kernel, PORT, "fd00:1::2/64")
        kept, rules = kept_in({DROP_IN: kernel.read(DROP_IN)})
        for route in kept:
            via = f"via {route['via']} " if route["via"] else ""
            family = "-6" if ":" in route["to"] else "-4"
            ip(kernel, f"{family} route add {route['to']} {via}dev {PORT} table {route['table']} proto {PROTOCOL}")
        for rule in rules:
            ip(kernel, f"rule add from {rule['from']} table 101 priority {rule['priority']} protocol {STATIC}")

    def test_a_second_run_and_one_after_a_reboot_have_no_step(self) -> None:
        kernel = self.managed()
        outcome = done(kernel, wish(**ALL), EVERY)
        assert [entry["id"] for entry in outcome["executed"]] == [STEP, f"boot:{DROP_IN}"]
        assert "keep route 10.1.0.0/24 on the link table 101 and route" in outcome["diff"]["prepared"]
        assert (applied(kernel, wish(**ALL), EVERY)["plan"]["steps"], kernel.mutations) == ([], [])
        self.boot(kernel)
        assert told(kernel)[:3] == EVERYTHING[:3]
        assert (applied(kernel, wish(**ALL), EVERY)["plan"]["steps"], kernel.mutations) == ([], [])

    @pytest.mark.parametrize("key", ["routes", "rules"])
    def test_what_is_kept_stays_while_the_interface_is_away(self, key: str) -> None:
        kernel = self.managed()
        asked = wish(**{key: ALL[key]})
        done(kernel, asked, EVERY)
        before = kernel.read(DROP_IN)
        kernel.tree.discard(f"/sys/bus/pci/devices/{PF}/net")
        kernel.tree.discard(f"/sys/class/net/{PORT}")
        applied(kernel, asked, EVERY)
        assert kernel.exists(DROP_IN) and kernel.read(DROP_IN) == before

    def test_what_a_boot_has_brought_goes_when_it_is_no_longer_asked_for(self) -> None:
        kernel = self.managed()
        done(kernel, wish(**ALL), EVERY)
        self.boot(kernel)
        done(kernel, wish(routes=[IPV4]), EVERY)
        assert told(kernel) == EVERYTHING[1:2]
        assert "RoutingPolicyRule" not in kernel.read(DROP_IN)

    def test_without_the_keys_everything_of_ours_goes(self) -> None:
        kernel = self.managed()
        done(kernel, wish(**ALL), EVERY)
        self.boot(kernel)
        done(kernel, wish(mtu=9000), EVERY)
        assert told(kernel) == []
        assert "[Route]" not in kernel.read(DROP_IN)

    def test_removal_after_a_boot(self) -> None:
        kernel = self.managed()
        done(kernel, wish(**ALL), EVERY)
        self.boot(kernel)
        done(kernel, wish(), replace(REMOVE, concerns=ORDER))
        assert (told(kernel), kernel.exists(DROP_IN)) == ([], False)

    def test_removal_leaves_what_was_there_before_and_is_in_our_file_as_well(self) -> None:
        kernel = self.managed()
        ip(kernel, f"-4 route add 10.2.0.0/16 via 10.1.0.1 dev {PORT} table 101 proto {STATIC}")
        done(kernel, wish(**ALL), EVERY)
        done(kernel, wish(), replace(REMOVE, concerns=ORDER))
        assert told(kernel) == ["10.2.0.0/16 via 10.1.0.1 table 101 metric 0 proto 4"]

    def test_removal_leaves_what_a_later_run_found(self) -> None:
        kernel = self.managed()
        done(kernel, wish(routes=[LINK]), EVERY)
        ip(kernel, f"-4 route add 10.2.0.0/16 via 10.1.0.1 dev {PORT} table 101 proto {STATIC}")
        done(kernel, wish(**ALL), EVERY)
        done(kernel, wish(), replace(REMOVE, concerns=ORDER))
        assert told(kernel) == ["10.2.0.0/16 via 10.1.0.1 table 101 metric 0 proto 4"]

    def test_removal_leaves_what_no_run_had_to_set(self) -> None:
        kernel = self.managed()
        ip(kernel, f"-4 route add 10.2.0.0/16 via 10.1.0.1 dev {PORT} table 101 proto {STATIC}")
        ip(kernel, f"-4 rule add from 10.1.0.0/24 table 101 priority 30000 protocol {STATIC}")
        before = told(kernel)
        outcome = done(kernel, wish(routes=[IPV4], rules=[RULE], mtu=9000), EVERY)
        assert STEP not in [entry["id"] for entry in outcome["executed"]]
        done(kernel, wish(), replace(REMOVE, concerns=ORDER))
        assert told(kernel) == before
        assert not kernel.exists(DROP_IN)

    def test_removal_takes_what_several_runs_have_set(self) -> None:
        kernel = self.managed()
        done(kernel, wish(routes=[LINK], rules=[RULE]), EVERY)
        done(kernel, wish(**ALL), EVERY)
        done(kernel, wish(routes=[IPV4], rules=[RULE6]), EVERY)
        done(kernel, wish(), replace(REMOVE, concerns=ORDER))
        assert told(kernel) == []

    def test_what_nobody_can_keep_is_told_and_set_now(self) -> None:
        kernel = host()
        outcome = applied(kernel, wish(routes=[IPV4]), EVERY)
        (step,) = outcome["plan"]["steps"]
        assert (step["id"], step["status"]) == (f"boot:{PF}:routing", "refused")
        assert "no network manager configures" in step["detail"]
        assert told(kernel) == EVERYTHING[1:2]

    def test_the_boot_unit_is_not_asked_to_do_it(self) -> None:
        kernel = self.managed()
        done(kernel, wish(**ALL, eswitch_mode="legacy"), EVERY)
        assert "routes" not in kernel.read(BOOT_SPEC_FILE) and "routing" not in kernel.read(BOOT_SPEC_FILE)

    @pytest.mark.slow
    def test_whatever_disturbs_a_run_the_next_one_gets_there(self) -> None:
        assert sweep(self.managed, lambda kernel: applied(kernel, wish(**ALL), EVERY), ("EIO", "EROFS")) > 8
