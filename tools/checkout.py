# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where things lie in this checkout, and how it is made importable as a collection (``python -m tools.checkout``)."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
BUILD = CHECKOUT / "build"
COLLECTIONS_VARIABLE = "RDMA_FABRIC_COLLECTIONS"
# Tests that run beside another kubernetes.core have a folder of their own.
COLLECTIONS = Path(os.environ.get(COLLECTIONS_VARIABLE) or BUILD / "collections")
LINK = COLLECTIONS / "ansible_collections" / "rdma" / "fabric"
PROGRAMS = Path(sys.executable).parent


def link_checkout(link: Path, checkout: Path) -> None:
    """Point ``link`` (``.../ansible_collections/rdma/fabric``) at the checkout; several runs may do so at once."""
    link.parent.mkdir(parents=True, exist_ok=True)
    if link.is_symlink() and link.resolve() == checkout:
        return
    link.unlink(missing_ok=True)
    try:
        link.symlink_to(checkout, target_is_directory=True)
    except FileExistsError:
        if link.resolve() != checkout:
            raise


def link_kubernetes_core(collections: Path) -> None:
    """Show the environment's kubernetes.core below ``collections`` to tools that look for documentation only there."""
    installed = Path(sysconfig.get_path("purelib"), "ansible_collections", "kubernetes", "core").resolve()
    link_checkout(collections / "ansible_collections" / "kubernetes" / "core", installed)


def own_environment(collections: Path) -> dict[str, str]:
    """Return our environment with Ansible confined to this checkout.

    Ansible's home lies below ``build``, collections come from ``collections`` and then from ``.venv``, and what the
    user set for their own playbooks and clusters is left out, so that nothing here can reach either. So is what keeps
    Python from writing bytecode: each of hundreds of processes would compile the checkout anew.
    """
    foreign = ("ANSIBLE_", "K8S_AUTH_", "MOLECULE_", "KUBECONFIG", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return {
        **kept,
        "PATH": f"{PROGRAMS}{os.pathsep}{kept.get('PATH', os.defpath)}",
        "ANSIBLE_HOME": str(BUILD / "ansible-home"),
        "ANSIBLE_REMOTE_TEMP": str(BUILD / "ansible-home" / "tmp"),
        "KUBECACHEDIR": str(BUILD / "kube-cache"),
        "ANSIBLE_COLLECTIONS_PATH": str(collections),
        "ANSIBLE_CONFIG": str(CHECKOUT / "ansible.cfg"),
    }


if __name__ == "__main__":
    link_checkout(LINK, CHECKOUT)
    link_kubernetes_core(COLLECTIONS)
