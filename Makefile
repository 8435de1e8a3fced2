# What people type. The work of `make test` is in scripts/test.

LISTEN ?= 127.0.0.1:4020
RUN_DIR ?= .build/run
# What make run does about protections that cannot be had here: best-effort goes without, and says so.
ISOLATION ?=
# How long make soak goes on.
MINUTES ?= 30
# A binary to use instead of building one.
SANDSHELL_BIN ?=

TARGET := $(or $(CARGO_TARGET_DIR),target)
RELEASE := $(TARGET)/release/sandshell
CARGO := cargo

.PHONY: help run build test check attack coverage bench gen package clean tools crash load soak faults fuzz model

help:
	@echo 'make run      build the release binary and serve a hub on LISTEN=$(LISTEN), its files in RUN_DIR=$(RUN_DIR)'
	@echo 'make test     install what the tests need, then run everything'
	@echo 'make check    format, lints and unit tests; for every save'
	@echo 'make attack   a minute of file calls beside a program that swaps links under them'
	@echo 'make coverage which lines the tests reach, by crate'
	@echo 'make crash    the hub killed at each of its calls, a thousand times at least (POINTS=…, SEED=…)'
	@echo 'make bench    the floor and us in one run: table and JSON (ARGS=--quick; PUBLISH=1 into docs/benchmarks.md)'
	@echo 'make load     the highest rate that is served, latency at seven tenths of it, floods (ARGS=session)'
	@echo 'make soak     mixed load with random kills for MINUTES=$(MINUTES); what has grown or is left at its end'
	@echo 'make faults   every fault that make test has a sample of: failing system calls, kills, full disks, stalls, clock jumps, odd clients'
	@echo 'make fuzz     libFuzzer on every reader of bytes from outside, MINUTES=1 each; a table'
	@echo 'make model    10,000 random sequences of calls, each answer compared with a model (SEED=1)'
	@echo 'make gen      write openapi/*.json anew'
	@echo 'make package  static binaries, .deb, tarballs, checksums into .build/packages, and tests of them'
	@echo 'make tools    install cargo-nextest and cargo-deny (slow, once)'
	@echo 'make clean    remove what was built and the state of make run'

# The token lies in $(RUN_DIR)/token; the hub itself prints lines to paste.
run: $(if $(SANDSHELL_BIN),,build)
	@mkdir -p $(RUN_DIR)
	@echo 'Starting the hub; Ctrl-C ends it and its sandboxes. For another address or directory: make run LISTEN=HOST:PORT RUN_DIR=DIR'
	@exec $(or $(SANDSHELL_BIN),$(RELEASE)) serve --listen $(LISTEN) --destroy-on-exit $(if $(ISOLATION),--isolation $(ISOLATION)) \
		--state-dir $(RUN_DIR)/state --token-file $(RUN_DIR)/token \
		--ready-file $(RUN_DIR)/ready

build:
	@test -x $(RELEASE) || echo 'Building the release binary; the first time takes a few minutes.'
	@$(CARGO) build --locked --release -p sandshell

test:
	@scripts/test

# Dev profile: quick to rebuild. The tests that drive the binary are left to `make test`.
check:
	@$(CARGO) fmt --all --check
	@$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	@$(CARGO) test --locked --workspace --exclude sandshell-tests --lib --bins --quiet

# `make test` has eight seconds of it.
attack:
	@$(if $(SANDSHELL_BIN),,$(CARGO) build --locked --profile tested -p sandshell)
	@SANDSHELL_ATTACK_SECONDS=60 SANDSHELL_BIN=$(or $(SANDSHELL_BIN),$(abspath $(TARGET))/tested/sandshell) \
		$(CARGO) test --locked -p sandshell-tests --test it never_a_byte_from_outside -- --nocapture

coverage:
	@scripts/coverage

