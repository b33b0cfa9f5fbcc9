# Every target sets up all that it needs. The environment, the native build and every tool's cache
# lie in $(WORK); only what was asked for is written here, and git ignores it: dist/ (wheel) and
# bench/results/ (bench).
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

PYTHON ?= python3
CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/moiety
WORK ?= $(CACHE)/checkout-$(shell pwd -P | cksum | cut -d' ' -f1)
VENV := $(WORK)/venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --quiet --disable-pip-version-check
GPU_PYTHON ?= 3.12
GPU_PLATFORMS := manylinux_2_28_x86_64 manylinux_2_17_x86_64 manylinux2014_x86_64 manylinux_2_5_x86_64
LOCK := mkdir -p $(WORK) && flock $(WORK)/lock

export PATH := $(VENV)/bin:$(PATH)
export PYTHONPYCACHEPREFIX := $(WORK)/pycache
export RUFF_CACHE_DIR := $(WORK)/ruff
export MYPY_CACHE_DIR := $(WORK)/mypy
export HYPOTHESIS_STORAGE_DIRECTORY := $(WORK)/hypothesis
# Without bytecode every process that a test starts would compile the whole product again.
unexport PYTHONDONTWRITEBYTECODE PYTHONPATH MOIETY_NATIVE VIRTUAL_ENV

# Folders are listed too: their time tells when a file went away.
SOURCES := $(shell find native src -not -path '*/__pycache__*' -not -path '*/.*' -not -name '*.egg-info') \
           CMakeLists.txt pyproject.toml README.md LICENSE man/moiety.1 tools/zig.cmake

.DEFAULT_GOAL := help
.PHONY: help set-up demo pool-demo test mutants test-quarantined test-containers test-frameworks test-slurm test-slurm-tools test-kube kube-bed kube-warm check format docs bench soak bench-policy gpu-facts gpu-check gpu-bundle wheel upgrade-check release-check image clean

help:  ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

set-up: $(WORK)/installed $(WORK)/tools-check $(WORK)/tools-docs  ## all that test, check and docs need

demo: $(WORK)/installed  ## three programs share a simulated GPU that is too small for them
	@$(PY) demo/run.py $(ARGS)

pool-demo: $(WORK)/installed  ## three projects and forty workloads in a pool of 8 simulated GPUs
	@$(PY) demo/pool.py $(ARGS)

# Most tests wait for processes: three at a time keep two processors busy. ARGS="-n 0" has one.
test: $(WORK)/installed  ## every test that needs no GPU; ARGS="-k name" chooses
	@$(PY) -m pytest -o cache_dir=$(WORK)/pytest -n 3 --dist worksteal $(ARGS)

# They go into a cache that all checkouts share; where they cannot be had, the tests say so.
CUDA ?= 12
test-frameworks: $(WORK)/installed  ## PyTorch, CuPy, Numba, JAX on a simulated GPU; CUDA=13, ARGS="-k moving" choose
	@$(PY) tests/frameworks/setup.py $(CUDA)
	@MOIETY_TEST_CUDA=$(CUDA) $(PY) -m pytest -o cache_dir=$(WORK)/pytest -m frameworks -rsP tests/frameworks $(ARGS)

# As root on Debian it installs podman and runc; elsewhere they must be there, or the tests say so.
test-containers: $(WORK)/installed  ## podman and runc with shares of a simulated GPU; ARGS="-k musl" chooses
	@$(PY) tests/containers/setup.py
	@$(PY) -m pytest -o cache_dir=$(WORK)/pytest -m containers -rs tests/containers $(ARGS)

# As root on Debian it installs slurm-wlm and openmpi-bin; elsewhere they must be there, or the tests say so.
test-slurm: $(WORK)/installed  ## jobs in a pool and in real Slurm are compared; ARGS="-k array" chooses
	@$(PY) tests/slurm/setup.py
	@$(PY) -m pytest -o cache_dir=$(WORK)/pytest -m slurm -rs tests/slurm $(ARGS)

# They go into a cache that all checkouts share; where they cannot be had, the tests say so.
test-slurm-tools: $(WORK)/installed  ## submitit, dask-jobqueue and Snakemake, unmodified, on a pool; ARGS="-k dask" chooses
	@$(PY) tests/slurm_tools/setup.py
	@$(PY) -m pytest -o cache_dir=$(WORK)/pytest -m slurm_tools -rs tests/slurm_tools $(ARGS)

# Kubernetes is built from Go's modules, into a cache that all checkouts share.
kube-bed: $(WORK)/installed  ## build Kubernetes, containerd and kwok for test-kube: ten minutes, once
	@$(PY) tests/kube/setup.py

kube-warm: $(WORK)/installed
	@$(PY) tests/kube/setup.py --if-warm

# As root, in namespaces of their own: ports, mounts and processes are nobody else's. 77: it says why not.
test-kube: kube-bed  ## pods with shares of a simulated GPU on a real control plane and node
	@$(PY) tests/kube/inside.py $(PY) -m pytest -o cache_dir=$(WORK)/pytest -m kube -rs tests/kube $(ARGS) || [ $$? -eq 77 ]

check: $(WORK)/installed $(WORK)/tools-check  ## lint, types, layers, formats, wording
	@NATIVE=$(WORK)/native $(PY) tools/check.py $(ARGS)

docs: $(WORK)/installed $(WORK)/tools-docs  ## the documentation as a site, and its address
	@$(PY) tools/site/build.py $(WORK)/docs

