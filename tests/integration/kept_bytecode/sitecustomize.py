# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps the bytecode of collections over the playbooks of the tests.

Python keeps that of what it imports. Ansible's loader of collections compiles every source in every process: about a
fifth of what a short playbook takes, and the tests run hundreds over the same sources. Python imports this module
before a program starts where its folder is in PYTHONPATH; ``RDMA_FABRIC_BYTECODE`` names the folder of what is kept.
"""

from __future__ import annotations

import hashlib
import marshal
import os
import sys
import tempfile
from pathlib import Path
from types import CodeType
from typing import Any

KEPT = Path(os.environ["RDMA_FABRIC_BYTECODE"]) / str(sys.implementation.cache_tag)


def code_of(loader: Any, fullname: str, compiled: Any) -> CodeType | None:
    """Return what ``compiled`` does for a module, from the folder where its source is as it was."""
    source, name = loader.get_source(fullname), loader.get_filename(fullname)
    if not source:
        code: CodeType | None = compiled(loader, fullname)
        return code
    place = KEPT / hashlib.sha256(b"\0".join([os.fsencode(str(name)), source])).hexdigest()
    try:
        kept: CodeType = marshal.loads(place.read_bytes())  # noqa: S302 - runs of the tests wrote it
    except FileNotFoundError:
        kept = compiled(loader, fullname)
        KEPT.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=KEPT, delete=False) as file:
            file.write(marshal.dumps(kept))
        Path(file.name).replace(place)
    return kept


# The modules that it runs on hosts are programs of their own, with the same variables.
if any(argument.endswith("/ansible-playbook") for argument in getattr(sys, "orig_argv", ())[:2]):
    from ansible.utils.collection_loader._collection_finder import _AnsibleCollectionPkgLoaderBase as Base

    compiled = Base.get_code
    Base.get_code = lambda loader, fullname: code_of(loader, fullname, compiled)
