# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fields of an image, which every section of a policy has."""

from __future__ import annotations

from ..common.names import Check, dns_subdomain, image, or_empty, repository, version
from ..common.schema import Field, series, text
from .models_kubernetes import container_resources


def image_fields(containers: tuple[str, ...], idle: str = "", versions: Check = version) -> dict[str, Field]:
    """Declare upstream's ImageSpec for a component with the given containers.

    Upstream requires ``image``; here the bill of materials fills in whatever is not given.
    """
    return {
        "image": text("name of the image, without repository and tag", check=image),
        "repository": text("registry and path of the image", check=or_empty(repository)),
        "version": text("tag or sha256 digest of the image", check=or_empty(versions)),
        "imagePullSecrets": series(
            "names of pull secrets", text("name", check=dns_subdomain), idle=idle, since="v0.6.0"
        ),
        "containerResources": container_resources(
            "cpu and memory per container", containers, idle=idle, since="v24.1.0"
        ),
    }