format: $(WORK)/tools-check  ## write every file the way check wants it
	@ruff check --fix --quiet src tests tools demo bench || true
	@ruff format --quiet src tests tools demo bench
	@find native tests demo bench -name '*.[ch]' | xargs clang-format -i

# The long run of what CI does for a minute: real processes for SECONDS, ten thousand virtual days, fuzzing, ThreadSanitizer.
soak: $(WORK)/installed  ## faults for SECONDS (300) from SEED (1), SCHEDULES (10000) virtual days, every test marked soak; counts kept in bench/results/latest.json
	@$(PY) bench/soak.py --seconds $(or $(SECONDS),300) --schedules $(or $(SCHEDULES),10000) --seed $(or $(SEED),1)
	@$(PY) -m pytest -o cache_dir=$(WORK)/pytest -m soak -s --timeout 7200 $(ARGS)
	@$(MAKE) --no-print-directory test-quarantined

# The tests that depend on time, one after the other. 5: pytest found none, 77: this is not root.
test-quarantined: $(WORK)/installed  ## the tests that tests/quarantine.toml leaves out of all others
	@$(PY) -m pytest -o cache_dir=$(WORK)/pytest -n 0 --quarantined -m "not gpu and not kube" -rs $(ARGS) || [ $$? -eq 5 ]
	@$(PY) tests/kube/setup.py --if-warm || exit 0; status=0; \
	  $(PY) tests/kube/inside.py $(PY) -m pytest -o cache_dir=$(WORK)/pytest --quarantined -m kube -rs tests/kube $(ARGS) \
	  || status=$$?; [[ $$status == @(0|5|77) ]]

# Not a part of CI: ten minutes on two processors. ARGS="--seed 2 --count 80" has another, larger sample.
mutants: $(WORK)/installed $(WORK)/tools-mutants  ## small mistakes in the code that the nearest tests do not notice; ARGS="--seed 2 --count 80"
	@NATIVE=$(WORK)/native $(PY) -m tools.mutants $(ARGS)

bench: $(WORK)/installed  ## measure, and print the table of docs/benchmarks.md
	@$(PY) bench/run.py $(ARGS)

bench-policy: $(WORK)/installed  ## measure where tasks are placed, on published traces (MOIETY_DATA)
	@$(PY) bench/run.py policy_fidelity policy_allocation policy_above_fgd policy_speed policy_cycle policy_scenarios policy_jct policy_starts

gpu-facts:  ## on a machine with an NVIDIA GPU: measure the card and its driver; ARGS="-o FILE"
	@$(PYTHON) tests/gpu/facts.py $(ARGS)

gpu-check: $(WORK)/installed  ## on a machine with an NVIDIA GPU: does everything hold there?
	@$(PY) tests/gpu/check.py $(ARGS)

wheel: $(VENV)/bin/python  ## build the one wheel into dist/
	@$(PIP) wheel --no-deps --wheel-dir dist .
	@ls dist/*.whl

upgrade-check: $(WORK)/installed  ## programs run on while WHEEL, as a later version, replaces the agent
	@rm -rf $(WORK)/upgrade && mkdir -p $(WORK)/upgrade
	@$(PY) -m tools.upgrade "$(or $(WHEEL),$(shell ls -t dist/moiety-*.whl 2>/dev/null | head -n 1))" $(WORK)/upgrade

# Some minutes: the sdist is built four times.
release-check: $(VENV)/bin/python $(WORK)/tools-release  ## what a release consists of: builds, metadata, change log; installs with pip, pipx and uv
	@$(PY) tools/release.py $(WORK)/release $(ARGS)

image: wheel  ## the container image, without docker or a registry, into dist/moiety-image.tar
	@$(PY) tools/image.py "$$(ls -t dist/moiety-*.whl | head -n 1)" dist/moiety-image.tar

# For a machine with a GPU and without a network: the wheel, and wheels of what it needs there.
gpu-bundle: wheel  ## the wheel and all that it needs, for GPU_PYTHON (3.12), into dist/gpu/
	@rm -rf dist/gpu
	@$(PIP) download --only-binary=:all: --implementation cp --python-version $(GPU_PYTHON) \
	  $(addprefix --platform=,$(GPU_PLATFORMS)) --dest dist/gpu "$$(ls -t dist/moiety-*.whl | head -n 1)"
	@ls dist/gpu

clean:  ## remove the environment, every build and every cache of this checkout
	rm -rf $(WORK) build dist

$(VENV)/bin/python:
	@$(LOCK) $(PYTHON) -m venv $(VENV)

# One stamp for each set of tools; then one for the product itself, as the wheel that users get.
$(WORK)/tools-%: pyproject.toml tools/constraints.txt tools/requirements.py | $(VENV)/bin/python
	@echo "setting up: tools to $*"
	@$(PY) tools/requirements.py $* >$(WORK)/requirements-$*.txt
	@$(LOCK) $(PIP) install -c tools/constraints.txt -r $(WORK)/requirements-$*.txt
	@touch $@

$(WORK)/installed: $(SOURCES) | $(WORK)/tools-test
	@echo "setting up: moiety"
	@rm -rf $(WORK)/wheel
	@$(LOCK) $(PIP) wheel --no-deps --no-build-isolation \
	  --config-settings build-dir=$(WORK)/native --wheel-dir $(WORK)/wheel .
	@$(LOCK) $(PIP) install --no-deps --force-reinstall $(WORK)/wheel/*.whl
	@touch $@

.PRECIOUS: $(WORK)/tools-%
