# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the collection says of itself agrees with what it holds."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.rdma.fabric.plugins.doc_fragments.attributes import ModuleDocFragment
from ansible_collections.rdma.fabric.tests.unit.rules import none_of
from tools.environment import text_of
from tools.releases import OLDEST_OF_HOSTS

CHECKOUT = Path(__file__).resolve().parents[2]
MODULES = sorted(path.stem for path in (CHECKOUT / "plugins" / "modules").glob("*.py"))
ACTIONS = sorted(path.stem for path in (CHECKOUT / "plugins" / "action").glob("*.py"))
FILTERS = sorted(path.stem for path in (CHECKOUT / "plugins" / "filter").glob("*.py"))
ROLES = sorted(path.name for path in (CHECKOUT / "roles").iterdir() if path.is_dir())
PLAYBOOKS = sorted(path.stem for path in (CHECKOUT / "playbooks").glob("*.yml"))
PRIVATE_PLACES = ("/root/", "/home/", "/opt/wheels")


def load(path: str) -> Any:
    return yaml.safe_load((CHECKOUT / path).read_text(encoding="utf-8"))


def text(path: str) -> str:
    return (CHECKOUT / path).read_text(encoding="utf-8")


def requirement_names(path: str) -> dict[str, str]:
    """Return the packages that a requirements file names, with what it says of their versions."""
    found = {}
    for line in text(path).splitlines():
        match = re.match(r"^([A-Za-z0-9_.-]+)\s*([=<>!~].*?)?(\s+#.*)?$", line)
        if match:
            found[match[1].lower()] = match[2] or ""
    return found


def test_every_place_names_the_same_version() -> None:
    version = load("galaxy.yml")["version"]
    assert f'VERSION = "{version}"' in text("plugins/module_utils/_version.py")
    assert version in load("changelogs/changelog.yaml")["releases"]
    assert f"## v{version}" in text("CHANGELOG.md").replace("\\", "")


def test_the_changelog_names_what_the_first_release_contains() -> None:
    lines = load("changelogs/changelog.yaml")["releases"]["0.1.0"]["changes"]["release_summary"].split("\n* ")[1:]
    named = {line.split()[0]: re.findall(r"``(\w+)``", line) for line in lines}
    expected = {"Playbooks": PLAYBOOKS, "Roles": ROLES, "Modules": MODULES, "Filters": FILTERS}
    for kind, files in (("Callbacks", "plugins/callback/*.py"), ("Rulebooks", "extensions/eda/rulebooks/*.yml")):
        expected[kind] = sorted(path.stem for path in CHECKOUT.glob(files))
    assert named == expected


def test_every_action_has_the_stub_module_that_documents_it() -> None:
    assert sorted(set(ACTIONS) - set(MODULES)) == []


def test_every_module_that_takes_a_kubeconfig_is_in_the_action_group() -> None:
    """A default of the group for one half of a run would send the other half to another cluster."""
    (group,) = load("meta/runtime.yml")["action_groups"].values()
    of_clusters = [name for name in MODULES if "kubernetes.core.k8s_auth_options" in text(f"plugins/modules/{name}.py")]
    assert sorted(group) == of_clusters


@pytest.mark.parametrize("role", ROLES)
def test_a_role_specifies_every_entry_point_and_has_a_readme(role: str) -> None:
    entries = {path.stem for path in (CHECKOUT / "roles" / role / "tasks").glob("*.yml")}
    specified = set(load(f"roles/{role}/meta/argument_specs.yml")["argument_specs"])
    assert specified == entries
    assert text(f"roles/{role}/README.md").startswith(f"# rdma.fabric.{role}\n")


@pytest.mark.parametrize("name", [*MODULES, *ROLES, *(f"rdma.fabric.{playbook}" for playbook in PLAYBOOKS)])
def test_the_reference_names_it(name: str) -> None:
    assert f"`{name}`" in text("docs/README.md") or f" {name} " in text("docs/README.md")


def test_every_make_target_of_the_documents_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+(?: [a-z-]+)*):", text("Makefile"), re.MULTILINE))
    known = {name for line in targets for name in line.split()}
    for document in ("README.md", "CONTRIBUTING.md"):
        named = set(re.findall(r"^make ([a-z]+)|`make ([a-z]+)`", text(document), re.MULTILINE))
        assert {one or other for one, other in named} - known == set(), document


