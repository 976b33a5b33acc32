# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# `make help` lists the targets. PYTHON names the Python that the environment is made with: 3.11, 3.12 or 3.13; without
# it, an environment that is there keeps its own.

PYTHON ?= $(or $(shell test -x "$$(cat .venv/.made-with 2>/dev/null)" && cat .venv/.made-with),python3)
VENV_PYTHON := .venv/bin/python

# A user without a home (a service account, a container) gets one inside the checkout.
ifeq ($(strip $(HOME)),)
export HOME := $(CURDIR)/build/home
endif

# What a run with sudo has made belongs to whom the checkout belongs to, or their next run could not write it.
# Files of a lab's guests belong to users there.
GIVE_BACK = ; status=$$?; test $$(id -u) != 0 -o -O . || find build .venv -regex 'build/\([^/]*/\)?lab/.*' -prune \
	-o -user 0 -exec chown -h --reference=. {} + 2>/dev/null; exit $$status

.DEFAULT_GOAL := help

# The gates by layer: what a change is asked first, what it is asked before it lands (the longest ones begin), and what
# runs by night.
READING := licences format ruff rooms yaml types docs changelog sanity-quick ansible-lint
FIRST := $(READING) api-programs artifact host-syntax unit try-demo paths
REST := programs integration turns roce-shared sanity slow own docs-site importer try-preview oldest newest sanity-oldest targets molecule bench-host bench-apply
NIGHTLY := guests quick-starts mutants sweeps kills campaigns matrix bench
GATES := $(FIRST) $(REST) $(filter-out matrix bench,$(NIGHTLY))

.PHONY: help gates pictures preview demo demo-lab lab lab-down lab-status lab-ssh test test-all rest nightly lint matrix \
	bench molecule-lab build release env env-run env-test lock clean $(GATES)

help:
	@echo "make preview      plan, render and report a recorded fleet; needs no cluster (about a minute)"
	@echo "make demo         the whole job on the recorded fleet and a real API server, twice (minutes, later seconds)"
	@echo "make demo-lab     the same on two booted hosts, whose pods then pass RDMA (root, minutes)"
	@echo "make lab          boot two hosts with SR-IOV and soft RDMA, without a NIC, as a cluster (root; minutes); lab-down stops them"
	@echo
	@echo "make test         the first answer about a change, in minutes"
	@echo "make test-all     make test, then all that a change has to pass before it lands (most of an hour); make rest alone"
	@echo "make nightly      guests, whole sweeps, campaigns, mutants, every release, every bench (hours)"
	@echo "make unit         unit tests but the slow ones; make unit ROOM=_rollout (or a path) those of a room"
	@echo "make lint         the gates that only read: formatting, types, rooms, documentation, licences"
	@echo "make gates        list every gate with its layer; make NAME runs one"
	@echo "make guests       the tests on booted hosts and their cluster (root; hours): for changes of what hosts do;"
	@echo "                  make guests PART=uplink those of tests/guests/test_*uplink*.py (minutes)"
	@echo "make matrix       every supported ansible-core and kubernetes.core with every Python found here, on controllers and"
	@echo "                  hosts; writes docs/support.md (hours); ONLY=newest, ONLY=hosts-3.8 for a part"
	@echo
	@echo "make build        build the collection's artifact into build/artifact"
	@echo "make env          make the environment in .venv from the hashed locks (every target does so itself)"
	@echo "make lock         resolve requirements/*.in into hashed locks again"
	@echo "make pictures     make the pictures of the documentation again (Chromium)"
	@echo "make release      make what is published of a tag into build/release; VERSION=NEXT prepares the next one"
	@echo "make clean        remove the environment and everything built"
	@echo
	@echo "PYTHON=/path/to/python3.12 names another Python (3.11 to 3.13)."

gates:
	@for layer in "test $(FIRST)" "test-all $(REST)" "nightly $(NIGHTLY)"; do set -- $$layer; printf 'make %s\n' "$$1"; shift; \
		for gate; do sed -n "s/^$$gate:.*## /  $$gate\t/p" Makefile | expand -t 18; done; done

env: env-test

# With the checkout made importable, playbooks run in it as they are: ansible.cfg names the link.
env-run:
	@"$(PYTHON)" -m tools.environment run $(GIVE_BACK)
	@$(VENV_PYTHON) -m tools.checkout $(GIVE_BACK)

