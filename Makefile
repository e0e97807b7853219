# Three commands for everything: `make demo`, `make check` and `make test`. Each sets up what it needs: Debian packages (where we are
# root), a Python environment outside the checkout, the build. See `make help`.
SHELL := /bin/bash
.DEFAULT_GOAL := build
.PHONY: build check test demo wheel matrix bench soak tidy fuzz fixtures format lock clean docs help setup

# PYTHON: the Python to make the environment with. FUZZ_SECONDS: how long `make soak` runs each fuzzer.
FUZZ_SECONDS ?= 600
export PYTHON FUZZ_SECONDS

help:
	@echo 'make demo     models, one inspected, a training step captured, an estimate, the largest batch, a plan'
	@echo 'make check    format, lint, types and layering, without a build'
	@echo 'make test     the C++ tests and the Python tests'
	@echo 'make build    the program at build/ebbtide, and build/python with the ebbtide package'
	@echo 'make wheel    wheels in dist/, for the Pythons and the versions of torch that can be had'
	@echo 'make matrix   every verb and way in from a wheel, with each version of torch of scripts/matrix.txt'
	@echo 'make bench    benchmarks, each as a ratio against a peer or a bound'
	@echo 'make soak     sanitizers, long sweeps, every fuzzer for FUZZ_SECONDS ($(FUZZ_SECONDS)), torch 2.6: hours'
	@echo 'make fuzz     builds the fuzzers in build-fuzz/'
	@echo 'make fixtures tests/fixtures anew: installs the frameworks that the tests compare with, and asks them'
	@echo 'make tidy     clang-tidy over the C++ sources, or over FILES'
	@echo 'make format   clang-format over the C++ sources'
	@echo 'make docs     the documentation site in build/site, manual pages in build/man'
	@echo 'make lock     requirements.lock anew from requirements.in'
	@echo 'make clean    removes build/ and build-*/ (the Python environment stays, in EBBTIDE_CACHE or ~/.cache/ebbtide)'

setup:
	@scripts/setup-packages scripts/debian-packages.txt

build: setup
	@scripts/build

check:
	@scripts/setup-packages scripts/debian-packages-check.txt
	@scripts/check

test: build
	@scripts/test

demo: build
	@scripts/demo

wheel: setup
	@scripts/wheel

matrix: wheel
	@scripts/matrix

bench: build
	@scripts/bench

fuzz: setup
	@scripts/setup-packages scripts/debian-packages-fuzz.txt
	@scripts/build-preset fuzz

soak: build
	@scripts/soak

fixtures:
	@scripts/fixtures

tidy: build
	@scripts/setup-packages scripts/debian-packages-tidy.txt
	@scripts/tidy $(FILES)

format:
	@scripts/setup-packages scripts/debian-packages-check.txt
	@git ls-files '*.cc' '*.h' | xargs clang-format -i

lock:
	@scripts/lock

docs:
	@scripts/docs

clean:
	@rm -rf build build-dev build-asan build-tsan build-fuzz build-wheel build-py* dist
