# The commands of development; `make run` and `make test` are all that a fresh clone needs. Another interpreter:
# make PYTHON=/path/to/python3.12 run (or test). Each interpreter named this way has a virtual environment of its own.

PYTHON ?= python3
VENV := .venv$(if $(filter-out python3,$(PYTHON)),$(subst /,-,$(PYTHON)))

PIP_INSTALL := $(VENV)/bin/pip install --quiet --disable-pip-version-check --constraint .ci/constraints.txt
PYTEST := $(VENV)/bin/python -m pytest

# The tests start hundreds of processes, each of which would compile the package again.
unexport PYTHONDONTWRITEBYTECODE

# The native engine, of which there is one for all interpreters.
LIBRARY := nbstream/engine/libnbstream_native.so
LIBRARY_SOURCES := $(wildcard native/src/*.rs native/src/*/*.rs) native/Cargo.toml native/Cargo.lock nbstream/engine/interface.h nbstream/tokens/__init__.py nbstream/__init__.py

# Each of these is empty if this machine lacks what it needs.
python_found = $(shell $(PYTHON) -c 'import sys; print("yes" if sys.version_info >= (3, 11) else "")' 2>/dev/null)
venv_found = $(shell $(PYTHON) -c 'import ensurepip, venv; print("yes")' 2>/dev/null)
redis_found = $(shell command -v redis-server || command -v valkey-server)
wheel_found = $(shell $(PYTHON) -c 'import platform as p, sys; \
	print("yes" if (p.machine(), sys.platform, p.python_implementation()) == ("x86_64", "linux", "CPython") \
	and (3, 11) <= sys.version_info < (3, 13) else "")' 2>/dev/null)

.PHONY: run demo test lint suite test-interpreter soak native-check fuzz bench accuracy screenshots reference docs dist release deb container format clean python redis corpora

run: python redis $(VENV)/run.stamp $(LIBRARY)
	@exec $(VENV)/bin/nbstream serve --hints

# The same with made-up mail, in a temporary folder, until Ctrl-C.
demo: python redis $(VENV)/run.stamp $(LIBRARY)
	@exec $(VENV)/bin/nbstream demo

# All checks: what reads the code, beside what runs it.
test: $(VENV)/test.stamp $(LIBRARY)
	@$(MAKE) --no-print-directory --jobs=2 lint suite

lint:
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy

# The whole suite on the native engine, where it was built; the tests of the pure layers compare it with the Python one
# by themselves, and a message and a lesson go through a daemon on the latter. Half of the time a test waits, for
# processes and for deadlines: so there are twice as many tests at a time as cores, and the tests of a module mostly
# stay together, with what they share.
suite:
	$(PYTEST) -n 4 --dist worksteal -r s -m "not soak"
	NBSTREAM_ENGINE=python $(PYTEST) -r s tests/integration/test_explain.py tests/integration/test_http.py

# The part of the tests that another interpreter may change: what reads characters and does arithmetic, whose tokens,
# keys and counts are stored, on both engines, and the daemon from end to end.
test-interpreter: $(VENV)/test.stamp $(LIBRARY)
	$(PYTEST) -n 4 --dist worksteal -r s -m "not soak" tests/engine tests/mail tests/tokens tests/bayes \
		tests/store/model/test_model.py tests/integration/test_life.py

# Long runs: broken and mutated mail. One process, so that a test that hangs is really hanging.
soak: $(VENV)/test.stamp $(LIBRARY)
	$(PYTEST) -r s -m soak

# The native engine with checks of overflow: its own tests, then these again and mutated mail under valgrind, then a
# comparison with Python on mutated mail: make native-check MESSAGES=100000
MESSAGES ?= 20000
CARGO ?= cargo
CARGO_TEST = $(CARGO) test --quiet --offline --locked --profile checked --lib --manifest-path native/Cargo.toml
CHECKED := native/target/checked/libnbstream_native.so
native-check: $(VENV)/test.stamp
	$(CARGO_TEST)
	CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER='valgrind --quiet --error-exitcode=1' $(CARGO_TEST)
	$(CARGO) build --quiet --offline --locked --profile checked --lib --manifest-path native/Cargo.toml
	$(VENV)/bin/python -m tests.engine.valgrind $(CHECKED)
	$(VENV)/bin/python -m tests.engine.identity --library $(CHECKED) --messages $(MESSAGES) --processes 2

# Coverage-guided fuzzing of everything that reads bytes from outside, with atheris: make fuzz SECONDS=600
# Some targets alone: make fuzz SECONDS=60 ONLY='url mime'. The names: .venv/bin/python -m tests.fuzz --list
SECONDS ?= 60
fuzz: $(VENV)/fuzz.stamp $(LIBRARY)
	$(VENV)/bin/python -m tests.fuzz --seconds $(SECONDS) $(ONLY)

# The folder of the archives of real mail, for the three that follow.
CORPORA ?= $(NBSTREAM_CORPORA)

# The speed, beside the peers that .ci/bench-packages.txt names, into tests/benchmarks/SPEED.md and SPEED.json:
# make bench CORPORA=DIR. Some parts alone, printed: make bench CORPORA=DIR ONLY='stages listeners'
bench: corpora $(VENV)/test.stamp $(LIBRARY)
	$(VENV)/bin/python -m tests.benchmarks.speed '$(CORPORA)' $(ONLY)

