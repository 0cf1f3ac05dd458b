# make run    compile and run examples/gemm/example_gemm.py
# make test   the test suite (SLOW=1: the slow tests too)
# make bench  compile time, import time, simulated GEMM
# make clean  remove everything the other targets made
#
# Needs Python >= 3.10, a C++17 compiler and make. Everything else goes into .venv.

PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
JOBS   ?= 2

NATIVE := CMakeLists.txt $(wildcard cmake/*) $(wildcard src/*.h src/*.cc src/*/*.h src/*/*.cc) $(wildcard tilelang_ascend/isa/*.py)

.PHONY: run build test bench clean
.DEFAULT_GOAL := run

run: build
	$(PY) examples/gemm/example_gemm.py

build: $(VENV)/.installed

test: build
	$(PY) -m pytest -n $(JOBS) $(if $(SLOW),,-m "not slow")

bench: build
	$(PY) benchmark/import_time.py
	$(PY) benchmark/compile_time.py
	$(PY) benchmark/gemm_sim.py

# Build requirements and dependencies; no build isolation later, so that CMake's cache in build/ stays valid.
$(VENV)/.requirements: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or newer is needed: make PYTHON=python3.x")'
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PY) -m pip install -q --disable-pip-version-check "scikit-build-core>=0.10" "cmake>=3.20" ninja "apache-tvm-ffi==0.1.14.post1"
	touch $@

# The project itself, editable: a changed Python file needs nothing, a changed native file a rebuild of what depends on it.
$(VENV)/.installed: $(VENV)/.requirements $(NATIVE)
	$(PY) -m pip install -q --disable-pip-version-check --no-build-isolation -e ".[test]"
	touch $@

clean:
	rm -rf $(VENV) build out