env-test:
	@"$(PYTHON)" -m tools.environment test $(GIVE_BACK)
	@$(VENV_PYTHON) -m tools.checkout $(GIVE_BACK)

preview: env-run
	@$(VENV_PYTHON) -m tools.fleet preview $(GIVE_BACK)

demo: env-run
	@$(VENV_PYTHON) -m tools.fleet demo $(GIVE_BACK)

demo-lab: env-run
	@$(VENV_PYTHON) -m tools.booted $(GIVE_BACK)

lab: env-run
	@$(VENV_PYTHON) -m tests.lab.guests up $(LAB_ARGUMENTS) $(GIVE_BACK)

lab-down lab-status: env-run
	@$(VENV_PYTHON) -m tests.lab.guests $(@:lab-%=%) $(GIVE_BACK)

lab-ssh: env-run
	@$(VENV_PYTHON) -m tests.lab.guests ssh $(NODE) $(GIVE_BACK)

# Every layer ends with a table of its gates. A gate writes its output to build/gates/NAME.log.
SHOW = $(VENV_PYTHON) -m tools.gate table

test: env-test
	@rm -f build/gates/*.json
	@$(MAKE) --no-print-directory --keep-going --jobs 2 $(FIRST) || true
	@$(SHOW) $(FIRST) $(GIVE_BACK)

test-all: test
	@$(MAKE) --no-print-directory rest BEFORE="$(FIRST)"

# A test that fails by luck holds nobody up here: it runs once more, alone, and is named.
rest: env-test
	@$(MAKE) --no-print-directory --keep-going --jobs 2 IN_ORDER=yes $(REST) || true
	@$(SHOW) $(addprefix --again=,$(REST)) $(BEFORE) $(REST) $(GIVE_BACK)

nightly: env-test
	@$(MAKE) --no-print-directory --keep-going $(NIGHTLY)

lint: env-test
	@$(MAKE) --no-print-directory --keep-going --jobs 2 $(READING)

GATE = @$(VENV_PYTHON) -m tools.gate run $(addprefix --after=,$(filter-out env-test,$^))
LONG = --limit 5400
INTEGRATION = python -m pytest -p ansible_collections.rdma.fabric.tests.integration.workers
# They take the nodes of a cluster in turn: most of the time each waits for playbooks, so they share workers by test.
IN_TURN := $(patsubst %,tests/integration/test_%.py,drift failure_domains hooks join killed_anywhere readme_path rollback \
	sealed_upgrade teardown upgrade upgrade_bad_days upgrade_killed upgrade_policies upgrade_report upgrade_wire)
KILLED := $(patsubst %,tests/integration/test_%.py,driver_packages host_apply_killed k8s_batch_faults killed_anywhere \
	surroundings upgrade_bad_days upgrade_killed)
CAMPAIGNS := tests/unit/campaigns tests/unit/_host/test_converge_properties.py
OWN := tests/unit/lab tests/unit/tools tests/unit/bench
# It renders below a folder with a random name, and reStructuredText takes one that ends in _ (one in 37) for a reference.
DOCS = antsibull-docs lint-collection-docs --plugin-docs --validate-collection-refs=dependent .
# Markdown pages as they are, at their places, and what antsibull-docs writes beside them.
SITE = umask 022 && rm -rf build/site && mkdir -p build/site/source/collection && cp -r *.md docs build/site/source && \
	rm -r build/site/source/docs/docsite && antsibull-docs collection --use-current --squash-hierarchy --fail-on-error \
	--dest-dir build/site/source/collection rdma.fabric && sphinx-build -q -W --keep-going -c docs/docsite \
	build/site/source build/site/html && cp build/site/html/README.html build/site/html/index.html
MYPY = mypy --cache-dir build/mypy-cache $(addprefix build/collections/ansible_collections/rdma/fabric/,plugins tests) tools

# The booted hosts begin beside what leaves them time: make passes over what waits for its programs, and takes the rest.
ifdef IN_ORDER
$(filter-out programs,$(REST)): | programs artifact
endif

licences: env-test  ## REUSE: every file has a licence
	$(GATE) $@ reuse lint $(GIVE_BACK)
format: env-test  ## ruff format
	$(GATE) $@ ruff format --check . $(GIVE_BACK)
ruff: env-test  ## ruff check
	$(GATE) $@ ruff check . $(GIVE_BACK)
rooms: env-test  ## the directions of imports
	$(GATE) $@ lint-imports --no-cache $(GIVE_BACK)
yaml: env-test  ## yamllint
	$(GATE) $@ yamllint --strict . $(GIVE_BACK)
types: env-test  ## mypy --strict over plugins, tests and tools
	$(GATE) $@ env MYPYPATH=build/collections $(MYPY) $(GIVE_BACK)
docs: env-test  ## documentation of plugins, roles and the docsite
	$(GATE) $@ env HOME=build sh -c '$(DOCS) || $(DOCS)' $(GIVE_BACK)
changelog: env-test  ## changelog fragments
	$(GATE) $@ env HOME=build antsibull-changelog lint $(GIVE_BACK)
ansible-lint: env-test  ## ansible-lint, profile production; the one rule that is skipped has its reason in .ansible-lint
	$(GATE) $@ ansible-lint --profile production --strict --offline --nocolor $(GIVE_BACK)
api-programs: env-test  ## etcd and kube-apiserver are found, downloaded, or built once
	$(GATE) --limit 2700 $@ python -m tests.lab programs --api $(GIVE_BACK)
programs: env-test  ## so are the other programs that tests start, of the control plane and others
	$(GATE) --limit 5400 $@ python -m tests.lab programs --tests $(GIVE_BACK)
artifact: env-test  ## the artifact builds and installs
	$(GATE) $@ python -m tools.artifact $(GIVE_BACK)
host-syntax: env-test  ## the host core compiles with the oldest Python that a host may have
	$(GATE) $@ python -m tools.releases 3.8 --compile $(GIVE_BACK)
unit: env-test  ## unit tests but the slow ones, without those of lab, tools and benches
	$(GATE) $@ python -m pytest -m "not slow" $(or $(filter tests/%,$(ROOM)),tests/unit/$(ROOM)) \
		$(if $(ROOM),,$(addprefix --ignore=,$(OWN))) $(GIVE_BACK)
slow: env-test  ## the slow unit tests: sweeps, properties, large fleets
	$(GATE) --limit 1800 $@ python -m pytest -m slow $(or $(filter tests/%,$(ROOM)),tests/unit/$(ROOM)) $(GIVE_BACK)
own: env-test  ## unit tests of lab, tools and benches
	$(GATE) $@ python -m pytest $(OWN) $(GIVE_BACK)
try-preview: env-test artifact  ## make preview
	$(GATE) $@ python -m tools.fleet preview $(GIVE_BACK)
try-demo: env-test api-programs artifact  ## make demo: the whole job on recorded hosts, twice
	$(GATE) $@ python -m tools.fleet demo $(GIVE_BACK)
paths: env-test api-programs artifact  ## a path through every playbook, and batches, drains, slots and labels without one
	$(GATE) $@ $(INTEGRATION) tests/integration -m first $(GIVE_BACK)
sanity: env-test  ## ansible-test sanity, nothing ignored
	$(GATE) --limit 1800 --never "All targets skipped" --never "Skipping sanity test" $@ python -m tools.sanity $(GIVE_BACK)
sanity-quick: env-test  ## of ansible-test sanity what takes seconds
	$(GATE) $@ python -m tools.sanity quick $(GIVE_BACK)
docs-site: env-test  ## the documentation site, without a warning: build/site/html/index.html
	$(GATE) $@ env HOME=build sh -c '$(SITE)' $(GIVE_BACK)
importer: env-test artifact  ## Galaxy's importer accepts the artifact without a warning
	$(GATE) --never WARNING: --never ERROR: $@ python -m tools.artifact importer $(GIVE_BACK)
oldest: env-test programs artifact  ## the preview, and the tests of what stands on ansible-core, with its oldest release
	$(GATE) --limit 1800 $@ python -m tools.releases $@ $(GIVE_BACK)
newest: env-test programs artifact  ## the same with its newest release
	$(GATE) --limit 1800 $@ python -m tools.releases $@ $(GIVE_BACK)
sanity-oldest: env-test oldest  ## what differs in ansible-test sanity of the oldest release, nothing ignored; all of it in make matrix
	$(GATE) --limit 3600 --never "All targets skipped" --never "Skipping sanity test" $@ python -m tools.sanity oldest $(GIVE_BACK)
targets: env-test  ## the host core with the oldest Python that a host may have
	$(GATE) --limit 1800 $@ python -m tools.releases 3.8 $(GIVE_BACK)
roce-shared: env-test programs artifact  ## the molecule scenario on two booted hosts: RDMA between their pods
	$(GATE) --lab $(LONG) $@ python -m tools.scenario roce-shared $(GIVE_BACK)
molecule: env-test programs artifact  ## the molecule scenario against a real API server
	$(GATE) $@ python -m tools.scenario $(GIVE_BACK)
turns: env-test programs artifact  ## the other tests of playbooks that take nodes in turn, of drift, and of the README's path
	$(GATE) $(LONG) $@ python -m pytest -m "not first" $(IN_TURN) $(GIVE_BACK)
integration: env-test programs artifact  ## the other tests against a real API server
	$(GATE) $(LONG) $@ $(INTEGRATION) tests/integration -m "not first" $(addprefix --ignore=,$(IN_TURN)) $(GIVE_BACK)
bench-host: env-test artifact  ## bounds of what is sent to a host, returned and run there
	$(GATE) $@ python -m tests.bench payload ssh $(GIVE_BACK)
bench-apply: env-test programs artifact  ## bounds of a batch apply: requests, and time beside that of kubernetes.core's module
	$(GATE) $@ python -m tests.bench apply $(GIVE_BACK)
guests: env-test programs artifact  ## the tests on booted hosts and the cluster that they form
	$(GATE) --lab --limit 14400 $@ python -m pytest -n 0 $(or $(sort $(wildcard tests/guests/test_*$(PART)*.py)),\
		$(error there is no tests/guests/test_*$(PART)*.py)) $(GIVE_BACK)
quick-starts: env-test programs artifact  ## the molecule scenarios of the quick starts against a real API server
	$(GATE) $(LONG) $@ python -m tools.scenario quick-starts $(GIVE_BACK)
sweeps: env-test  ## unit tests with whole sweeps
	$(GATE) $(LONG) $@ env RDMA_FABRIC_SWEEPS=whole python -m pytest tests/unit $(addprefix --ignore=,$(CAMPAIGNS)) $(GIVE_BACK)
kills: env-test programs artifact  ## runs that are killed or fail, at every place, and each surrounding of a cluster alone
	$(GATE) --limit 14400 $@ env RDMA_FABRIC_SWEEPS=whole $(INTEGRATION) $(KILLED) $(GIVE_BACK)
campaigns: env-test  ## 200,000 mutated inputs, 50,000 mutated hosts, and a removal after each of 3,000 sequences of days
	$(GATE) --limit 14400 $@ env RDMA_FABRIC_SWEEPS=whole python -m pytest $(CAMPAIGNS) $(GIVE_BACK)
mutants: env-test programs artifact  ## mistakes made on purpose, each of which a test has to find
	$(GATE) --limit 14400 $@ python -m tests.mutants $(GIVE_BACK)
matrix: env-test programs artifact  ## every supported release and Python found here; writes docs/support.md
	@$(VENV_PYTHON) -m tools.matrix $(ONLY) $(GIVE_BACK)
bench: env-test  ## count and measure everything; writes build/bench.json
	@$(VENV_PYTHON) -m tests.bench $(GIVE_BACK)

molecule-lab: env-test
	@$(VENV_PYTHON) -m tools.scenario roce-shared $(GIVE_BACK)

build: env-run
	@$(VENV_PYTHON) -m tools.artifact $(GIVE_BACK)

release: env-test
	@$(VENV_PYTHON) -m tools.release $(VERSION) $(GIVE_BACK)

UV_COMPILE = "$$uv" pip compile --quiet --universal --generate-hashes --no-annotate --no-emit-index-url \
	--no-emit-find-links --custom-compile-command "make lock" --python-version

lock:
	@uv=$$("$(PYTHON)" -m tools.environment uv) && cd requirements && \
		for each in uv run test importer oldest; do $(UV_COMPILE) 3.11 -o $$each.txt $$each.in || exit; done && \
		$(UV_COMPILE) 3.12 -o newest.txt newest.in && $(UV_COMPILE) 3.8 -o targets.txt targets.in && \
		for each in oldest newest; do \
			$(UV_COMPILE) 3.12 --no-deps -o $$each-collections.txt $$each-collections.in || exit; \
		done

pictures: env-run
	@$(VENV_PYTHON) -m tools.pictures $(GIVE_BACK)

clean:
	rm -rf .venv build
