# Every target runs from a cold clone with Go alone; tools build themselves into bin/tools.

GO       ?= go
BIN      := bin
TOOLS    := $(BIN)/tools
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# Silences the deprecation warnings of NVIDIA's header.
export CGO_CFLAGS ?= -O2 -g -Wno-deprecated-declarations
# The same flags everywhere: what one target has compiled, no other compiles again.
export GOFLAGS += -trimpath
LDFLAGS  := -s -w -X main.version=$(VERSION)

# Packages whose code runs concurrently; the race detector watches them. The state and the planner have no goroutines: of them
# only the readers beside an applying entry are watched.
RACE_PKGS := ./fsm/work/changes ./raftnode/... ./gossip/... ./coordinator/... ./agent/... ./gateway/... ./api/client/... ./archive/... ./devcluster/...

.DEFAULT_GOAL := build

.PHONY: help build demo demo-core web dev clean test test-web web-shots scaffold-test race fuzz oracle bench check hooks lint fmt ci chaos levels virtual sim powercut upgrade conform mutants command generate breaking map release released s3-server oauth-server train-env train-names test-train demo-train bench-train

help: ## Say what each target does.
	@awk '/^##@ / {print "\n" substr($$0, 5)} /^[a-z0-9-]+:.*## / {name = $$0; sub(/:.*/, "", name); sub(/.*## /, ""); printf "  %-13s %s\n", name, $$0}' $(firstword $(MAKEFILE_LIST))
	@printf '\nOne test: go test ./fsm -run TestGolden. How to work on Mind: CONTRIBUTING.md.\n'

##@ Build and run

build: ## Build bin/mind (NVML when cgo is there, nvidia-smi otherwise), with the shim inside.
	CGO_ENABLED=0 $(GO) build -ldflags '-s -w' -o agent/shim/embedded/shim ./agent/shim/alone
	$(GO) build -tags shim_embedded -ldflags '$(LDFLAGS)' -o $(BIN)/mind ./cmd/mind

