# `make help` lists what there is. Each target makes the environment that it needs.

PYTHON ?=
TF ?=
VENV ?= .venv
RANKS ?= 4
PYTEST_OPTIONS ?=

# One job for each core; the compiler needs up to 1.5 GB for a file that includes TensorFlow.
JOBS := $(shell nproc)
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(JOBS)

LANES := tf1.15 tf2.6 tf2.15 tf2.21
LANE_PYTHON_tf1.15 := 3.7
LANE_PYTHON_tf2.6 := 3.9
LANE_PYTHON_tf2.15 := 3.11
LANE_PYTHON_tf2.21 := 3.11

# address-undefined is one build with both.
SANITIZERS := address-undefined thread
comma := ,
# It sees one process only, and a child that is forked from one with threads may hang in it.
SANITIZED_TESTS_thread := --exclude-regex ShmProcess
TEST_REQUIREMENTS := --requirements tools/requirements/test.txt --tf-keras
LINT_VENV := .venv-lint
# The pinned linters run on Python 3.9 and later; what they check is for 3.7 and later.
LINT_PYTHON ?= 3.11
CPP_BUILD := build/cpp
# What a folder built for one ABI and sanitizer is configured with, beside those two.
CPP_OPTIONS := -G Ninja -DNPU_BRIDGE_BUILD_TESTS=ON -DNPU_BRIDGE_WERROR=ON
CTEST_OPTIONS := --output-on-failure --no-tests=error --timeout 300 --parallel $(JOBS)

.DELETE_ON_ERROR:
.PHONY: help demo test environment python-test cpp-test sanitizers lanes lint format wheel clean \
        system-packages lint-environment $(LANES:%=lane-%) $(SANITIZERS:%=sanitizer-%)

help:  ## print this list
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' $(firstword $(MAKEFILE_LIST)) | column -t -s '|'
	@echo
	@echo "PYTHON=...  the Python to use, a version (3.9) or a path; default: the first usable one"
	@echo "TF=...      the TensorFlow: a lane (tf2.6), a version, or pip requirements"
	@echo "VENV=...    the environment's folder, default .venv"

demo: environment  ## train on real data with 4 ranks (RANKS=...)
	@if $(VENV)/bin/python -c 'import sys; sys.exit(sys.version_info >= (3, 8))'; \
	then script=examples/tf1_digits.py; else script=examples/tf2_digits.py; fi; \
	echo "npurun -n $(RANKS) $$script"; $(VENV)/bin/npurun -n $(RANKS) $$script

test: environment python-test cpp-test  ## run all tests

environment:  ## make .venv with TensorFlow and npu-bridge, or bring it up to date
	@python="$$(tools/find-python $(PYTHON))" && "$$python" tools/environment.py $(VENV) \
	  --tensorflow "$(TF)" --project $(TEST_REQUIREMENTS)

python-test: environment  ## run the Python tests (PYTEST_OPTIONS="-k readme")
	$(VENV)/bin/pytest $(PYTEST_OPTIONS) tests

system-packages:
	@tools/install-system-packages

cpp-test: environment system-packages  ## build and run the C++ tests
	$(VENV)/bin/cmake -S . -B $(CPP_BUILD) $(CPP_OPTIONS) \
	  -DCMAKE_MAKE_PROGRAM="$(CURDIR)/$(VENV)/bin/ninja"
	$(VENV)/bin/cmake --build $(CPP_BUILD)
	$(VENV)/bin/ctest --test-dir $(CPP_BUILD) $(CTEST_OPTIONS)

sanitizers: $(SANITIZERS:%=sanitizer-%)  ## run the C++ tests under all sanitizers

$(SANITIZERS:%=sanitizer-%): sanitizer-%: environment system-packages
	$(VENV)/bin/cmake -S . -B $(CPP_BUILD)-$* $(CPP_OPTIONS) -DNPU_BRIDGE_SANITIZE=$(subst -,$(comma),$*) \
	  -DCMAKE_MAKE_PROGRAM="$(CURDIR)/$(VENV)/bin/ninja"
	$(VENV)/bin/cmake --build $(CPP_BUILD)-$*
	tools/run-sanitized $* $(VENV)/bin/ctest --test-dir $(CPP_BUILD)-$* $(CTEST_OPTIONS) \
	  $(SANITIZED_TESTS_$*)

lanes:  ## run the core tests with every supported TensorFlow
	@failed=; for lane in $(LANES); do \
	  echo "== lane $$lane"; $(MAKE) --no-print-directory lane-$$lane || failed="$$failed $$lane"; \
	done; \
	if [ -n "$$failed" ]; then echo "lanes that failed:$$failed" >&2; exit 1; fi

$(LANES:%=lane-%): lane-%:
	@python="$$(tools/find-python $(LANE_PYTHON_$*))" && "$$python" tools/environment.py \
	  .venv-$* --tensorflow $* --project $(TEST_REQUIREMENTS)
	.venv-$*/bin/pytest $(PYTEST_OPTIONS) -m core tests

lint-environment:
	@python="$$(tools/find-python $(LINT_PYTHON))" && "$$python" tools/environment.py $(LINT_VENV) \
	  --tensorflow none --requirements tools/requirements/lint.txt

lint: environment lint-environment  ## check format and code: clang-format, clang-tidy, ruff, mypy
	$(LINT_VENV)/bin/python tools/lint.py --tools $(LINT_VENV)/bin --python $(VENV)/bin/python $(LINT_OPTIONS)

format: lint-environment  ## write the format that `make lint` wants
	$(LINT_VENV)/bin/python tools/lint.py --tools $(LINT_VENV)/bin --fix

wheel: environment  ## write a wheel for this Python and TensorFlow into dist/
	$(VENV)/bin/python -m pip wheel --no-deps --no-build-isolation --wheel-dir dist .

clean:  ## remove environments and builds
	rm -rf .venv .venv-* build dist *.egg-info .pytest_cache .hypothesis .mypy_cache .ruff_cache
	rm -f npu_device/_core/*.so npu_device/_core/build_information.py
