# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read whether fapolicyd lets root's Python open a program of ours: the first rule that fits decides.

fapolicyd.rules(5), fapolicyd.conf(5). The rules that it ships let programs of root that it trusts open everything
(rules.d/20-dracut.rules), so only rules of a site deny. An archive is of none of their %languages.
"""

from __future__ import annotations

import re

from ..machine.probe import Probe, printable, texts_of
from .managers import ini

_DIRECTORY = "/etc/fapolicyd/"
_ANY = ("all", "perm=any", "perm=open", "uid=0", "gid=0")
# What is neither root, nor Python, nor an archive. Names of sets begin with a percent sign.
_OTHER = re.compile(
    r"perm=execute|pattern=|ftype=(?!.*(?:zip|any))|exe=(?!.*(?:python|%))|path=/|dir=|[ag]?u?id=[1-9]\d*$"
)


def denied(probe: Probe, folder: str) -> str:
    """Return the rule by which the daemon that runs denies what is in ``folder``; empty if none does for certain."""
    settings = ini.settings(probe.content(f"{_DIRECTORY}fapolicyd.conf") or "")
    if ini.last(settings, "", "permissive") == "1":
        return ""
    known = texts_of(probe, [f"{_DIRECTORY}trust.d/", f"{_DIRECTORY}fapolicyd.trust"])
    trusted = None if any(folder in text for _path, text in known) else False
    for rule in (probe.content(f"{_DIRECTORY}compiled.rules") or "").splitlines():
        who, colon, what = rule.partition(" : ")
        decision, *words = who.split() or [""]
        fits = {True if word == "trust=1" else _fits(word, folder, None) for word in words}
        fits |= {_fits(word, folder, trusted) for word in what.split()}
        allows = decision.startswith("allow")
        if colon and False not in fits and (allows or None not in fits):
            return "" if allows else printable(rule)
    return ""


def _fits(word: str, folder: str, trusted: bool | None) -> bool | None:
    """Return whether a word of a rule fits, None if unknown; ``trusted`` is what it asks of the program."""
    if word.startswith("trust="):
        return trusted if trusted is None or word == "trust=1" else not trusted
    if word in _ANY or (word.startswith("dir=/") and folder.startswith(word[4:])):
        return True
    return False if _OTHER.match(word) else None