def test_an_execution_environment_gets_what_the_lock_was_made_from() -> None:
    ours = requirement_names("requirements/run.in")
    theirs = requirement_names("meta/ee-requirements.txt")
    assert set(theirs) == set(ours) - {"ansible", "ansible-core", "attrs"}
    assert set(load("galaxy.yml")["dependencies"]) == {"kubernetes.core"}


def test_ansible_builder_finds_what_an_execution_environment_needs(tmp_path: Path) -> None:
    """Its introspection, which a build of an image begins with, over this collection alone."""
    place = tmp_path / "ansible_collections" / "rdma" / "fabric"
    (place / "meta").mkdir(parents=True)
    for path in (CHECKOUT / "meta").iterdir():
        (place / "meta" / path.name).write_bytes(path.read_bytes())
    (place / "galaxy.yml").write_bytes((CHECKOUT / "galaxy.yml").read_bytes())
    argv = [sys.executable, "-m", "ansible_builder", "introspect", str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=True)
    found = yaml.safe_load(done.stdout)
    names = {re.split(r"[<>=]", line)[0].strip() for line in found["python"]}
    assert names == set(requirement_names("meta/ee-requirements.txt"))
    assert all("# from collection rdma.fabric" in line for line in found["python"])
    assert not found.get("system")


@pytest.mark.parametrize("lock", ["run", "test"])
def test_a_lock_pins_every_package_with_hashes_and_names_no_place(lock: str) -> None:
    content = text(f"requirements/{lock}.txt")
    blocks = re.split(r"\n(?=[a-z0-9])", re.sub(r"^#.*\n", "", content, flags=re.MULTILINE).strip())
    assert [block.split()[0] for block in blocks if "==" not in block or "--hash=sha256:" not in block] == []
    assert not re.search(r"https?://|--(extra-)?index-url|--find-links|file:", content)
    for name, wanted in requirement_names(f"requirements/{lock}.in").items():
        if wanted.startswith("=="):
            assert re.search(rf"^{re.escape(name)}{re.escape(wanted)}\b", content.lower(), re.MULTILINE), name


def test_nothing_is_ignored_or_skipped() -> None:
    assert list((CHECKOUT / "tests" / "sanity").glob("ignore*")) == []
    lint = load(".ansible-lint")
    assert lint["profile"] == "production"
    assert "warn_list" not in lint
    # Names bear that of the collection and not of the role, which test_names_of_plays.py holds in place of the linter.
    assert lint["skip_list"] == ["var-naming[no-role-prefix]"]


def test_documents_name_no_private_place() -> None:
    for path in [*CHECKOUT.glob("*.md"), *CHECKOUT.glob("docs/**/*.md"), *CHECKOUT.glob("roles/*/README.md")]:
        # The folder of CNI programs on nodes of GKE.
        content = path.read_text(encoding="utf-8").replace("/home/kubernetes/bin", "")
        assert [place for place in PRIVATE_PLACES if place in content] == [], path


def test_every_module_that_runs_on_hosts_says_which_python_it_needs_there() -> None:
    """ansible-core's own releases take older ones; what runs on the controller alone has the Python of Ansible."""
    (needed,) = yaml.safe_load(ModuleDocFragment.HOST)["requirements"]
    assert needed.startswith(f"python >= {text_of(OLDEST_OF_HOSTS)} ")
    said = {name for name in MODULES if "\n  - rdma.fabric.attributes.host\n" in text(f"plugins/modules/{name}.py")}
    assert said == {name for name in MODULES if "AnsibleModule" in text(f"plugins/modules/{name}.py")}


def test_text_with_markup_has_no_parentheses_of_its_own() -> None:
    """Markup without escapes ends at the first closing one: the rest of the text is printed as it is, with the last."""
    nested = re.compile(r"\b[BCILMRU]\([^()\n]*\(")
    files = [*CHECKOUT.glob("plugins/*/*.py"), *CHECKOUT.glob("roles/*/meta/argument_specs.yml")]
    none_of(
        f"{path.relative_to(CHECKOUT)}:{number}: {line.strip()}"
        for path in files
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if nested.search(line)
    )
