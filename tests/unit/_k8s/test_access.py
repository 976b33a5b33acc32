# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who am I, and may I: what is asked, and how often."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.errors import ApiFault, Fault
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Connection, Reply
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.preflight.access import (
    MOST_REVIEWS,
    Missing,
    missing_rights,
    who_am_i,
)
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.preflight.rights import Need, Needs
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import connect, failure, good
from ansible_collections.rdma.fabric.tests.unit._k8s.reviewer import ALL, Reviewer, rule

RULES, ACCESS = "SelfSubjectRulesReview", "SelfSubjectAccessReview"
IDENTITY = "/apis/authentication.k8s.io/{}/selfsubjectreviews"


def needed(count: int = 2) -> Needs:
    """Return needs in as many namespaces: to patch ConfigMaps."""
    return {Need("", "configmaps", f"n{number:03}", "patch"): frozenset({"a"}) for number in range(count)}


def test_the_user_is_named() -> None:
    server = Reviewer(user="alice")
    assert who_am_i(connect(server)) == "alice"
    assert len(server.reviews) == 1


@pytest.mark.parametrize(("versions", "name"), [(("v1",), "some"), (("v1", "v1beta1"), "")])
def test_an_older_server_is_asked_in_beta_and_one_without_it_tells_no_name(versions: tuple[str], name: str) -> None:
    server = Reviewer()
    server.without = {IDENTITY.format(version) for version in versions}
    assert who_am_i(connect(server)) == name


class Answering:
    """A server that gives one answer to everything."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply

    def send(self, _method: str, _path: str, _body: bytes | None, _content_type: str | None) -> Reply:
        return self.reply


def answering(reply: Reply) -> Connection:
    return Connection(Answering(reply))


def refusing(user: str) -> Connection:
    """Return the way to a server that lets nobody ask."""
    text = f'selfsubjectreviews is forbidden: User "{user}" cannot create resource "selfsubjectreviews"'
    return answering(failure(403, "Forbidden", text))


@pytest.mark.parametrize("connection", [connect(Reviewer(user="system:anonymous")), refusing("system:anonymous")])
def test_nobody_is_told_to_show_credentials(connection: Connection) -> None:
    with pytest.raises(ApiFault, match="system:anonymous: it got no credentials") as raised:
        who_am_i(connection)
    assert "token, a client certificate or a credential plugin" in raised.value.next_step


def test_somebody_who_may_not_even_ask_is_known_by_the_refusal() -> None:
    assert who_am_i(refusing("bob")) == "bob"


def test_an_answer_of_something_else_is_not_believed() -> None:
    connection = answering(good({"kind": "Login"}))
    with pytest.raises(ApiFault, match="its kind is 'Login'"):
        who_am_i(connection)
    with pytest.raises(ApiFault) as raised:
        missing_rights(connection, needed())
    assert raised.value.fault is Fault.SERVER


def test_who_may_do_everything_costs_one_request_however_many_namespaces_there_are() -> None:
    server = Reviewer()
    assert missing_rights(connect(server), needed(300)) == Missing()
    assert server.reviews == [RULES]


def test_rights_in_one_namespace_do_not_count_in_another_nor_in_the_whole_cluster() -> None:
    server = Reviewer({"n000": [rule("", "configmaps nodes", "patch list")]})
    needs = {**needed(), Need("", "nodes", "", "list"): frozenset[str]()}
    missing = missing_rights(connect(server), needs)
    assert missing.needs == {Need("", "configmaps", "n001", "patch"), Need("", "nodes", "", "list")}
    # The cluster, two namespaces, and whether something that has no rules grants everything.
    assert server.reviews == [RULES, RULES, RULES, ACCESS]


def test_a_namespace_whose_needs_are_granted_is_not_asked_about() -> None:
    server = Reviewer({"": [rule("", "configmaps", "patch", "a")]})
    assert missing_rights(connect(server), needed(5)) == Missing()
    assert server.reviews == [RULES]


def test_rights_that_no_rule_shows_are_asked_for_as_one() -> None:
    server = Reviewer({})
    server.hidden = [ALL]
    assert missing_rights(connect(server), needed(3)) == Missing()
    assert server.reviews == [RULES] * 4 + [ACCESS]


def test_lists_that_are_not_complete_are_followed_by_single_questions() -> None:
    server = Reviewer({"n000": [rule("", "configmaps", "patch")]})
    server.complete = False
    server.hidden = [rule("", "secrets", "get")]
    needs = {**needed(), Need("", "secrets", "n001", "get"): frozenset[str]()}
    assert missing_rights(connect(server), needs).needs == {Need("", "configmaps", "n001", "patch")}
    assert server.reviews.count(ACCESS) == 1 + 2


def test_single_questions_have_an_end_and_what_was_not_asked_is_known() -> None:
    server = Reviewer({})
    server.complete = False
    found = missing_rights(connect(server), needed(MOST_REVIEWS + 20))
    assert (len(found.needs), len(found.unknown)) == (MOST_REVIEWS, 20)
    assert server.reviews.count(ACCESS) == MOST_REVIEWS + 1


def test_a_server_without_reviews_of_rights_leaves_them_unknown() -> None:
    server = Reviewer({})
    server.without = {f"/apis/authorization.k8s.io/v1/{kind.lower()}s" for kind in (RULES, ACCESS)}
    found = missing_rights(connect(server), needed())
    assert (found.needs, found.unknown) == (frozenset(), frozenset(needed()))


@pytest.mark.parametrize("rules", [None, {}])
def test_a_list_of_rules_that_is_none_is_followed_by_single_questions(rules: object) -> None:
    class Silent(Reviewer):
        def _answer(self, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
            return {"resourceRules": rules} if kind == RULES else super()._answer(kind, spec)

    server = Silent({"": [rule("", "configmaps", "patch")]})
    assert missing_rights(connect(server), needed()) == Missing()
    assert server.reviews.count(ACCESS) == 3


def test_the_right_to_a_resource_is_none_to_its_subresource() -> None:
    server = Reviewer({"": [rule("", "pods", "create")]})
    server.complete = False
    into = Need("", "pods/exec", "n1", "create")
    assert missing_rights(connect(server), {into: frozenset()}) == Missing(frozenset([into]))
    server.hidden = [rule("", "pods/exec", "create")]
    assert missing_rights(connect(server), {into: frozenset()}) == Missing()