# `make test` has thirty of these points. Processes must be allowed to trace each other. A sixth may be missed
# by chance, and 1,000 must be reached.
POINTS ?= 1400
SEED ?= 1
crash:
	@$(if $(SANDSHELL_BIN),,$(CARGO) build --locked --profile tested -p sandshell)
	@SANDSHELL_CRASH_POINTS=$(POINTS) SANDSHELL_CRASH_SEED=$(SEED) \
		SANDSHELL_BIN=$(or $(SANDSHELL_BIN),$(abspath $(TARGET))/tested/sandshell) \
		$(CARGO) test --locked --profile tested --config 'profile.tested.package.sandshell-tests.opt-level=0' \
		-p sandshell-tests --test it crash:: -- --nocapture

# `make test` has a sample. SANDSHELL_FAULTS_SEED=N gives the same random moments again.
faults:
	@$(if $(SANDSHELL_BIN),,$(CARGO) build --locked --profile tested -p sandshell)
	@SANDSHELL_FAULTS=full SANDSHELL_BIN=$(or $(SANDSHELL_BIN),$(abspath $(TARGET))/tested/sandshell) \
		$(CARGO) test --locked --profile tested --config 'profile.tested.package.sandshell-tests.opt-level=0' \
		-p sandshell-tests --test it faults:: -- --nocapture --test-threads=1

# `make test` replays the corpora, and inputs made of them by a seed.
fuzz:
	@scripts/fuzz $(TARGETS)

# `make test` has a few hundred of them. The places share the sequences: half of them in each.
model:
	@$(if $(SANDSHELL_BIN),,$(CARGO) build --locked --profile tested -p sandshell)
	@SANDSHELL_MODEL_SEQUENCES=5000 SANDSHELL_MODEL_SEED=$(or $(SEED),1) \
		SANDSHELL_BIN=$(or $(SANDSHELL_BIN),$(abspath $(TARGET))/tested/sandshell) \
		$(CARGO) test --locked --profile tested --config 'profile.tested.package.sandshell-tests.opt-level=0' \
		-p sandshell-tests --test it model:: -- --nocapture

bench:
	@$(CARGO) build --locked --release -p sandshell -p sandshell-bench
	@mkdir -p .build
	@$(TARGET)/release/sandshell-bench --json .build/bench.json $(if $(PUBLISH),--no-bars) $(ARGS)
	@echo 'The figures are in .build/bench.json too.'
	@$(if $(PUBLISH),$(TARGET)/release/sandshell-bench publish .build/bench.json $(wildcard .build/load.json .build/soak.json))

load:
	@$(CARGO) build --locked --release -p sandshell -p sandshell-bench
	@mkdir -p .build
	@$(TARGET)/release/sandshell-bench load --json .build/load.json $(ARGS)
	@echo 'The figures and curves are in .build/load.json too.'

# `make test` has twenty seconds of it.
soak:
	@$(CARGO) build --locked --release -p sandshell -p sandshell-bench
	@mkdir -p .build
	@$(TARGET)/release/sandshell-bench soak --minutes $(MINUTES) --csv .build/soak.csv --json .build/soak.json
	@echo 'The samples are in .build/soak.csv, figures and curves in .build/soak.json.'

gen:
	@for crate in agent hub; do \
		SANDSHELL_UPDATE=1 $(CARGO) test --quiet --locked --profile tested -p sandshell-$$crate --lib -- \
			the_file_is_what_the_code_says >/dev/null || exit 1; \
	done
	@$(if $(SANDSHELL_BIN),,$(CARGO) build --locked --profile tested -p sandshell)
	@$(or $(SANDSHELL_BIN),$(TARGET)/tested/sandshell) mcp tools > openapi/mcp-tools.json.new
	@mv openapi/mcp-tools.json.new openapi/mcp-tools.json
	@echo 'openapi/agent-v1.json, openapi/hub-v1.json and openapi/mcp-tools.json are up to date.'

# What `make test` installs for the tests (a Debian root, busybox, bash-static) is used when it is there.
package:
	@scripts/package
	@SANDSHELL_PACKAGES=.build/packages $(CARGO) test --locked --profile tested \
		--config 'profile.tested.package.sandshell-tests.opt-level=0' -p sandshell-tests --test it packages::

tools:
	$(CARGO) install --locked cargo-nextest cargo-deny

clean:
	$(CARGO) clean
	rm -rf .build
