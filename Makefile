# What people type. The work of `make test` is in scripts/test.

LISTEN ?= 127.0.0.1:4020
RUN_DIR ?= .build/run
# A binary to use instead of building one.
SANDSHELL_BIN ?=

TARGET := $(or $(CARGO_TARGET_DIR),target)
RELEASE := $(TARGET)/release/sandshell
CARGO := cargo

.PHONY: help run build test check attack model bench gen package clean tools

help:
	@echo 'make run     build the release binary and serve a hub on LISTEN=$(LISTEN)'
	@echo 'make test    install what the tests need, then run everything'
	@echo 'make check   format, lints and unit tests; for every save'
	@echo 'make attack  a minute of file calls beside a program that swaps links under them'
	@echo 'make model   10,000 random sequences of calls, each answer compared with a model (SEED=1)'
	@echo 'make bench   the floor and us in one run: table and JSON (ARGS=--quick)'
	@echo 'make gen     write openapi/*.json anew'
	@echo 'make package static binaries, .deb, tarballs, checksums into .build/packages, and tests of them'
	@echo 'make tools   install cargo-nextest and cargo-deny (slow, once)'
	@echo 'make clean   remove what was built and the state of make run'

# The token lies in $(RUN_DIR)/token; the hub itself prints lines to paste.
run: $(if $(SANDSHELL_BIN),,build)
	@mkdir -p $(RUN_DIR)
	@echo 'Starting the hub; Ctrl-C ends it and its sandboxes.'
	@exec $(or $(SANDSHELL_BIN),$(RELEASE)) serve --listen $(LISTEN) --destroy-on-exit \
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
	@$(TARGET)/release/sandshell-bench --json .build/bench.json $(ARGS)
	@echo 'The figures are in .build/bench.json too.'

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
