# Everything a person types stands here. `make help` lists it.
#
# One profile (release) for everything, so that RocksDB is compiled once and not once a profile; build output outside the
# tree, so that a fresh clone on the same machine finds it again. Both are variables: `make test CARGO_TARGET_DIR=target`.

CARGO_TARGET_DIR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/weir/target
override CARGO_TARGET_DIR := $(abspath $(CARGO_TARGET_DIR))
export CARGO_TARGET_DIR
export WEIR_TOOLS ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/weir/tools
# Most tests of the whole wait for a server: one more of them at a time than there are cores.
export RUST_TEST_THREADS ?= $(shell expr $$(nproc) + 1)
export PATH := $(WEIR_TOOLS)/bin:$(HOME)/.cargo/bin:$(PATH)

# Settings of single targets: `make bench EVENTS=200000`, `make run ARGS=--help`.
ARGS ?=
EVENTS ?= 1000000
BATCH ?= 1000
REPEATS ?= 3
PASSES ?=
KILLS ?= 1000
KAFKA_KILLS ?= 200
QUERIES ?= 100000
FAULTS ?= 10000
FAULT_SECONDS ?= 30
INPUTS ?= 10000000
EXAMPLES ?= 150
SECONDS ?= 3600
SEED ?= 1
RELEASE ?= $(CARGO_TARGET_DIR)/handed-out

.DEFAULT_GOAL := help
.PHONY: help run test check format bench bench-kafka crash crash-kafka faults network-faults campaign-queries fuzz fuzz-api abuse churn release release-check tools-build tools-check

help: ## list these targets
	@grep -E '^[a-z-]+:.*## ' $(firstword $(MAKEFILE_LIST)) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 24

run: tools-build ## build weir and start its demonstration (stop it with Ctrl-C)
	cargo build --release --workspace --bin weir
	$(CARGO_TARGET_DIR)/release/weir demo $(ARGS)

# Some tests run the real binary, and cargo does not build it for another crate's tests. `--workspace` here as there, or
# crates would be compiled once more, with other features.
# The openCypher TCK is one of them: WEIR_TCK_FILTER=merge prints each failure of a part, UPDATE_EXPECT=1 writes its list anew.
test: tools-build ## run every test
	cargo build --release --workspace --bin weir
	cargo test --release --workspace $(ARGS)

check: tools-build tools-check ## formatting, lints, licences and, with internet, security advisories
	cargo fmt --all --check
	cargo fmt --check --manifest-path benchmarks/rivals/drasi/Cargo.toml
	@! git grep -nP '^(?=.{131})\s*//[/!]? (?! )' -- '*.rs' || { echo 'comments are at most 130 characters wide, like code'; exit 1; }
	cargo clippy --release --workspace --all-targets -- -D warnings
	cargo deny check bans licenses sources
	@if cargo deny fetch db >/dev/null 2>&1; then \
	  cargo deny check advisories; \
	else \
	  echo '**** NOT CHECKED: security advisories. Their database (github.com/rustsec/advisory-db) cannot be fetched from here.'; \
	  echo '**** Run `cargo deny check advisories` on a machine with internet before a release.'; \
	fi

format: ## format the code
	cargo fmt --all

bench: tools-build ## measure weir beside its floor and its rival, in turns
	cargo build --release -p weir-benchmarks
	cd benchmarks/rivals/drasi && CARGO_TARGET_DIR=$(CARGO_TARGET_DIR)/rivals cargo build --release --locked
	$(CARGO_TARGET_DIR)/release/bench compare $(PASSES) --rival drasi=$(CARGO_TARGET_DIR)/rivals/release/drasi-rival \
	  --events $(EVENTS) --batch $(BATCH) --repeats $(REPEATS) \
	  --json $(CARGO_TARGET_DIR)/benchmark.json --plot $(CARGO_TARGET_DIR)/benchmark.svg

