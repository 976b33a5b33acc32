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
GIVE_BACK = ; status=$$?; "$(PYTHON)" tools/environment.py give-back; exit $$status

.DEFAULT_GOAL := help
.PHONY: help pictures preview demo lab lab-down lab-status lab-ssh test lint unit integration guests sanity matrix molecule molecule-lab molecule-quick-starts bench build env env-run env-test lock changelog clean

help:
	@echo "make preview      plan, render and report a recorded fleet; needs no cluster (about a minute)"
	@echo "make demo         the whole job on the recorded fleet and a real API server, twice; then on two booted hosts"
	@echo "                  where they can be had (root, minutes); DEMO_LAB=no leaves these out"
	@echo "make test         every gate, from unit tests to RDMA between the pods of two booted hosts"
	@echo "make bench        count and measure; writes build/bench.json"
	@echo "make lab          boot two hosts with SR-IOV and soft RDMA, without a NIC, as a cluster (root; minutes); lab-down stops them"
	@echo
	@echo "make lint         the gates that only read: formatting, types, rooms, documentation, licences"
	@echo "make unit         unit tests"
	@echo "make integration  tests against a real API server"
	@echo "make guests       the long tests on booted hosts and their cluster (root; half an hour); not part of make test"
	@echo "make molecule     the molecule scenario against a real API server; molecule-lab: the one on booted hosts;"
	@echo "                  molecule-quick-starts: those of SR-IOV, host devices, IPoIB and several rails"
	@echo "make sanity       ansible-test sanity"
	@echo
	@echo "make matrix       every supported ansible-core and kubernetes.core with every Python found here, on controllers and"
	@echo "                  hosts; writes docs/support.md (hours); ONLY=newest, ONLY=hosts-3.8 for a part"
	@echo
	@echo "make build        build the collection's artifact into build/artifact"
	@echo "make env          make the environment in .venv from the hashed locks (every target does so itself)"
	@echo "make lock         resolve requirements/*.in into hashed locks again"
	@echo "make pictures     make the pictures of the documentation again (Chromium); after a make demo with both halves:"
	@echo "                  make pictures PICTURES=--demo"
	@echo "make changelog    bring the changelog in line with the fragments and the plugins"
	@echo "make clean        remove the environment and everything built"
	@echo
	@echo "PYTHON=/path/to/python3.12 names another Python (3.11 to 3.13)."

env: env-test

# With the checkout made importable, playbooks run in it as they are: ansible.cfg names the link.
env-run:
	@"$(PYTHON)" tools/environment.py run
	@$(VENV_PYTHON) -m tools.checkout $(GIVE_BACK)

env-test:
	@"$(PYTHON)" tools/environment.py test
	@$(VENV_PYTHON) -m tools.checkout $(GIVE_BACK)

preview: env-run
	@$(VENV_PYTHON) -m tools.preview $(GIVE_BACK)

demo: env-run
	@$(VENV_PYTHON) -m tools.demo $(if $(filter no,$(DEMO_LAB)),--no-lab) $(GIVE_BACK)

lab: env-run
	@$(VENV_PYTHON) -m tests.lab.guests up $(LAB_ARGUMENTS) $(GIVE_BACK)

lab-down lab-status: env-run
	@$(VENV_PYTHON) -m tests.lab.guests $(@:lab-%=%) $(GIVE_BACK)

lab-ssh: env-run
	@$(VENV_PYTHON) -m tests.lab.guests ssh $(NODE) $(GIVE_BACK)

test: env-test
	@$(VENV_PYTHON) -m tools.gates

lint: env-test
	@$(VENV_PYTHON) -m tools.gates format ruff types rooms yaml artifact ansible-lint docs changelog licences importer $(GIVE_BACK)

unit sanity: env-test
	@$(VENV_PYTHON) -m tools.gates $@ $(GIVE_BACK)

integration guests molecule: env-test
	@$(VENV_PYTHON) -m tools.gates artifact programs $@ $(GIVE_BACK)

matrix: env-test
	@$(VENV_PYTHON) -m tools.gates artifact programs $(GIVE_BACK)
	@$(VENV_PYTHON) -m tools.matrix $(ONLY) $(GIVE_BACK)

molecule-lab: env-test
	@$(VENV_PYTHON) -m tools.scenario roce-shared $(GIVE_BACK)

molecule-quick-starts: env-test
	@$(VENV_PYTHON) -m tools.gates artifact programs quick-starts $(GIVE_BACK)

bench: env-test
	@$(VENV_PYTHON) -m tests.bench $(GIVE_BACK)

build: env-run
	@$(VENV_PYTHON) -m tools.artifact $(GIVE_BACK)

UV_COMPILE := ../build/lock/bin/uv pip compile --quiet --universal --generate-hashes --no-annotate --no-emit-index-url \
	--no-emit-find-links --custom-compile-command "make lock" --python-version

lock:
	"$(PYTHON)" -m venv build/lock
	build/lock/bin/python -m pip install --quiet uv==0.13.9
	cd requirements && $(UV_COMPILE) 3.11 -o run.txt run.in && $(UV_COMPILE) 3.11 -o test.txt test.in && \
		$(UV_COMPILE) 3.11 -o oldest.txt oldest.in && $(UV_COMPILE) 3.12 -o newest.txt newest.in && \
		$(UV_COMPILE) 3.8 -o targets.txt targets.in && \
		for each in oldest newest; do \
			$(UV_COMPILE) 3.12 --no-deps -o $$each-collections.txt $$each-collections.in || exit; \
		done

changelog: env-test
	@PATH=$(CURDIR)/.venv/bin:$$PATH ANSIBLE_COLLECTIONS_PATH=$(CURDIR)/build/collections \
		antsibull-changelog release --update-existing --refresh --reload-plugins

pictures: env-run
	@$(VENV_PYTHON) -m tools.pictures $(PICTURES) $(GIVE_BACK)

clean:
	rm -rf .venv build
