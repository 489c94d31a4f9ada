# Only shortcuts: longer things are in scripts/, and cargo does the rest.

# For another make this is an error that ends it; for GNU make it is an unused rule.
.error these rules are for GNU make. Where this is not it, type gmake, or as root apt-get install make, then make:

# rustup's place, which is on the PATH of a login shell only. Another Rust there does not come first: scripts/setup.sh.
cargo_bin := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin
export PATH := $(if $(wildcard $(cargo_bin)/rustup),$(cargo_bin):$(PATH),$(PATH):$(cargo_bin))

# Also where cargo and the scripts look by themselves.
target := $(abspath $(or $(CARGO_TARGET_DIR),target))

# Untested on macOS, but this is cargo's name for it there.
library := librlock$(if $(filter Darwin,$(shell uname -s)),.dylib,.so)

# Absolute, because the tests and the server look from other directories.
export RLOCK_MODULE := $(target)/release/$(library)

# Tests wait more than they work.
export RUST_TEST_THREADS ?= $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) * 3)))

# Some systems, for example Alpine, have none.
ifeq ($(shell command -v bash 2>/dev/null),)
$(error the scripts of rlock need bash. Install it, as root: apt-get install bash, or apk add bash, or dnf install bash)
endif

.PHONY: help setup build module run test test-miri test-redisson test-javas test-spring test-clients test-dev test-fencing test-peers test-matrix test-platforms test-sanitized test-own-suites test-monitoring
.PHONY: nightly check-systems test-checked test-newest test-minimum-rust test-bare stage deb tarball wheel dist test-dist test-images test-packages
.PHONY: dist-clients release-dry-run deny
.PHONY: sim explore spec core-mutants sim-mutants chaos check-histories chaos-power chaos-long chaos-mutants client-mutants soak bench bench-quick lint package fmt docs site clean
.DEFAULT_GOAL := help

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what building and testing need, or print the command that does
	@scripts/setup.sh test

build: module ## build the module and the command for release: target/release/librlock.so and rlock
	@scripts/build.sh command

module:
	@scripts/setup.sh build
	@scripts/build.sh module

# Nothing but what it runs, and quickly: what is measured and shipped is the release build.
run: export RLOCK_MODULE := $(target)/trial/$(library)
run: ## start a server with the module on a free port, to try it out
	@[ -e $(RLOCK_MODULE) ] || echo "run: the first time this installs what is missing of a C compiler, libclang, Rust and Redis" \
		"(from a bare Debian 12 some 200 MB to fetch), fetches 62 crates (7 MB), and compiles for a minute or two"
	@scripts/setup.sh run
	cargo build --profile trial -p rlock || scripts/setup.sh crates
	@scripts/run.sh

# The tests are built once, with all checks; the module under them is the one that is shipped. First what was built goes to
# disk: a replica that stores a snapshot would wait for that too.
test: setup ## run all tests on this system's server
	@echo "test: 1 of 3: builds the module for release"
	@scripts/build.sh module
	@echo "test: 2 of 3: builds the tests; the first time this takes minutes"
	cargo tests --no-run
	sync
	@echo "test: 3 of 3: runs all tests"
	cargo tests
	@echo "test: all passed"
	@echo "Left out, as they need other languages or the network: make test-redisson, make test-spring, make test-clients, make test-matrix"

test-checked: setup ## run the same on the debug build, which checks itself for overflows and broken promises of unsafe code
	env -u RLOCK_MODULE cargo tests

test-clients: setup module ## test the clients for other languages, all by one suite; some: CLIENTS="python node go java"
	@scripts/setup.sh clients $(CLIENTS)
	@scripts/test-clients.sh $(CLIENTS)

test-dev: setup module ## run the suite of all clients on `rlock dev`, the server for unit tests; some: CLIENTS="python go"
	@scripts/setup.sh clients $(CLIENTS)
	@scripts/test-clients.sh --dev $(CLIENTS)

