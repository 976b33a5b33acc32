# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes packages like a vendor's driver stack, with the facts of tests/fixtures/vendor/packages.yml, and a repository.

The modules are real ones, of a few lines each, that DKMS builds from the package's source as it builds the vendor's;
of several hosts that share ``BUILT`` the first compiles them and the others take what it has compiled. A script of a
package, and the build, stop where a test has made a FIFO of that name (``HOLDS``), until that is closed.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path
from typing import Any, Mapping, NamedTuple

import yaml

TABLE = Path(__file__).parents[1] / "fixtures" / "vendor" / "packages.yml"
DKMS_NAME = "mlnx-ofed-kernel"
KERNEL_PACKAGE = f"{DKMS_NAME}-dkms"
HOLDS = "/run/hold"
# What they hold back: the build of the modules, and the end of their installation.
BUILD, INSTALLED = "dkms.build", "dkms.installed"
# Where builds are kept, of each version for each kernel: a directory that root_host.py mounts.
BUILT = "/opt/rdma-fabric/built"
_SCRIPTS = ("preinst", "postinst", "prerm", "postrm")
_HEAD = """#!/bin/sh
set -e
hold() {{ if [ -p {holds}/"$1" ]; then cat {holds}/"$1" > /dev/null; fi; }}
"""
_MAKE = """kept={built}/{version}-$1
if [ ! -d "$kept" ]; then
    make -C "$2" M="$PWD" modules
    rm -rf "$kept.new"
    cp -a . "$kept.new"
    mv "$kept.new" "$kept"
else
    cp -a "$kept/." .
fi
"""


class Change(NamedTuple):
    """A script of a package that a test has otherwise: its text, which goes before what the package has."""

    package: str
    script: str
    text: str


@lru_cache(maxsize=1)
def _table() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    return found


def releases() -> list[str]:
    """Give the releases that packages can be made of, the older one first."""
    return list(_table()["releases"])


def driver_of(release: str) -> str:
    """Give what the modules of a release have for their version."""
    return str(_table()["releases"][release]["driver"])


def module_names() -> list[str]:
    """Give the modules of the stack, each after those that it stands on."""
    return list(_table()["modules"])


def make_repository(folder: Path, release: str, *changes: Change) -> None:
    """Make the packages of a release and a flat repository of them in ``folder``, which is new."""
    folder.mkdir(parents=True)
    scratch = folder / "scratch"
    entries = []
    for name, package in _table()["packages"].items():
        tree = scratch / name
        fields = _lay_out(tree, name, package, release, changes)
        file = folder / f"{name}_{fields['Version']}_{fields['Architecture']}.deb"
        argv = ["dpkg-deb", "--root-owner-group", "-Znone", "--build", str(tree), str(file)]
        subprocess.run(argv, check=True, capture_output=True)
        data = file.read_bytes()
        place = {"Filename": f"./{file.name}", "Size": str(len(data)), "SHA256": hashlib.sha256(data).hexdigest()}
        entries.append(_stanza({**fields, **place}))
    shutil.rmtree(scratch)
    (folder / "Packages").write_text("\n".join(entries), encoding="utf-8")


def _stanza(fields: Mapping[str, str]) -> str:
    return "".join(f"{key}: {value}\n" for key, value in fields.items())


