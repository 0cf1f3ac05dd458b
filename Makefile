# make run    compile and run examples/gemm/example_gemm.py
# make test   the test suite (SLOW=1: the slow tests too)
# make fuzz   12 000 random kernels, 5 000 random programs and 6 000 of both kinds of core against the reference (SEEDS="first last": others of the kernels)
# make lint   ruff (rules and lay-out), clang-format over src, mypy over what a user touches: some seconds
# make bench  compile time, import time, time to simulate, simulated time of kernels
# make clean  remove everything the other targets made
#
# Needs Python >= 3.10, a C++17 compiler and make. Everything else goes into .venv.

PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
JOBS   ?= 2

# PyPI's torch for Linux brings gigabytes of CUDA libraries along. Where pip is not configured, its builds for CPUs may be taken.
CPU_TORCH = $(shell [ "$$(uname)" = Linux ] && [ -z "$$($(PY) -m pip config list)" ] && echo --extra-index-url https://download.pytorch.org/whl/cpu)

NATIVE := CMakeLists.txt $(wildcard cmake/*) $(wildcard src/*.h src/*.cc src/*/*.h src/*/*.cc) $(wildcard tilelang_ascend/isa/*.py)
INSTALLED := build/.installed-$(shell find tilelang_ascend -name __init__.py | LC_ALL=C sort | cksum | cut -d' ' -f1)

.PHONY: run build test fuzz lint bench clean
.DEFAULT_GOAL := run

run: build
	$(PY) examples/gemm/example_gemm.py

build: build/.native

# One process more than cores: a tenth of the tests' time is waiting for servers, signals and what must not happen.
test: build
	$(PY) -m pytest -n $(shell expr $(JOBS) + 1) --dist worksteal $(if $(SLOW),,-m "not slow")

fuzz: build
	$(PY) -m testing.fuzz $(or $(SEEDS),0 12000) --jobs $(JOBS) --keep-going$(if $(SEEDS),,; status=$$?; \
	$(PY) -m testing.fuzz 100000 105000 --jobs $(JOBS) --keep-going || status=1; \
	for kind in attention mixed_loops tiles_in_turn; do $(PY) -m testing.fuzz.$$kind 0 2000 || status=1; done; exit $$status)

lint: $(INSTALLED)
	$(PY) -m testing.lint

bench: build
	$(PY) benchmark/import_time.py
	$(PY) benchmark/compile_time.py
	$(PY) benchmark/gemm_sim.py
	$(PY) benchmark/vector_sim.py
	$(PY) benchmark/attention.py
	$(PY) benchmark/catalogue.py --quick
	$(PY) benchmark/calibration.py --quick

# Build requirements. Later no build isolation, so that CMake's cache in build/, which names tools of .venv, stays valid.
$(VENV)/.requirements: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or newer is needed: make PYTHON=python3.x")'
	$(PY) -m pip --version >/dev/null 2>&1 || { rm -rf build && $(PYTHON) -m venv --clear $(VENV); }
	$(PY) -m pip install -q --disable-pip-version-check "scikit-build-core>=0.10" "cmake>=3.20" ninja "apache-tvm-ffi==0.1.14.post1"
	touch $@

# The project itself, editable, and its dependencies. Configures build/ and builds the native part in it. An editable installation
# remembers which names are modules and which are packages: it is made again when the list of packages changes.
$(INSTALLED): $(VENV)/.requirements
	$(PY) -m pip install -q --disable-pip-version-check --no-build-isolation $(CPU_TORCH) -e ".[test]"
	rm -f build/.installed-*
	touch $@

# A changed Python file needs nothing; a changed native file what depends on it. A checkout loads the library from build/.
build/.native: $(INSTALLED) $(NATIVE)
	$(VENV)/bin/cmake --build build
	touch $@

clean:
	rm -rf $(VENV) build out