bench-kafka: tools-build ## measure Kafka in, Kafka out beside a broker that is started for it
	cargo build --release --workspace --bin weir --bin bench
	@# A heap of fixed size that is there from the beginning, as Kafka's own script gives a broker.
	@at=$$(mktemp -d) && trap 'tests/services/kafka.sh stop $$at; rm -rf $$at' EXIT && \
	  KAFKA_HEAP=1g KAFKA_JVM='-Xms1g -Xmn512m -XX:+AlwaysPreTouch' tests/services/kafka.sh start $$at 29392 && \
	  $(CARGO_TARGET_DIR)/release/bench compare $(or $(PASSES),kafka-client kafka-source pipe pipe-once pipe-latency) \
	  --kafka 127.0.0.1:29392 --events $(EVENTS) --repeats $(REPEATS)

crash: tools-build ## the crash test at length: kill weir KILLS times at random moments
	cargo build --release --workspace --bin weir
	WEIR_CRASH_KILLS=$(KILLS) cargo test --release --workspace --test product -- --nocapture crash::

crash-kafka: tools-build ## kill weir or a real Kafka broker KAFKA_KILLS times: each result is in the output topic once
	cargo build --release --workspace --bin weir
	WEIR_KAFKA_KILLS=$(KAFKA_KILLS) cargo test --release --workspace --test product -- --nocapture kafka::each_result

network-faults: tools-build ## networks that are cut, slow, stalled and half open between weir and every connector, for FAULT_SECONDS each
	cargo build --release --workspace --bin weir
	WEIR_FAULT_SECONDS=$(FAULT_SECONDS) cargo test --release --workspace --test product -- --nocapture --test-threads 2 networks:: what_a_network_does \
	  nats::a_server_that_stalls postgres::connections_that_are_cut amqp::a_connection_that_is_cut

faults: tools-build ## FAULTS faults below the stores from SEED on: power lost, a full disk, torn, changed and missing bytes
	WEIR_FAULT_SEEDS=$(SEED)..$$(($(SEED) + $(FAULTS))) cargo test --release --workspace --test faults --test faults_rocks_db --test faults_live -- --nocapture

campaign-queries: tools-build ## QUERIES generated queries from SEED on: maintained in every mode, evaluated and the reference agree
	WEIR_QUERIES=$(QUERIES) WEIR_QUERIES_SEED=$(SEED) cargo test --release --workspace --test language -- --nocapture agreement::

fuzz: tools-build ## INPUTS random texts from SEED on for lexer, parser, binder, evaluator and each decoder
	WEIR_FUZZ=$(INPUTS) WEIR_FUZZ_SEED=$(SEED) cargo test --release --workspace --no-fail-fast --test language -- --nocapture fuzz

fuzz-api: tools-build ## EXAMPLES generated requests for each operation of each OpenAPI document, from SEED on
	cargo build --release --workspace --bin weir
	WEIR_API_EXAMPLES=$(EXAMPLES) WEIR_API_SEED=$(SEED) cargo test --release --workspace --test product -- --nocapture openapi::generated

abuse: tools-build ## SECONDS of clients that are wrong, slow and gone: nothing is left of them
	cargo build --release --workspace --bin weir
	WEIR_ABUSE_SECONDS=$(SECONDS) cargo test --release --workspace --test product -- --nocapture abuse::nothing_leaks

churn: tools-build ## SECONDS of payments that come and end by themselves: memory, disk and latency stay flat
	cargo build --release --workspace --bin weir
	WEIR_CHURN_SECONDS=$(SECONDS) cargo test --release --workspace --test product -- --nocapture churn::

release: ## the binary that is handed out, in RELEASE: the same commit gives the same bytes everywhere
	packaging/release.sh $(RELEASE)

release-check: ## the same twice, in two directories, compared
	packaging/release.sh check

tools-build:
	@.ci/tools build

tools-check:
	@.ci/tools check
