# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What became of the parts of a run that follow the hosts: the push, the proof, the NCCL tests. Pure."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

PUSH = "push"
PROOF = "proof"
NCCL = "nccl"
PARTS = (PUSH, PROOF, NCCL)
WORDS = {PUSH: "push", PROOF: "proof", NCCL: "NCCL test"}
"""The parts as people read them."""
_HOSTS_LEFT_BEHIND = "not every host of the run succeeded"


class Parts:
    """The parts that a run was to bring about, and the results of those that it came to.

    ``push``, ``proof`` and ``nccl`` are results of tasks, None where there is none. ``whole``: every host was brought
    to the end.
    """

    def __init__(
        self,
        wanted: Sequence[str],
        push: Mapping[str, Any] | None,
        proof: Mapping[str, Any] | None,
        nccl: Mapping[str, Any] | None = None,
        *,
        whole: bool,
    ) -> None:
        self._wanted = wanted
        self._push = push
        self._proof = proof
        self._nccl = nccl
        self._whole = whole

    def push_missing(self) -> str | None:
        """Return why the push did not come to its end; None when it did, and when none was wanted."""
        if self._push is None and PUSH in self._wanted and not self._whole:
            return _HOSTS_LEFT_BEHIND
        return self._missing(PUSH, self._push, "the batch apply failed")

    def proof_missing(self) -> str | None:
        """Return why nothing was proved; None when pairs were tested, whatever became of them, or none was wanted."""
        if self._proof is None and PROOF in self._wanted and not self._whole:
            return _HOSTS_LEFT_BEHIND
        # A proof with a verdict tells its own failures, pair by pair.
        result = None if self._proof is None else {**self._proof, "failed": self._broke(self._proof)}
        return self._missing(PROOF, result, "it failed")

    def nccl_broke(self) -> bool:
        """Return whether NCCL tests of this run ended before one of them had a verdict."""
        return self._broke(self._nccl or {})

    def was_wanted(self, part: str) -> bool:
        """Return whether the run was to bring a part about."""
        return part in self._wanted

    def unwaited(self) -> int:
        """Return how many workloads were pushed and not waited for."""
        return int((self._push or {}).get("unwaited") or 0)

    def failed(self) -> list[str]:
        """Return the parts that failed by themselves; what hosts kept from beginning is told with them."""
        nccl = self._missing(NCCL, self._nccl, "they failed")
        missing = {PUSH: self.push_missing(), PROOF: self.proof_missing(), NCCL: nccl}
        return [part for part in PARTS if missing[part] not in (None, _HOSTS_LEFT_BEHIND)]

    def _missing(self, part: str, result: Mapping[str, Any] | None, words: str) -> str | None:
        if result is None:
            return f"the run failed before the {WORDS[part]}; its own error says why" if part in self._wanted else None
        return f"{words}: {result.get('msg') or 'no message'}" if result.get("failed") else None

    @staticmethod
    def _broke(result: Mapping[str, Any]) -> bool:
        return bool(result.get("failed")) and "verdict" not in result