test-fencing: setup module ## test the storages of docs/fencing.md: PostgreSQL, Redis, HTTP, S3's conditional writes
	@scripts/setup.sh fencing
	@scripts/test-clients.sh --fencing

test-peers: setup module ## run other projects' own lock tests on rlock; some: PEERS="redis-py redlock"
	@scripts/setup.sh clients python node java
	@scripts/test-peers.sh $(PEERS)

test-deploys: setup module ## test that SIGTERM hands a lock over at once; some: CLIENTS="python go" ROUNDS=5
	@[ "$(CLIENTS)" = rust ] || scripts/setup.sh clients $(filter-out rust,$(CLIENTS))
	@deploys=$$(scripts/adapters.sh --deploys $(CLIENTS)) && \
		RLOCK_DEPLOYS=$$deploys RLOCK_DEPLOY_ROUNDS=$(or $(ROUNDS),100) cargo tests --test deploys

# Without any and with each one alone the client must have no code that is left without use. All at once come first.
client_features := blocking commands testing tls

lint: ## check formatting, clippy and rustdoc (warnings are errors), snippets, named files and tests, mutants, and what a release rests on
	@scripts/setup.sh lint
	cargo fmt --all --check
	for mutant in chaos/mutants/*.patch clients/go/mutants/*.patch sim/mutants/*.patch; do git apply --check $$mutant || exit 1; done
	cargo clippy --workspace --all-targets --all-features -- -D warnings
	cargo clippy --quiet -p rlock-sim --test world -- -D warnings
	for features in "" $(client_features); do \
		cargo clippy --quiet -p rlock-client --lib --no-default-features --features "$$features" -- -D warnings || exit 1; \
	done
	RUSTDOCFLAGS="-D warnings" cargo doc -p rlock-client-core -p rlock-client --all-features --no-deps --quiet
	scripts/snippets.sh check
	scripts/check-pages.sh
	scripts/check-figures.sh
	scripts/check-promises.sh
	scripts/check-words.sh
	scripts/test-release.sh
	scripts/test-setup.sh
	scripts/count-lines.sh

fmt: ## format the sources
	@scripts/setup.sh lint
	cargo fmt --all

docs: ## copy the snippets of tests into docs/fencing.md, docs/spring.md, docs/testing.md and README.md
	scripts/snippets.sh

site: setup ## build the pages, and the references of the clients for Python and Node.js, as a static site: target/site/html
	@scripts/setup.sh clients python node
	@scripts/site.sh

package: ## pack and build the client and the command as a registry would get them; nothing is uploaded
	@scripts/setup.sh package
	@scripts/package.sh

test-matrix: setup module ## run the server tests on all servers of docs/servers.md; some: SERVERS="redis-8.2 newest"
	@scripts/test-matrix.sh $(SERVERS)

# Tests with results that depend on the server. All others only exercise rlock.
differs := cluster followers grace inspect info loading metadata notifications other_modules panics publishing replication \
	selected_database unfit_servers killed life delivery

test-newest: setup ## run the tests of what servers do differently on the newest two, with the debug build
	cargo tests --no-run
	@RLOCK_MODULE=$(target)/debug/deps/$(library) TESTS="--test server -- $(differs)" scripts/test-matrix.sh newest

test-platforms: setup ## run tests on the servers of arm64, musl and an old glibc; some: PLATFORMS="arm64 x86-musl" SMOKE=yes
	@scripts/setup.sh dist
	@scripts/setup.sh platforms
	@scripts/test-platforms.sh $(if $(SMOKE),--smoke) $(PLATFORMS)

test-sanitized: setup module ## run the server tests on the newest servers, with the address sanitizer; TESTS="--test wire"
	@scripts/test-matrix.sh --sanitized $(SERVERS)

sim: ## lead the client and the engine through random histories in simulation; more: HISTORIES=20; some: TESTS=protection
	cargo test --release -p rlock-sim --test world -- --nocapture $(TESTS)

explore: ## visit every state that small worlds of core and of the simulation can come to; or: STEPS=8
	EXPLORE_STEPS=$(or $(STEPS),7) cargo test --release -p rlock-core --test model explored -- --nocapture
	EXPLORE_MOVES=2 cargo test --release -p rlock-sim --test world explorer -- --nocapture

spec: ## run docs/spec/lock.qnt by Quint, from npm: with all rules, without each, and with what the engine did; more: SAMPLES=50000 SEED=7
	@scripts/setup.sh clients node
	@SEED="$(SEED)" SAMPLES="$(SAMPLES)" scripts/spec.sh

core-mutants: ## check that core's tests catch mutants of core's files that have changed since; some: FILES="core/src/lock/plain.rs"; hours: FILES=--all
	@scripts/setup.sh mutants
	@scripts/core-mutants.sh $(FILES)

sim-mutants: ## check that the simulation catches clients and engines with one defect each; some: MUTANTS="no-grace-after-a-start"
	@scripts/setup.sh test
	@scripts/sim-mutants.sh $(MUTANTS)

test-miri: ## run the tests of the module's allocator under Miri, which is a part of Rust's nightly toolchain
	CARGO_TARGET_DIR=$(target)/miri cargo +nightly miri test -p rlock --lib alloc

test-own-suites: module ## run the servers' own tests without the module and with it; some: UNITS="unit/expire unit/multi"
	@scripts/setup.sh tcl
	@scripts/test-own-suites.sh $(SERVERS)

test-monitoring: setup module ## run the dashboard's queries and the alerts of docs/monitoring on a real Prometheus
	@scripts/test-monitoring.sh

test-minimum-rust: setup ## compile everything with the oldest Rust that Cargo.toml declares
	@scripts/test-minimum-rust.sh

systems := x86_64-pc-windows-gnu x86_64-pc-windows-msvc x86_64-apple-darwin aarch64-apple-darwin
check-systems: ## check that the client for Rust compiles for Windows and macOS, without TLS: its C code needs a compiler for these
	rustup target add $(systems)
	cargo check --locked -p rlock-client --no-default-features --features blocking,commands $(systems:%=--target %)

test-bare: ## run make test from a bare Debian 12, as root; or: SUITE=trixie TARGETS="build lint run"
	@scripts/test-bare.sh $(or $(SUITE),bookworm) $(TARGETS)

stage:
	@scripts/setup.sh build
	@packaging/build.sh

deb: stage ## build Debian packages of the module and of the command: target/packages/*.deb
	@packaging/deb.sh

tarball: stage ## build an archive of both for other systems: target/packages/rlock-VERSION-linux-ARCH.tar.gz
	@packaging/tarball.sh

wheel: stage ## build a package of both for machines with Python: target/packages/rlock_server-VERSION-*.whl
	@scripts/setup.sh clients python
	@packaging/wheel.sh

dist: dist-clients ## build and pack everything that is published, for x86-64 and arm64, glibc and musl; some: TARGETS="aarch64-unknown-linux-musl"
	@scripts/dist.sh $(TARGETS)

test-dist: ## install the packages of make dist on a bare Debian for arm64, under qemu, and take locks there, as root
	@scripts/test-dist.sh

test-images: ## build the images by buildah and run them with all forms of command line, as root, after make dist; with Alpine: RLOCK_MUSL_SERVER=valkey-server
	@scripts/test-images.sh

dist-clients: ## only the clients for Python and Node.js: target/clients/wheels, target/clients/npm
	@scripts/setup.sh dist && scripts/setup.sh clients python node
	@scripts/dist-clients.sh $(TARGETS)

release-dry-run: ## do all of a release that needs no account: pack for each registry and check; some: STEPS="npm maven"
	@scripts/release-dry-run.sh $(STEPS)

deny: ## check licenses, sources and known defects of the crates; fetches cargo-deny and the RustSec database
	cargo install --quiet --locked --root $(target)/tools cargo-deny@0.20.2
	$(target)/tools/bin/cargo-deny check

test-packages: deb tarball wheel ## install and use the packages on bare Debians 12 and 13, as root; one: SUITE=trixie
	@scripts/test-packages.sh $(SUITE)

# SECONDS is a word that bash has for itself, so it goes as an argument.
chaos: setup module ## run clients under faults and check their histories: SEED=7 SECONDS=600 SERVERS="valkey-8.1" WORLDS="single durable" CLIENTS="python node go" KEEP=yes
	@scripts/chaos.sh $(if $(KEEP),--keep) --seeds "$(SEED)" --seconds $(or $(SECONDS),60) --worlds "$(WORLDS)" --clients "$(CLIENTS)" $(SERVERS)

check-histories: ## judge the histories that make chaos KEEP=yes kept, with Porcupine; some: DIR=target/chaos/valkey-9.1-authors; FAILOVERS=yes excuses none
	@scripts/setup.sh clients go
	@scripts/check-histories.sh $(if $(FAILOVERS),--failovers) $(or $(DIR),$(target)/chaos)

chaos-power: setup module ## play 60 failovers in each topology, unprotected and protected, an hour: FAILOVERS=5 WORLDS="sentinel-protected" SERVERS=redis-8.0; every other server with the module of a commit: OTHER=v0.1.0
	@scripts/chaos.sh --seeds "$(SEED)" --failovers $(or $(FAILOVERS),60) --worlds "$(WORLDS)" $(if $(OTHER),--other "$(OTHER)") $(or $(SERVERS),valkey-9.1-authors)

chaos-long: setup module ## run chaos with ten seeds on each server, and chaos-power, for hours; writes docs/proof/figures.md
	@scripts/chaos-long.sh

soak: setup module ## hours of mixed load on the newest two servers; writes docs/proof/soak.md: HOURS=4 SERVERS="redis-8.0 valkey-9.1"
	@scripts/soak.sh $(or $(HOURS),4) $(or $(SERVERS),newest)

client-mutants: setup module ## check that the suite for clients catches clients with one defect each; some: MUTANTS="no-ack"
	@scripts/setup.sh clients go
	@scripts/client-mutants.sh $(MUTANTS)

chaos-mutants: setup ## check that chaos catches builds with one defect each; some: MUTANTS="last-come-first-served"
	@scripts/chaos-mutants.sh $(MUTANTS)

# What the gate leaves out. A failure does not keep the rest from running.
nightly: setup ## run what .ci/run leaves out, for hours, as root: all servers, all Redissons, mutants, peers, chaos
	@printf 'make %s\n' test-checked package test-minimum-rust test-matrix test-platforms test-redisson test-javas test-packages dist test-dist test-images \
		test-dev test-deploys test-fencing test-peers test-own-suites test-sanitized test-monitoring test-miri check-systems deny explore spec core-mutants sim-mutants client-mutants \
		chaos-mutants chaos-long site | scripts/steps.sh --all

test-redisson: setup module ## test the commands together with Redisson itself, in each pinned version; one: REDISSON="redisson-4"
	@scripts/setup.sh clients java
	@scripts/test-redisson.sh $(REDISSON)

test-javas: setup module ## test the locks of java/ on each Java runtime with each Redisson that they are for, a quarter of an hour
	@scripts/setup.sh clients java
	@scripts/test-redisson.sh $(foreach java,11 17 21 25,$(foreach redisson,3 4.0 4,redisson-$(redisson)-wrapped@$(java)))

test-spring: setup module ## test the locks in a service with Spring Boot 3 and 4; one: SPRING="spring-3"
	@scripts/setup.sh clients java
	@scripts/test-spring.sh $(SPRING)

bench: module ## measure locks and waiters against the usual alternatives; writes docs/bench/results.md
	@scripts/bench.sh whole

bench-quick: module ## a short bench; writes target/bench/results.md
	@scripts/bench.sh quick

clean: ## remove everything that was built or fetched
	cargo clean