def _lay_out(
    tree: Path, name: str, package: Mapping[str, Any], release: str, changes: tuple[Change, ...]
) -> dict[str, str]:
    """Write what dpkg-deb makes a package of; return its control fields."""
    facts = _table()["releases"][release]
    version = facts["versions"][package["version"]]
    words = {
        "@VERSION@": version,
        "@DKMS@": version.partition("-")[0],
        "@DRIVER@": facts["driver"],
        "@BINARY@": facts["versions"]["rdma"],
    }

    def filled(text: str) -> str:
        for word, value in words.items():
            text = text.replace(word, value)
        return text

    files = {**package.get("conffiles", {}), **package.get("files", {})}
    programs = {path: f"#!/bin/sh\n{text}" for path, text in package.get("programs", {}).items()}
    if name == KERNEL_PACKAGE:
        sources, tools = _sources(words["@DKMS@"], facts["driver"])
        files.update(sources)
        programs.update(tools)
    for path, text in files.items():
        _write(tree / filled(path)[1:], filled(text), 0o644)
    for path, text in programs.items():
        _write(tree / filled(path)[1:], filled(text), 0o755)
    for path, target in package.get("links", {}).items():
        place = tree / filled(path)[1:]
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(filled(target))
    for script in _SCRIPTS:
        before = "".join(change.text for change in changes if change[:2] == (name, script))
        if before or package.get(script):
            head = _HEAD.format(holds=HOLDS) + f'hold "{name}.{script}"\n'
            _write(tree / "DEBIAN" / script, head + before + filled(package.get(script, "")), 0o755)
    fields = {
        "Package": name,
        "Version": version,
        "Architecture": "all" if name == KERNEL_PACKAGE else "amd64",
        "Maintainer": "A test <nobody@example.com>",
        "Description": f"stands for {name} of {release}",
        **{key: filled(value) for key, value in package.get("fields", {}).items()},
    }
    conffiles = "".join(f"{path}\n" for path in package.get("conffiles", {}))
    _write(tree / "DEBIAN" / "conffiles", conffiles, 0o644)
    _write(tree / "DEBIAN" / "control", _stanza(fields), 0o644)
    return fields


def _write(path: Path, text: str, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)


def _sources(version: str, driver: str) -> tuple[dict[str, str], dict[str, str]]:
    """Give the source that DKMS builds: files, and programs that its configuration names."""
    base, modules = f"/usr/src/{DKMS_NAME}-{version}", _table()["modules"]
    configuration = [
        f"PACKAGE_NAME={DKMS_NAME}",
        f"PACKAGE_VERSION={version}",
        'MAKE="./ofed_scripts/pre_build.sh $kernelver $kernel_source_dir"',
        'CLEAN="make clean"',
        "AUTOINSTALL=yes",
        'POST_INSTALL="ofed_scripts/dkms_build_ulps.sh $kernelver"',
    ]
    files = {f"{base}/Makefile": "".join(f"obj-m += {entry['place']}/{name}.o\n" for name, entry in modules.items())}
    for number, (name, entry) in enumerate(modules.items()):
        configuration += [
            f"BUILT_MODULE_NAME[{number}]={name}",
            f"BUILT_MODULE_LOCATION[{number}]={entry['place']}",
            f"DEST_MODULE_LOCATION[{number}]=/kernel/{entry['place']}",
        ]
        files[f"{base}/{entry['place']}/{name}.c"] = _source(name, entry["needs"], driver)
    files[f"{base}/dkms.conf"] = "".join(f"{line}\n" for line in configuration)
    head = _HEAD.format(holds=HOLDS)
    make = _MAKE.format(built=BUILT, version=version)
    programs = {
        f"{base}/ofed_scripts/pre_build.sh": f"{head}hold {BUILD}\n{make}",
        f"{base}/ofed_scripts/dkms_build_ulps.sh": f"{head}hold {INSTALLED}\n",
    }
    return files, programs


def _source(name: str, needs: list[str], driver: str) -> str:
    """Give a module that stands on others, as calls of a function of each."""
    declared = "".join(f"void {other}_stands(void);\n" for other in (*needs, name))
    calls = "".join(f" {other}_stands();" for other in needs)
    return (
        f"#include <linux/module.h>\n{declared}"
        f"void {name}_stands(void) {{{calls} }}\nEXPORT_SYMBOL({name}_stands);\n"
        f'MODULE_LICENSE("Dual BSD/GPL");\nMODULE_DESCRIPTION("stands for {name}");\nMODULE_VERSION("{driver}");\n'
    )
