# The commands that people use. Each installs, by package name, what it needs and this machine lacks.
#
#   make build      the program, at build/tailrace
#   make test       builds; unit, property and end-to-end tests
#   make demo       a real small model behind tailrace, measured with and without scheduling
#   make bench      micro-benchmarks, the simulation on real traces, and the gateway beside nginx
#   make conformance  CONFORMANCE_RUNS random workloads (1,000,000: some minutes) through the engine and the reference interpreter
#   make gain       what scheduling by length laws brings, through real sockets (about 8 minutes on an idle machine)
#   make tie        TIE's evaluation in simulation: each published cell beside ours (about 90 s of CPU on one core)
#   make beyond     what gittins gains over TIE, and where it does not (about 90 s of CPU on one core)
#   make accuracy   what the capacity analyzer gets right and wrong, into docs/capacity-accuracy.md
#   make test-kubernetes  the autoscaler against a real kube-apiserver (3 minutes; the first time 6 minutes of CPU to build it)
#   make autoscaler the control loop on a fixed load in simulation, into docs/autoscaler-scenario.md (about 160 s of CPU on one core)
#   make autoscaler-real  the same with processes and Prometheus, into docs/autoscaler-real.md (about 12 minutes for each of SEEDS)
#   make lint       formatting, layering, tidiness, clang-tidy
#   make sanitize   unit tests under AddressSanitizer and UBSan, threaded ones under ThreadSanitizer
#   make fuzz       every parser's fuzzer for FUZZ_SECONDS each
#   make install    PREFIX=/usr/local

SHELL := /bin/bash
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 10
CONFORMANCE_RUNS ?= 1000000
SEEDS ?= 1
# A second clone finds what the first one compiled.
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1
.DEFAULT_GOAL := build
.PHONY: build test test-kubernetes demo bench conformance gain tie beyond accuracy autoscaler autoscaler-real lint sanitize fuzz install clean setup-core setup-python setup-node unit e2e

setup-core:
	@tools/setup core
setup-python: setup-core
	@tools/setup python
setup-node: setup-core
	@tools/setup node

build: setup-core
	@cmake --preset release >/dev/null
	@ninja -C build -j $(JOBS) tailrace

unit: setup-core
	@cmake --preset release >/dev/null
	@ninja -C build -j $(JOBS)
	@ctest --test-dir build --output-on-failure -j $(JOBS)

e2e: build setup-python setup-node
	@TAILRACE_BIN=$(CURDIR)/build/tailrace .venv/bin/python -m pytest -q tests/e2e

test: unit e2e

test-kubernetes: build setup-python
	@tools/setup kubernetes
	@ninja -C build -j $(JOBS) kubernetes_real_test
	@tests/kubernetes/real/run build

demo: build
	@tools/demo

bench: setup-core
	@tools/setup bench
	@cmake --preset release >/dev/null
	@ninja -C build -j $(JOBS)
	@tools/bench

conformance: setup-core
	@cmake --preset release >/dev/null
	@ninja -C build -j $(JOBS) engine_property_test
	@TAILRACE_CONFORMANCE_RUNS=$(CONFORMANCE_RUNS) build/bin/engine_property_test --gtest_filter='Conformance.*'

gain: build
	@bench/scheduling_gain

tie: build
	@experiments/tie/run

beyond: build
	@experiments/beyond/run

accuracy: setup-core
	@cmake --preset release >/dev/null
	@ninja -C build -j $(JOBS) capacity_accuracy
	@experiments/capacity/run

autoscaler: setup-core
	@cmake --preset release >/dev/null
	@ninja -C build -j $(JOBS) autoscaler_scenario
	@experiments/autoscaler/run

autoscaler-real: build
	@ninja -C build -j $(JOBS) autoscaler_scenario
	@experiments/autoscaler/run-real --seeds $(SEEDS)

lint: setup-core
	@tools/format --check
	@tools/tidy --selftest
	@tools/tidy
	@cmake --preset clang >/dev/null
	@tools/clang-tidy build/clang

# clang builds everything here, so that both compilers are held to the warnings.
sanitize: setup-core
	@cmake --preset asan >/dev/null
	@ninja -C build/asan -j $(JOBS)
	@ctest --test-dir build/asan --output-on-failure -j $(JOBS) -L 'unit|property|threaded'
	@cmake --preset tsan >/dev/null
	@ninja -C build/tsan -j $(JOBS) threaded_tests
	@ctest --test-dir build/tsan --output-on-failure -L threaded

fuzz: setup-core
	@cmake --preset asan >/dev/null
	@tools/fuzz build/asan $(FUZZ_SECONDS) $(JOBS)

install: build
	@cmake --install build --prefix $(PREFIX)

clean:
	@rm -rf build
