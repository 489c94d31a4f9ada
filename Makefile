# Shortcuts only: whatever is more than a line is in scripts/, and cargo knows the rest.

# rustup's place, which is on the PATH of a login shell only.
export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH)

# Absolute, because the tests and the server look from other directories.
export RLOCK_MODULE := $(abspath $(or $(CARGO_TARGET_DIR),target))/release/librlock.so

.PHONY: help setup build run test test-redisson test-clients test-matrix test-sanitized test-bare chaos chaos-long chaos-mutants bench bench-quick bench-redisson lint fmt docs clean
.DEFAULT_GOAL := help

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what is needed to build and test, or say what to type
	@scripts/setup.sh test

build: ## the module and the command as they are shipped: target/release/librlock.so and rlock
	@scripts/setup.sh build
	cargo build --release -p rlock -p rlock-cli

run: setup build ## a server with the module on a free port, to try it out
	@scripts/run.sh

# Twice against the server: the debug build checks itself for overflows and broken promises of unsafe code; the release
# build is what is shipped. The same packages and features both times, so that all is compiled once. First what was built
# goes to disk: a replica that stores a snapshot would wait for that too.
tested := --workspace --features rlock/panic-probe,rlock-cli/panic-probe

test: setup build ## all tests on this system's server
	env -u RLOCK_MODULE cargo test $(tested) --no-run
	sync
	env -u RLOCK_MODULE cargo test $(tested)
	cargo test $(tested) --test server --test storms --test wire
	@echo "Left out, as they need other languages or the network: make test-redisson, make test-clients, make test-matrix"

test-clients: setup build ## the commands from other languages' clients, or from some: CLIENTS="python node go java"
	@scripts/setup.sh clients $(CLIENTS)
	@scripts/test-clients.sh $(CLIENTS)

lint: ## formatting and clippy, with warnings as errors
	@scripts/setup.sh lint
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --features rlock/panic-probe,rlock-cli/panic-probe -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc -p rlock-client --no-deps --quiet
	scripts/snippets.sh check

fmt: ## format the sources
	@scripts/setup.sh lint
	cargo fmt --all

docs: ## docs/clients.md, with the snippets that the clients' tests have now
	scripts/snippets.sh

test-matrix: setup build ## the server tests on all servers, or on some: SERVERS="redis-8.0 valkey-9"
	@scripts/test-matrix.sh $(SERVERS)

test-sanitized: setup build ## thousands of locks, and anything sent, on servers with the address sanitizer, or on some: SERVERS="redis-8 valkey-8"
	@scripts/test-sanitized.sh $(SERVERS)

test-bare: ## make test from a Debian 12 with nothing on it, as root; or: SUITE=trixie TARGETS="build lint"
	@scripts/test-bare.sh $(or $(SUITE),bookworm) $(TARGETS)

# SECONDS is a word that bash has for itself, so it goes as an argument.
chaos: setup build ## histories under faults, judged: SEED=7 SECONDS=600 SERVERS="valkey-9" WORLDS="single cluster"
	@scripts/chaos.sh --seeds "$(SEED)" --seconds $(or $(SECONDS),60) --worlds "$(WORLDS)" $(SERVERS)

chaos-long: setup build ## ten seeds on each server, an hour in all, and docs/proof/figures.md
	@scripts/chaos.sh --seeds "1 2 3 4 5 6 7 8 9 10" --page redis-7.0 redis-8.0 valkey-8.0 valkey-8.1 valkey-9

chaos-mutants: setup ## whether the chaos catches builds with one defect each, or some: MUTANTS="last-come-first-served"
	@scripts/chaos-mutants.sh $(MUTANTS)

test-redisson: setup build ## Redisson itself beside the commands, in each pinned version, or: REDISSON="redisson-4"
	@scripts/setup.sh clients java
	@scripts/test-redisson.sh $(REDISSON)

bench: setup build ## what locks and who waits for them cost, against all else that one would take: docs/bench/results.md
	@scripts/bench.sh whole

bench-quick: setup build ## the same in short, for oneself: target/bench/results.md
	@scripts/bench.sh quick

bench-redisson: setup build ## Redisson itself against the commands, in one JVM: docs/bench/redisson.md
	@scripts/bench.sh redisson

clean: ## remove all that was built or fetched
	cargo clean
