# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page: one file without network, whole, readable without its script, and harmless whatever a host says."""

from __future__ import annotations

import itertools
import json
import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.plugin_utils._page.page import MAX_BYTES, TEMPLATES, render_page, visible
from ansible_collections.rdma.fabric.tests.unit._proof.test_nccl_run import whole_document as nccl_of
from ansible_collections.rdma.fabric.tests.unit._proof.wire.sample_proof import document as proof_of
from ansible_collections.rdma.fabric.tests.unit._report import sample_fleet
from ansible_collections.rdma.fabric.tests.unit._report.sample_fleet import report_of

VOID = {"meta", "link", "br", "input"}
STYLE = (TEMPLATES / "page.css").read_text(encoding="utf-8")
HOSTILE = (
    "<script>alert(1)</script>\"'><img src=x onerror=y>{{ 7*7 }}{% raw %}\u202egnp\u2066.exe\x00\x1b[31m\u200b\ud800"
)
OF_HOSTS = ("remarks", "fleet", "nodes", "plans")
SECTIONS = ('<section id="fleet">', '<section id="plans">')
# More than the page shows of any text.
LONG = HOSTILE * 8


class Page(HTMLParser):
    """Collects elements and text, and every tag that is not closed where it was opened."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.unbalanced: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.scripts: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.unbalanced.append(tag)

    def handle_data(self, data: str) -> None:
        inside = self.open[-1] if self.open else ""
        if inside == "script":
            self.scripts.append(data)
        elif inside != "style":
            self.text += data

    def count(self, tag: str) -> int:
        return sum(name == tag for name, attributes in self.elements)


def page_of(hosts: list[dict[str, Any]] | None = None, **changes: Any) -> str:
    return render_page(report_of(hosts, **changes))


def hostile(value: Any) -> Any:
    """The same data with hostile text wherever a host or a file may say what it likes."""
    kept = ("pci", "address", "path", "nic", "gpu", "pf", "status", "function", "concern", "state", "action")
    if isinstance(value, dict):
        return {key: item if key in kept else hostile(item) for key, item in value.items()}
    if isinstance(value, list):
        return [hostile(item) for item in value]
    return HOSTILE + value if isinstance(value, str) else value


@pytest.fixture(scope="module")
def sample() -> str:
    return page_of()


def test_every_element_is_closed_where_it_was_opened(sample: str) -> None:
    page = Page(sample)
    assert (page.unbalanced, page.open) == ([], [])


def test_the_page_forbids_itself_every_load_and_every_script_but_its_own(sample: str) -> None:
    page = Page(sample)
    policies = [a["content"] for _tag, a in page.elements if a.get("http-equiv") == "Content-Security-Policy"]
    (script,) = page.scripts
    own = b64encode(sha256(script.encode()).digest()).decode()
    assert policies == [
        f"default-src 'none'; script-src 'sha256-{own}'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    ]
    assert page.count("script") == 1
    assert script == (TEMPLATES / "page.js").read_text(encoding="utf-8").rstrip("\n")


def test_nothing_on_the_page_leads_outside(sample: str) -> None:
    page = Page(sample)
    assert {"iframe", "object", "embed", "base", "form", "img"}.isdisjoint(tag for tag, _a in page.elements)
    links = [value or "" for _tag, attrs in page.elements for key, value in attrs.items() if key in ("href", "src")]
    assert links
    assert all(link.startswith("#") or link == "data:," for link in links)
    assert "url(" not in sample
    assert "@import" not in sample
    assert not any(key.startswith("on") for _tag, attrs in page.elements for key in attrs)


def test_every_link_inside_the_page_has_its_target(sample: str) -> None:
    elements = Page(sample).elements
    targets = {attrs.get("id") for _tag, attrs in elements}
    assert all((attrs["href"] or "")[1:] in targets for tag, attrs in elements if tag == "a")


def test_what_matters_most_comes_first(sample: str) -> None:
    body = " ".join(Page(sample[sample.index("<body>") :]).text.split())
    order = [
        "Needs attention",
        "7 recorded hosts planned, 54 steps pending, 2 steps refused, 9 objects in the cluster,",
        "4 remarks",
        "A rail has no link",
        "Steps are refused",
        "25 up",
    ]
    order += [
        "The NIC beside a GPU",
        "rail 3: no link",
        "dgx-h100-01 Ubuntu",
        "NUMA node 0",
        "load rdma_ucm",
        "kube-multus-ds",
    ]
    places = [body.index(words) for words in order]
    assert places == sorted(places)


@pytest.mark.parametrize(
    "words",
    [
        "dgx-h100-02 2 remarks",
        "Ubuntu 22.04.4 LTS",
        "8 \N{MULTIPLICATION SIGN} H100 SXM5 80GB",
        "Built like class 1, but 5e:00.0: link down Polling instead of link up",
        "bring the driver to DOCA-OFED 24.07-0.6.1.0-0",
        "traffic on every NIC while the driver reloads",
        "undo: install MLNX_OFED 23.10-1.1.9 again",
        "set rdma_fabric_allow_vf_reset",
        "it carries the default route of the host",
        "spec.template.spec.containers[0].image",
        "2 of 5 pods are not ready: ImagePullBackOff",
        "no node takes them, so none was started",
        "ghcr.io/k8snetworkplumbingwg/multus-cni:v4.0.2",
        "policy.yaml:7: a retired field was translated",
        "Without GPU and RDMA NIC: cpu-01",
    ],
)
def test_what_matters_is_said_in_words(sample: str, words: str) -> None:
    assert words in " ".join(Page(sample).text.split())


def test_every_gpu_and_nic_is_drawn_in_the_class_of_its_host() -> None:
    facts = sample_fleet.h100_facts("h")
    html = page_of([sample_fleet.document("h", facts, [])])
    drawings = "".join(re.findall(r"<svg.*?</svg>", html, flags=re.DOTALL))
    for device in facts["gpus"] + facts["nics"]:
        assert f"<title>{device['address']}</title>" in drawings
    assert drawings.count('class="gpu"') == 8
    assert drawings.count('class="port"') == 12
    assert drawings.count('class="good"') == 12
    assert all(f">rail {rail}</text>" in drawings for rail in range(8))


def test_a_dead_link_is_drawn_and_described_in_words() -> None:
    facts = sample_fleet.h100_facts("h")
    sample_fleet.port_down(facts, "0000:5e:00.0")
    html = page_of([sample_fleet.document("h", facts, [])])
    assert html.count('<path class="x"') == 1
    assert "NIC mlx5_5 ConnectX-7 at 5e:00.0 ibp94s0, link down." in html


def test_what_there_is_is_counted_with_its_parts() -> None:
    facts = sample_fleet.h100_facts("h")
    sample_fleet.port_down(facts, "0000:5e:00.0")
    html = page_of([sample_fleet.document("h", facts, sample_fleet.h100_steps(4))])
    tiles = Page(html[html.index('<dl class="tiles">') : html.index("</dl>")]).text.split("\n")
    assert [line for line in tiles if line] == [
        *("Hosts1", "1 from recordings", "GPUs8", "in all hosts", "NICs12", "PFs"),
        *("Rails8", "7 up1 down", "Steps27", "25 planned1 needs consent1 needs reboot"),
        *("Objects9", "1 created1 configured1 deleted7 unchanged", "Workloads3", "2 ready1 not ready"),
    ]
    assert '<b class="bad">7 of 8 up</b>' in html[html.index('<section id="fleet">') :]


def test_states_of_steps_are_said_in_the_same_words_everywhere_and_of_several_as_of_several() -> None:
    steps = sample_fleet.h100_steps(4)
    one = sample_fleet.document("a", sample_fleet.h100_facts("a"), steps)
    again = [{**step, "id": f"{step['id']}-again"} for step in steps]
    two = sample_fleet.document("b", sample_fleet.h100_facts("b"), [*steps, *again])
    html = page_of([one, two])
    tiles, fleet, plans = (Page(html[html.index(start) :]).text for start in ('<dl class="tiles">', *SECTIONS))
    assert "3 need consent3 need reboot" in tiles
    for section in (fleet, plans):
        assert re.search("1 needs consent *1 needs reboot", section)
        assert re.search("2 need consent *2 need reboot", section)
    assert "needs a reboot" not in html


def test_the_uplink_is_marked_where_it_is_drawn() -> None:
    facts = sample_fleet.h100_facts("h")
    onboard = {**facts["nics"][0], "address": "0000:0b:00.0", "vendor": "8086", "family": None, "rdma": []}
    facts["nics"].append({**onboard, "netdevs": ["eno3"], "path": ["pci0000:00", "0000:00:1c.0", "0000:0b:00.0"]})
    facts["uplinks"] = [{"netdev": "eno3", "pci": "0000:0b:00.0", "reasons": ["default route"]}]
    drawing = page_of([sample_fleet.document("h", facts, [])])
    assert drawing.count("0b:00.0 uplink eno3</text>") == 1
    assert drawing.count("uplink") == drawing.count("0b:00.0 uplink eno3")


def test_names_too_long_for_a_row_are_shortened_in_the_drawing_only() -> None:
    facts = sample_fleet.h100_facts("h")
    facts["nics"][8]["rdma"] = ["rocep170s0f0"]
    facts["nics"][9]["rdma"] = ["a-name-of-more-than-thirteen"]
    html = page_of([sample_fleet.document("h", facts, [])])
    assert '<tspan class="b">rocep170s0f0</tspan> <tspan class="s">BF-3</tspan>' in html
    assert '<tspan class="b">a-name-of-mo\u2026</tspan>' in html


def test_devices_of_which_the_same_is_seen_share_the_sentence() -> None:
    odd, usual = sample_fleet.h100_facts("odd"), sample_fleet.h100_facts("usual")
    for device in odd["rdma"][:3]:
        device["firmware"] = "28.38.1002"
    html = page_of([sample_fleet.document("odd", odd, []), sample_fleet.document("usual", usual, [])])
    assert html.count("28.38.1002, ConnectX-7 elsewhere 28.39.3560") == 1
    assert "mlx5_0 18:00.0, mlx5_3 40:00.0, mlx5_4 4f:00.0" in " ".join(Page(html).text.split())


def test_every_drawing_has_a_title_and_a_description(sample: str) -> None:
    svgs = re.findall(r"<svg.*?</svg>", sample, flags=re.DOTALL)
    assert svgs
    for svg in svgs:
        assert re.search(r'<svg [^>]*role="img" aria-label="[^"]+"', svg)
        assert re.search(r"<title>[^<]+</title>\n<desc>[^<]+</desc>", svg)


def test_hostile_text_stays_text() -> None:
    html = page_of(
        hostile(sample_fleet.fleet()),
        cluster=hostile(sample_fleet.batch_result()),
        notices=[HOSTILE],
        title=HOSTILE,
    )
    page = Page(html)
    assert (page.unbalanced, page.open) == ([], [])
    assert page.count("script") == len(page.scripts) == 1
    assert "alert" not in page.scripts[0]
    assert page.count("img") == 0
    assert "<script>alert(1)</script>" in page.text
    assert page.text.count("{{ 7*7 }}") > 100
    for character in "\u202e\u2066\x00\x1b\u200b\ud800":
        assert character not in html
    html.encode("utf-8")


def test_long_names_are_cut() -> None:
    host = sample_fleet.document("x" * 10_000, sample_fleet.h100_facts("h"), sample_fleet.h100_steps())
    host["plan"]["steps"][0].update(action="y" * 10_000, target="z" * 10_000)
    html = page_of([host], notices=["n" * 10_000])
    assert not re.search(r"x{80}|z{80}|y{401}|n{401}", html)
    assert "x" * 60 in html


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("Zürich 東京", "Zürich 東京"),
        ("שלום", "שלום"),
        ("a\tb\nc", "a b c"),
        ("a\u202eb", "a\ufffdb"),
        ("a\u2028b", "a\ufffdb"),
        ("\ud800", "\ufffd"),
        ("x" * 9, "xxxx\u2026"),
    ],
)
def test_text_is_shown_without_unseen_characters(text: str, shown: str) -> None:
    assert visible(text, 5 if text.startswith("xx") else 99) == shown


@pytest.mark.slow
def test_a_thousand_equal_hosts_fit_and_are_drawn_once() -> None:
    hosts = [
        sample_fleet.document(f"gpu-{index:04}", sample_fleet.h100_facts(f"gpu-{index}"), sample_fleet.h100_steps(4))
        for index in range(1000)
    ]
    html = page_of(hosts)
    assert len(html.encode()) < MAX_BYTES
    assert html.count("<figure") == 1
    assert "gpu-[0000:0999]</span></bdi></div><small>1,000 hosts</small>" in html
    assert html.count("gpu-0500") == 0


def test_many_hosts_of_one_remark_and_many_classes_are_folded() -> None:
    hosts = []
    pairs = itertools.combinations((rail[1] for rail in sample_fleet.RAILS), 2)
    for index, addresses in enumerate(itertools.islice(pairs, 12)):
        facts = sample_fleet.h100_facts("h")
        for address in addresses:
            sample_fleet.port_down(facts, address)
        hosts.append(sample_fleet.document(f"gpu-{index}", facts, []))
    html = page_of(hosts)
    assert "<summary>4 more hosts</summary>" in html
    assert html.count("<figure") == 12
    assert html.index("4 more classes") < html.index("Class 9: ")


@pytest.mark.slow
def test_a_thousand_hosts_that_differ_in_everything_fit_and_say_what_was_left_out() -> None:
    hosts = []
    for index in range(1000):
        facts = sample_fleet.h100_facts("h")
        for nic in facts["nics"]:
            nic["rdma"] = [f"{LONG}{index}"]
            nic["link"] = sample_fleet.pcie(speed=2.5)
        steps = sample_fleet.h100_steps(4)
        for step in steps:
            step.update(reason=f"{LONG}{index}", undo=LONG, detail=LONG, target=LONG)
        hosts.append(sample_fleet.document(f"{index}-{LONG}", facts, steps))
    html = page_of(hosts, notices=[f"{index}{LONG}" for index in range(1000)])
    assert len(html.encode()) < MAX_BYTES
    for what in ("hosts", "classes", "plans", "notices"):
        assert re.search(rf"[0-9]+ more {what} in report\.json", html), what


def test_nothing_is_cut_short_without_a_count_of_the_rest() -> None:
    nodes = [f"dgx-{number}" for number in range(6)]
    report = report_of(validation=proof_of(nodes))
    report["images"][0]["used_by"] = [f"DaemonSet/driver-{number}" for number in range(8)]
    changed = next(item for wave in report["cluster"]["waves"] for item in wave["objects"] if item["fields"])
    changed["fields"] = [f"spec.field{number}" for number in range(15)]
    report["plans"][0]["notices"] = [f"notice {number}" for number in range(23)]
    report["remarks"][0]["devices"] = [
        {"address": "", "name": f"mlx5_{number}", "seen": f"seen {number}"} for number in range(20)
    ]
    html = render_page(report)
    assert "DaemonSet/driver-5 and 2 more</span>" in html
    assert "spec.field11</code> and 3 more</td>" in html
    assert "3 more notices in report.json" in html
    assert "<small>and 4 more</small></span></li>" in html
    assert "3 more pairs in report.json" in html


def test_nccl_tests_that_failed_stand_first_with_their_cause() -> None:
    html = render_page(report_of(nccl=nccl_of()))
    section = html[html.index('<section id="nccl">') :].partition("</section>")[0]
    assert re.findall(r"<small>(?:<[^>]*>)?(all rails|rail 1)<", section) == ["rail 1", "all rails"]
    assert "NCCL saw no RDMA device" in section and "190.6 of 200" in section
    assert '<a href="#nccl">' in html and 'id="nccl"' not in render_page(report_of())


@pytest.mark.slow
def test_when_hosts_are_left_out_those_that_need_attention_stay() -> None:
    hosts = []
    for index in range(1600):
        facts = sample_fleet.egx_facts("h")
        if index == 1599:
            sample_fleet.port_down(facts, "0000:86:00.0")
        hosts.append(sample_fleet.document(f"node-{index}", facts, []))
    assert re.search(r"node-1599</span></bdi></div> <span class=\"chip attention\">", page_of(hosts))


def test_hosts_that_need_a_person_stand_first_and_equal_ones_in_one_row() -> None:
    def host(name: str, *statuses: str, down: bool = False) -> dict[str, Any]:
        facts = sample_fleet.h100_facts(name)
        if down:
            sample_fleet.port_down(facts, "0000:5e:00.0")
        steps = [sample_fleet.step(f"mtu:{index}", "set", status) for index, status in enumerate(statuses)]
        return sample_fleet.document(name, facts, steps)

    hosts = [host(f"idle-{number}") for number in range(1, 6)]
    hosts += [host("b-planned", "planned"), host("c-reboot", "planned", "needs_reboot")]
    hosts += [host("d-consent", "needs_consent", "needs_reboot"), host("y-refused", "refused")]
    hosts += [host(f"z-down-{number}", down=True) for number in (8, 9, 10, 11)]
    html = page_of(hosts)
    table = html[html.index('<section id="fleet">') : html.index('<section id="nodes">')]
    order = ["y-refused", "z-down-8", "d-consent", "c-reboot", "b-planned", "idle-[1:5]"]
    assert re.findall(r'<th scope="row"><div class="whose"><bdi><span class="name">([^<,]*)', table) == order
    for status in ("refused", "needs_consent", "needs_reboot"):
        assert f'<span class="chip {status}">1 {status.replace("_", " ")}</span>' in table


def test_one_cause_on_many_hosts_is_one_line_of_a_remark() -> None:
    hosts = []
    for index in range(50):
        facts = sample_fleet.h100_facts("h")
        sample_fleet.port_down(facts, "0000:5e:00.0")
        hosts.append(sample_fleet.document(f"gpu-{index:02}", facts, []))
    html = page_of(hosts)
    remarks = html[html.index('<section id="remarks">') : html.index('<section id="rails">')]
    assert remarks.count("gpu-[00:49]</span></bdi>") == 1
    assert "more host" not in remarks


def test_a_page_made_again_from_a_report_file_is_the_same() -> None:
    report = report_of()
    assert list(report["remark_kinds"]) != sorted(report["remark_kinds"])
    assert render_page(json.loads(json.dumps(report, sort_keys=True))) == render_page(report)


def test_a_report_of_nothing_is_still_a_whole_page() -> None:
    html = page_of([], spec=None, cluster=None, rendered=[], notices=[])
    page = Page(html)
    assert (page.unbalanced, page.open) == ([], [])
    sections = {name: html[html.index(f'<section id="{name}">') :].split("</section>")[0] for name in OF_HOSTS}
    for name, section in sections.items():
        assert "No host was read." in section, name
        assert "<table" not in section, name


def test_hosts_without_gpus_and_nics_are_told_from_no_host() -> None:
    html = page_of([sample_fleet.document("cpu-01", sample_fleet.plain_facts("cpu-01"), [])])
    assert "No host has a GPU or an NVIDIA NIC." in html
    assert "No host was read." not in html


def test_the_head_says_how_the_run_was_started_and_the_verdict_before_all_numbers() -> None:
    run: dict[str, Any] = {
        "version": "0.1.0",
        "command": "ansible-playbook rdma.fabric.preview -i <b>",
        "limit": "egx*",
        "inventory": ["<b>"],
    }
    html = page_of(run=run)
    body = " ".join(Page(html[html.index("<body>") :]).text.split())
    order = [run["command"], "egx*", "Inventory", "rdma.fabric 0.1.0", "Needs attention", "7 recorded hosts planned"]
    places = [body.index(words) for words in order]
    assert places == sorted(places)
    assert 'class="run"' not in page_of()


def test_hosts_that_an_earlier_run_has_read_are_marked_and_need_nobody_now() -> None:
    hosts = sample_fleet.fleet()
    earlier = [entry["host"] for entry in hosts if entry["host"] != "cpu-01"]
    html = page_of(hosts, cluster=None, earlier=earlier, left_out=earlier)
    assert 'class="needs"' not in html
    fleet = html[html.index('<section id="fleet">') : html.index('<section id="nodes">')]
    rows = [row.partition("</tr>")[0] for row in fleet.split("<tr data-hosts=")[1:]]
    assert len(rows) > 3
    for row in rows:
        assert ("of an earlier run" in row) is not row.startswith('"cpu-01"')


def test_the_heading_begins_as_a_sentence_does() -> None:
    html = page_of([], cluster={"failed": True, "msg": "no route to host"})
    assert '<p class="counts"><span>The push failed,</span>' in html


def palette(block: str) -> dict[str, str]:
    return dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6}|#[0-9a-f]{3});", block))


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(digit * 2 for digit in colour[1:])
    channels = [int(digits[start : start + 2], 16) / 255 for start in (0, 2, 4)]
    linear = [value / 12.92 if value <= 0.03928 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


LIGHT = palette(STYLE.split("@media (prefers-color-scheme: dark)")[0])
DARK = palette(STYLE.split("@media (prefers-color-scheme: dark)")[1].split("\n}")[0])
PRINT = {**LIGHT, **palette(STYLE.split("@media print")[1])}
TEXT_ON = [
    *((ink, paper) for ink in ("ink", "soft", "info") for paper in ("page", "paper", "raised")),
    *((tone, f"{tone}-bg") for tone in ("good", "warn", "bad", "info", "idle")),
    *((tone, "paper") for tone in ("good", "warn", "bad", "info")),
    *((tone, "raised") for tone in ("good", "warn", "bad")),
    *(("paper", tone) for tone in ("warn", "bad")),
    ("paper", "ink"),
]
SHAPES_ON = [*((f"r{number}", "raised") for number in range(8)), ("wire", "paper")]


@pytest.mark.parametrize("theme", [LIGHT, DARK, PRINT], ids=["light", "dark", "print"])
def test_text_and_drawings_have_enough_contrast_in_every_theme(theme: dict[str, str]) -> None:
    assert len(theme) >= 25
    weak = {pair: contrast(theme[pair[0]], theme[pair[1]]) for pair in TEXT_ON}
    assert {pair: value for pair, value in weak.items() if value < 4.5} == {}
    faint = {pair: contrast(theme[pair[0]], theme[pair[1]]) for pair in SHAPES_ON}
    assert {pair: value for pair, value in faint.items() if value < 3.0} == {}