$(BIN)/charlm: $(wildcard examples/charlm/*.go examples/charlm/*.txt)
	$(GO) build -o $@ ./examples/charlm

demo: build $(BIN)/charlm ## Train on a three-replica cluster, kill its leader, lose nothing.
	$(GO) run ./examples/demo -mind $(BIN)/mind -charlm $(BIN)/charlm

demo-core: build $(BIN)/charlm ## Run a flow that trains, evaluates and asks; kill the leader twice, do nothing twice.
	$(GO) run ./examples/demo-core -mind $(BIN)/mind -charlm $(BIN)/charlm

demo-train: build ## Fine-tune a model on two nodes, destroy one of them, lose nothing; needs `make train-env`.
	python/train-env run python $(CURDIR)/examples/demo-train/demo.py --mind $(CURDIR)/$(BIN)/mind

web: web/node_modules ## Build the console (web/dist) from its sources; needs Node 20 and npm.
	cd web && npm run --silent build

web/node_modules: web/package.json web/package-lock.json
	cd web && npm ci --silent
	@touch $@

dev: build ## Start a whole cluster on this machine.
	$(BIN)/mind dev

clean: ## Remove what was built.
	rm -rf $(BIN)

##@ Test

fmt: $(TOOLS)/gofumpt ## Format.
	$(TOOLS)/gofumpt -w $$(git ls-files '*.go' | grep -v '\.pb\.go$$')

lint: $(TOOLS)/buf $(TOOLS)/staticcheck $(TOOLS)/gofumpt ## Formatting, vet, staticcheck, protos.
	@out="$$($(TOOLS)/gofumpt -l $$(git ls-files '*.go' | grep -v '\.pb\.go$$'))"; if [ -n "$$out" ]; then echo "not formatted (run make fmt):"; echo "$$out"; exit 1; fi
	$(GO) vet ./...
	$(TOOLS)/staticcheck ./...
	cd api && ../$(TOOLS)/buf lint

check: lint ## What can be checked in a minute: all of lint, and that docs and mutants fit the code.
	$(GO) test ./docs ./chaos/mutants ./scaffold

hooks: ## Have .githooks/pre-commit check each commit of this clone; `git config --unset core.hooksPath` ends that.
	git config core.hooksPath .githooks

# The attacks on clusters of real processes run by themselves, after the others. The limit is for hangs: a busy machine is slow.
test: build ## All tests, real processes included.
	@failed=0; \
	$(GO) test -timeout 30m $$($(GO) list ./... | grep -v '/chaos$$') || failed=1; \
	$(GO) test -timeout 30m ./chaos || failed=1; \
	exit $$failed

test-web: build web/node_modules ## The console: its units, and a browser (Debian's chromium, or MIND_CHROMIUM) against a real cluster.
	cd web && npm test --silent
	cd web && npm run --silent browser

web-shots: build web/node_modules ## Take the pictures of docs/console again.
	cd web && MIND_SHOTS=$(CURDIR)/docs/console node --test --test-name-pattern=axe test/*.test.mjs

scaffold-test: ## Follow the docs for a new command in a copy of the tree: scaffold, fill in, test, and call it in a cluster.
	$(GO) test -tags scaffold ./scaffold -run TestNewcomer -count=1 -v -timeout 30m

train-env: ## Make the Python environment that trains, once for each lock of its packages: about 4 GB to fetch; MIND_TRAIN_ENV names a place.
	python/train-env make

# pytest's settings are in python/pyproject.toml: tests that take minutes are run with PYTEST="-m long".
test-train: build ## The Python side: ruff, mypy and pytest in the environment of `make train-env`.
	cd python && ./train-env run ruff format --check .
	cd python && ./train-env run ruff check . && ./train-env run ruff check --config pyproject.toml ../examples/demo-train
	cd python && ./train-env run mypy
	cd python && ./train-env run python -m pytest $(PYTEST)

race: ## The concurrent packages under the race detector.
	GORACE="halt_on_error=1 atexit_sleep_ms=0" $(GO) test -race -short -timeout 12m $(RACE_PKGS)
	GORACE="halt_on_error=1 atexit_sleep_ms=0" $(GO) test -race -run TestView_readWhileApplying ./fsm

FUZZTIME ?= 1m

# Minimising an interesting input takes up to a minute by default, in which nothing new is tried: one attempt has to do.
fuzz: ## Try random inputs on every fuzz target, each for FUZZTIME (1m).
	@list=$$($(GO) test -list '^Fuzz' $$(git grep -l '^func Fuzz' -- '*_test.go' | xargs -n1 dirname | sort -u | sed 's|^|./|')) || { echo "$$list"; exit 1; }; \
	targets=$$(echo "$$list" | awk '/^Fuzz/ {names[n++] = $$1} /^ok/ {for (i = 0; i < n; i++) print $$2 ":" names[i]; n = 0}'); \
	failed=0; \
	for target in $$targets; do \
		echo "== $${target##*:} of $${target%:*}"; \
		$(GO) test -run '^$$' -fuzz "^$${target##*:}\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1x "$${target%:*}" || failed=1; \
	done; exit $$failed

# A module of its own: nothing else needs cel-go.
oracle: ## Compare the expressions of flows with CEL on ORACLE_CHECKS (2000) texts of each kind.
	cd flow/expr/oracle && $(GO) test -count=1 . -rapid.checks=$${ORACLE_CHECKS:-2000}

ci: ## What .ci/run runs.
	bash .ci/run

##@ Attack and measure

bench: build ## The whole system beside its yardsticks; prints the tables of docs/develop/benchmarks.md.
	$(GO) run ./chaos/bench -mind $(BIN)/mind

bench-train: ## What the runner costs a training, reports and checkpoints, in the environment of `make train-env`.
	cd python && ./train-env run python bench/train.py

chaos: build ## Break clusters of real processes and of virtual time, and check every promise; MIND_CHAOS=long for all of it.
	$(GO) run ./chaos/attack -mind $(BIN)/mind -virtual

LEVELS ?= none,cgroup
LEVEL_PKGS ?= ./agent ./agent/runner ./chaos

levels: ## The tests of agents and the attacks on real processes at each isolation of LEVELS (none,cgroup) that this machine has.
	$(GO) run ./chaos/levels -levels $(LEVELS) $(GO) test -timeout 30m $(LEVEL_PKGS)

virtual: ## A cluster in virtual time under random faults; MIND_CHAOS_SEED=7 plays one seed, CONTRIBUTING.md says how to shrink it.
	$(GO) test ./chaos/virtual -run TestRandomFaults -count=1 -v

sim: ## The simulation on one goroutine, 60 seeds; MIND_SIM_SEEDS=1000 for more.
	$(GO) test ./chaos/sim -count=1 -v -run TestSeeds

powercut: ## Cut the power of a virtual machine in which a cluster works, and check that nothing acknowledged is lost; needs qemu (docs/operate/powercut.md), MIND_CHAOS=long for more.
	$(GO) build -o $(BIN)/powercut ./chaos/vm/powercut
	$(BIN)/powercut $(POWERCUT)

upgrade: ## Upgrade a cluster of an earlier version under load, in every order, and back; needs the history of the repository.
	MIND_UPGRADE=$${MIND_UPGRADE:-all} $(GO) test ./chaos/upgrade -count=1 -v -timeout 30m

conform: build ## Hold a gateway to its contract: every endpoint, role and bad input, then random requests; prints what was covered.
	$(GO) run ./chaos/conform -mind $(BIN)/mind

mutants: ## Put known mistakes into the code, one at a time, and require of the tests to notice each.
	$(GO) run ./chaos/mutants

##@ Change commands, protos and packages

command: ## Begin a new command: NAME=PauseQueue writes it with its call, route, verb and docs, to be filled in (docs/develop/extending.md).
	$(GO) run ./scaffold -name '$(NAME)' -noun '$(NOUN)' -domain '$(DOMAIN)' -route '$(ROUTE)' -permission '$(PERMISSION)'
	@$(MAKE) --no-print-directory generate

train-names: ## List the hyperparameters of the installed trl, transformers and peft for the coordinators.
	cd python && ./train-env run env PYTHONPATH=src python -m mind_runner names --output ../coordinator/hyperparameters/names.json

generate: $(TOOLS)/buf $(TOOLS)/protoc-gen-go $(TOOLS)/protoc-gen-go-grpc ## Generate Go from api/*.proto.
	cd api && ../$(TOOLS)/buf generate

breaking: $(TOOLS)/buf ## Compare the protos with those of the last release.
	cd api && ../$(TOOLS)/buf breaking --against released.binpb

map: ## Write the map of packages in docs/architecture.md anew, after packages or their imports changed.
	$(GO) test ./docs -run Packages -update

##@ Release

release: ## Build the program that is released, with NVML and without, for this machine; VERSION=v1.2.3 names it.
	CGO_ENABLED=0 $(GO) build -ldflags '-s -w' -o agent/shim/embedded/shim ./agent/shim/alone
	$(GO) build -tags shim_embedded -ldflags '$(LDFLAGS)' -o $(BIN)/mind-$(VERSION) ./cmd/mind
	CGO_ENABLED=0 $(GO) build -tags shim_embedded -ldflags '$(LDFLAGS)' -o $(BIN)/mind-$(VERSION)-static ./cmd/mind

released: $(TOOLS)/buf ## Keep the protos of this release; from then on `make breaking` compares with them.
	cd api && ../$(TOOLS)/buf build -o released.binpb

##@ Servers that some tests use

s3-server: $(TOOLS)/versitygw ## Build a real S3 server for the tests of the archive, which skip without it.

# A module of its own: its many dependencies are nobody else's.
$(TOOLS)/versitygw: tools/s3/go.mod
	@mkdir -p $(TOOLS)
	cd tools/s3 && $(GO) build -o ../../$(TOOLS)/ github.com/versity/versitygw/cmd/versitygw

oauth-server: $(TOOLS)/dex ## Build a real OAuth server for the tests of the token exchange and of signing in, which skip without it.

# A module of its own, as above. Its storages want cgo.
$(TOOLS)/dex: tools/oauth/go.mod
	@mkdir -p $(TOOLS)
	cd tools/oauth && $(GO) build -o ../../$(TOOLS)/ github.com/dexidp/dex/cmd/dex

$(TOOLS)/%: tools/go.mod
	@mkdir -p $(TOOLS)
	cd tools && $(GO) build -o ../$(TOOLS)/ $$($(GO) list -f '{{.ImportPath}}' tool | grep '/$*$$')
