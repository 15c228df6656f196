# `make help` lists what there is; `make check` is exactly what CI runs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PEERS := $(VENV)/peers
DOJO := $(VENV)/agentdojo
STAMP := $(VENV)/.ready
HOST ?= 127.0.0.1
PORT ?= 8000
EXAMPLE ?=
PAGE := graph_agent/api/page/index.html
PAGE_SOURCES := $(shell find ui -name node_modules -prune -o -type f ! -name schema.d.ts -print)

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(STAMP): pyproject.toml deploy/constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@sed -n '/^uv==/,/[^\\]$$/p' deploy/constraints.txt | $(BIN)/python -m pip install --quiet --require-hashes --requirement /dev/stdin
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes --requirement deploy/constraints.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

# Without the packages from npm it prints one line and leaves no page: the API is then served alone.
$(PAGE): $(PAGE_SOURCES) | $(STAMP)
	@$(BIN)/python ui/build_page.py --optional

.PHONY: page
page: $(PAGE) ## build the page from ui/

.PHONY: setup
setup: $(STAMP) page ## install everything into .venv and build the page

.PHONY: run
run: setup ## serve the page and the API on http://127.0.0.1:8000, with EXAMPLE=returns_desk those of an example
	@$(if $(EXAMPLE),. ./examples/$(EXAMPLE)/settings.sh && )$(BIN)/graph-agent serve --host $(HOST) --port $(PORT)

.PHONY: demo
demo: $(STAMP) ## a scripted conversation on a temporary database
	@$(BIN)/graph-agent demo

# The bytecode is kept in .venv even if the environment says to write none: otherwise each test process, and each command that
# a test starts, compiles all libraries and tests again.
OPTIONS ?=

.PHONY: test
test: setup ## run the tests, with OPTIONS of pytest
	@PYTHONDONTWRITEBYTECODE= PYTHONPYCACHEPREFIX=$(CURDIR)/$(VENV)/bytecode $(BIN)/pytest -q -n auto --dist worksteal $(OPTIONS)

.PHONY: lint
lint: $(STAMP) ## ruff, check only
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

.PHONY: format
format: $(STAMP) ## ruff, in place
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

.PHONY: types
types: $(STAMP) ## mypy, strict
	@$(BIN)/mypy

.PHONY: page-types
page-types: $(PAGE) ## tsc, strict, against the API's own OpenAPI document
	@$(BIN)/python -m tests.page.openapi > ui/node_modules/openapi.json
	@$(BIN)/python ui/build_page.py --types

.PHONY: screenshots
screenshots: setup ## take the pictures of the page in docs/images/
	@$(BIN)/python -m tests.page.screenshots

.PHONY: page-figures
page-figures: setup ## measure the page in a slowed-down Chromium: first paint, interactive, scrolling
	@$(BIN)/python -m benchmarks.page

.PHONY: arch
arch: $(STAMP) ## the layers, by import-linter
	@$(BIN)/lint-imports --no-cache

.PHONY: stub
stub: $(STAMP) ## write graph_agent/__init__.pyi from the list of public names
	@$(BIN)/python -m tests.public_stub

.PHONY: diagrams
diagrams: $(STAMP) ## draw diagrams/, and write the table of gates in docs/, from the tables of states and gates
	@$(BIN)/graph-agent diagram > diagrams/state_machine.mmd
	@$(BIN)/graph-agent diagram --sequence > diagrams/tool_turn.mmd
	@$(BIN)/graph-agent diagram --gates > diagrams/gates.mmd
	@$(BIN)/python -m tests.documentation.gate_tables

.PHONY: docs
docs: $(STAMP) ## build the site into build/docs/site, with the reference that is written from the code
	@$(BIN)/python -m tests.documentation

.PHONY: conformance
conformance: $(STAMP) ## the MCP conformance suite and the MCP Inspector against the task server; needs npm
	@$(BIN)/python -m tests.conformance

.PHONY: foreign
foreign: $(STAMP) ## turns with the official MCP servers, from npm and PyPI; needs npm
	@$(BIN)/python -m tests.foreign

CORPUS ?=

.PHONY: corpus
corpus: $(STAMP) ## public MCP servers of npm and PyPI through all that is written and checked, CORPUS="NAME"; needs npm, bubblewrap
	@$(BIN)/python -m benchmarks.corpus $(CORPUS)

LIVE ?=

.PHONY: live
live: $(STAMP) ## the suite and sixty requests against the real model, LIVE="--first 5"; needs GEMINI_API_KEY or OPENAI_*
	@$(BIN)/python -m tests.acceptance.live $(LIVE)

SEED ?=