# The accuracy on real mail, into tests/benchmarks/ACCURACY.md: make accuracy CORPORA=DIR
# Some sections or streams alone, printed: make accuracy CORPORA=DIR ONLY='inbox trec07p-b'
accuracy: corpora $(VENV)/test.stamp
	$(VENV)/bin/python -m tests.benchmarks.accuracy '$(CORPORA)' $(ONLY)

# The pictures of the page in the handbook, of made-up mail, into docs/page/. It needs Debian's package chromium.
screenshots: $(VENV)/test.stamp $(LIBRARY)
	$(VENV)/bin/python -m tests.browser.screenshots

# What is made from the code and committed: the reference pages of the handbook (docs/reference/), the manual pages
# (share/man/), the example of the configuration and the schemas of the HTTP API. A test compares them.
reference: $(VENV)/test.stamp
	$(VENV)/bin/python -m tools.reference

# The handbook as web pages, into site/; strict: a dead link or anchor fails, and a page that mkdocs.yml does not list.
docs: $(VENV)/test.stamp
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build

# The source archive, and two wheels that are built from it: one for all platforms, and where cargo is found one for
# this platform, with the native library. They are made by what is installed already: no network is needed.
DIST ?= dist
dist: $(VENV)/test.stamp
	rm -f $(DIST)/nbstream-*.tar.gz $(DIST)/nbstream-*.whl
	NBSTREAM_BUILD_ENGINE=python $(VENV)/bin/python -m build --no-isolation --outdir $(DIST)
	$(VENV)/bin/pip wheel --quiet --disable-pip-version-check --no-index --no-deps --no-build-isolation \
		--wheel-dir $(DIST) $(DIST)/nbstream-*.tar.gz
	@ls -l $(DIST)

# What a release is made of, see RELEASING.md: built from a clone in which everything is committed, installed and run,
# listed in SHA256SUMS, and signed where git has a key.
release: $(VENV)/test.stamp
	$(VENV)/bin/python -m tools.release check
	$(MAKE) dist
	$(PYTEST) -r s -m soak tests/deploy/test_dist.py
	$(VENV)/bin/python -m tools.release sign $(DIST)

# The Debian package, for the release that this runs on: make deb. It needs cargo, and fetches what nbstream depends on.
deb: $(VENV)/test.stamp
	rm -f $(DIST)/nbstream_*.deb $(DIST)/nbstream-*-manylinux*.whl
	@echo "Building the wheel and its environment, then compressing: some minutes ..."
	NBSTREAM_BUILD_ENGINE=native $(VENV)/bin/pip wheel --quiet --disable-pip-version-check --no-deps \
		--no-build-isolation --wheel-dir $(DIST) .
	$(VENV)/bin/python -m tools.debian_package $(DIST)/nbstream-*-manylinux*.whl $(DIST)

# The container image, with what this machine has: podman, docker or buildah. BUILD_OPTIONS are further words for it.
CONTAINER_TOOL ?= $(shell command -v podman || command -v docker || command -v buildah)
container:
	$(if $(CONTAINER_TOOL),,$(error this needs podman, docker or buildah))
	$(CONTAINER_TOOL) build $(if $(findstring docker,$(notdir $(CONTAINER_TOOL))),,--format docker) $(BUILD_OPTIONS) \
		--file deploy/container/Containerfile --tag nbstream:$(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' nbstream/__init__.py) .

format: $(VENV)/test.stamp
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

clean:
	rm -rf .venv* .mypy_cache .ruff_cache .hypothesis .fuzz dist site native/target $(LIBRARY)
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

python:
	@$(if $(python_found),,$(error nbstream needs Python 3.11 or newer as "$(PYTHON)": install one, or name it as in `make PYTHON=/usr/bin/python3.12`))
	@$(if $(venv_found),,$(error nbstream needs the venv module of "$(PYTHON)": `apt install python3-venv`))

redis:
	@$(if $(redis_found)$(wheel_found),,$(error nbstream needs a Redis: `apt install redis-server` (or valkey-server), or a CPython 3.11 or 3.12 on x86_64 as in `make PYTHON=/usr/bin/python3.12`))

corpora:
	@$(if $(CORPORA),,$(error this needs real mail: name the folder of its archives, as in `make accuracy CORPORA=/path/to/archives`, or set NBSTREAM_CORPORA))

# Built again when its sources have changed, in seconds, and said in a line. Without cargo, or where the build fails,
# the Python engine runs; NBSTREAM_BUILD_ENGINE=native makes that an error.
$(LIBRARY): $(LIBRARY_SOURCES) | python
	@$(PYTHON) -m tools.build_native

# Installed again only when a dependency has changed. The package itself is installed editable.
$(VENV)/run.stamp: pyproject.toml .ci/constraints.txt | python
	@echo "Installing into $(VENV), this once: some minutes ..."
	@$(PYTHON) -m venv $(VENV)
	@NBSTREAM_BUILD_ENGINE=python $(PIP_INSTALL) --editable '.[embedded]'
	@touch $@

$(VENV)/test.stamp: pyproject.toml .ci/constraints.txt | python
	@echo "Installing into $(VENV), this once: some minutes ..."
	@$(PYTHON) -m venv $(VENV)
	@NBSTREAM_BUILD_ENGINE=python $(PIP_INSTALL) --editable '.[dev,embedded]'
	@touch $(VENV)/run.stamp $@

$(VENV)/fuzz.stamp: $(VENV)/test.stamp
	@NBSTREAM_BUILD_ENGINE=python $(PIP_INSTALL) --editable '.[dev,embedded,fuzz]'
	@touch $@