.PHONY: cluster
cluster: $(STAMP) ## three replicas behind HAProxy and PgBouncer under faults, SEED=n; needs both programs
	@SEED=$(SEED) $(BIN)/python -m tests.cluster

SEEDS ?= 200

.PHONY: simulate
simulate: $(STAMP) ## simulate replicas under faults from SEEDS=200 seeds; SEED=n prints the history of one
	@PYTHONDONTWRITEBYTECODE= PYTHONPYCACHEPREFIX=$(CURDIR)/$(VENV)/bytecode $(BIN)/python -m tests.simulation \
		$(if $(SEED),--seed $(SEED),--seeds $(SEEDS))

.PHONY: bench
bench: $(STAMP) $(PEERS)/.ready ## CPU per turn beside peers, interleaved; rules, bursts, pages, a large log, questions, memory, size
	@$(BIN)/python -m benchmarks
	@$(BIN)/python -m benchmarks.rules
	@$(BIN)/python -m benchmarks.overload
	@$(BIN)/python -m benchmarks.open_pages
	@$(BIN)/python -m benchmarks.large_log
	@$(BIN)/python -m benchmarks.tree
	@$(BIN)/python -m benchmarks.questions
	@$(BIN)/python -m benchmarks.questions --postgresql
	@$(BIN)/python -m benchmarks.footprint
	@$(PEERS)/bin/python -m benchmarks.peers

.PHONY: agentdojo
agentdojo: $(DOJO)/.ready ## injections of AgentDojo through the engine, without a key: attacks that ran, questions, tasks without a yes
	@$(DOJO)/bin/python -W ignore -m benchmarks.agentdojo

# The package of the data has the name and version of AgentDojo, and three suites more.
.PHONY: agentdyn
agentdyn: $(DOJO)/.ready ## recorded runs of a real model through the engine, without a key, from DATA=a clone of leolee99/AgentDyn
	@test -d "$(DATA)/runs" || { echo "make agentdyn DATA=DIR: DIR is a clone of https://github.com/leolee99/AgentDyn" >&2; exit 2; }
	@PYTHONPATH="$(abspath $(DATA))/src" $(DOJO)/bin/python -W ignore -m benchmarks.agentdyn "$(DATA)"

$(DOJO)/.ready: pyproject.toml | $(STAMP)
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(DOJO)
	@$(BIN)/uv pip install --quiet --python $(DOJO)/bin/python --group agentdojo --editable '.[policy]'
	@touch $@

$(PEERS)/.ready: pyproject.toml | $(STAMP)
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(PEERS)
	@$(BIN)/uv pip install --quiet --python $(PEERS)/bin/python --group peers --editable .
	@touch $@

MINUTES ?= 5

.PHONY: soak
soak: $(STAMP) ## serve mixed turns for MINUTES=5 and print the slopes of memory, descriptors, tasks and threads
	@$(BIN)/python -m benchmarks.soak $(MINUTES)

.PHONY: package
package: setup ## build the wheel, and use it in an empty environment of each installed Python from 3.11 to 3.14
	@$(BIN)/python -m tests.package_check

.PHONY: sbom
sbom: $(STAMP) ## write sbom.cdx.json, the CycloneDX bill of materials of the package and its extras
	@$(BIN)/python deploy/sbom.py sbom.cdx.json

NIGHTLY := nightly-tests nightly-simulation nightly-servers nightly-cluster nightly-package nightly-written nightly-log nightly-goals
.PHONY: nightly $(NIGHTLY)
nightly: $(NIGHTLY) ## what CI leaves out, part by part

nightly-tests: setup
	@ALL_EXAMPLES=true $(MAKE) --no-print-directory test OPTIONS="-m 'not foreign'"

nightly-simulation: $(STAMP)
	@$(MAKE) --no-print-directory simulate SEEDS=10000
	@$(BIN)/python -m tests.turn.test_random_facts 1000000
	@$(BIN)/python -m tests.chat.lost_answers

nightly-servers: conformance foreign corpus

nightly-cluster: cluster soak

nightly-package: package sbom

# What is written from the code or the page.
nightly-written: stub screenshots page-figures demo
	@git diff --exit-code --stat -- graph_agent/__init__.pyi

nightly-log: $(STAMP)
	@$(BIN)/python -m benchmarks.record --postgresql

nightly-goals: bench agentdojo
	@$(BIN)/python -m benchmarks --goals

.PHONY: check
check: lint types page-types arch test ## everything CI runs
	@$(MAKE) --no-print-directory diagrams docs
	@git diff --exit-code --stat -- diagrams

.PHONY: clean
clean: ## remove .venv and caches
	@rm -rf $(VENV) ui/node_modules graph_agent/api/page .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
