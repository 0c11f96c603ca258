# TERAIO: a new user needs only `make demo` and `make test`. Both install what is missing, and say so
# first: Debian packages, and virtual environments in this folder.
#
# PYTHON=...             the interpreter of the environments (default: a suitable one)
# FULL=1                 run the demo with more and larger steps, as in docs/results.md
# FUZZ_SECONDS=60        how long `make fuzz` runs
# SEEDS=10000            how many trainings on faulty drives `make campaign` runs, from seed FIRST=0
# PROGRAMS=1000          how many random programs it runs, from seed FIRST
# STEPS=100000           how many steps `make soak` takes
# JOBS=...               how many C++ test programs run at a time (default: one more than cores)
# TEST_WORKERS=...       how many Python tests run at a time (default: one more than cores, at most 5)
# TERAIO_SKIP_NEWEST=1   test against the pinned PyTorch only

BUILD := build
FUZZ_SECONDS ?= 60
FIRST ?= 0
SEEDS ?= 10000
PROGRAMS ?= 1000
STEPS ?= 100000
# Tests also wait for drives and processes, so that one per core leaves cores idle.
cores := $(shell nproc)
JOBS ?= $(shell echo $$(($(cores) + 1)))
TEST_WORKERS ?= $(shell echo $$(($(cores) < 4 ? $(cores) + 1 : 5)))
VENV := .venv
VENV_NEWEST := .venv-newest
VENV_PEERS := .venv-peers
VENV_DOCS := .venv-docs
DEEPSPEED := deepspeed==0.19.8
python := $(CURDIR)/$(VENV)/bin/python
python_newest := $(CURDIR)/$(VENV_NEWEST)/bin/python

.PHONY: help
help:  ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 22

.PHONY: demo
demo: corpus extension  ## train a Llama in a third of the memory that it needs, three ways (longer: FULL=1)
	@$(python) examples/demo.py $(if $(filter 1,$(FULL)),--full)

.PHONY: test
test:  ## test in minutes: every C++ test, and the Python tests of the fast level
	@tools/run_tests.sh build test-cpp test-python

# A test that this machine cannot run (without root, for example) fails instead of being skipped.
.PHONY: test-all
test-all: export TERAIO_REQUIRE_ALL := 1
test-all: shells  ## test more: also the full level, the newest PyTorch, the address sanitizer; needs root
	@tools/run_tests.sh build test-cpp test-python test-python-full test-newest sanitize-address \
	  sanitize-extension-address

.PHONY: build
build: packages $(BUILD)/.whole  ## build into build/: the command is build/bin/teraio
	@cmake --build $(BUILD)

.PHONY: sanitize
sanitize:  ## run the tests of raw memory and of threads under sanitizers
	@tools/run_tests.sh sanitize-address sanitize-thread sanitize-extension-address \
	  sanitize-extension-thread

.PHONY: bench
bench: build corpus  ## run every benchmark; leaves build/bench/*.json
	@mkdir -p $(BUILD)/bench
	@failed=0; for each in benchmarks/*.py; do echo "== $$each"; $(python) $$each || failed=1; done; exit $$failed

.PHONY: bench-peers
bench-peers: build corpus $(VENV_PEERS)/.ready  ## compare with DeepSpeed under memory limits (needs root; hours)
	@$(python) benchmarks/peers/compare.py --peers-python $(CURDIR)/$(VENV_PEERS)/bin/python

.PHONY: paper
paper: build corpus  ## predict the paper's evaluation: writes docs/evaluation.md and its figures
	@PYTHONPATH=. $(python) -m evaluation

.PHONY: what-to-buy
what-to-buy: build corpus  ## predict fine-tuning on machines that one can buy: writes docs/what_to_buy.md
	@PYTHONPATH=. $(python) -m evaluation.what_to_buy

# NAMES="top report" draws these two.
.PHONY: pictures
pictures: build  ## draw the pictures of docs/images from runs on this machine
	@PYTHONPATH=tests/python/programs $(python) tools/pictures/draw.py $(NAMES)

# gpu-check uses $(PYTHON), or python3, with its PyTorch. All else comes from gpu-carry/, or from the
# system when there is no such folder. gpu-carry builds for GPU_PYTHON, or for python3.12. FLAGS are options of tools/gpu_check/gpu_check.py
# and of pytest.
OUT ?= gpu-check
.PHONY: gpu-check
gpu-check:  ## on a machine with an NVIDIA GPU: test, measure, report to OUT=DIR
	@$(or $(PYTHON),python3) tools/gpu_check/gpu_check.py --out $(OUT) $(FLAGS)

.PHONY: gpu-carry
gpu-carry: setup corpus  ## collect and build in gpu-carry/ what gpu-check needs and a bare machine lacks
	@$(python) tools/gpu_check/carry.py gpu-carry $(if $(GPU_PYTHON),--python $(GPU_PYTHON))

.PHONY: fuzz
fuzz:  ## give the file readers broken files for $FUZZ_SECONDS, starting from the corpus
	@tools/setup/install_packages.sh clang
	@cmake -S . -B $(BUILD)-fuzz -G Ninja -DCMAKE_CXX_COMPILER=clang++ -DTERAIO_BUILD_FUZZERS=ON \
	  -DTERAIO_BUILD_TESTS=OFF -DTERAIO_BUILD_TOOLS=OFF \
	  -DTERAIO_BUILD_PYTORCH=OFF
	@cmake --build $(BUILD)-fuzz
	@mkdir -p $(BUILD)-fuzz/corpus
	@$(BUILD)-fuzz/bin/readers_fuzzer -max_total_time=$(FUZZ_SECONDS) -max_len=4096 \
	  -artifact_prefix=$(BUILD)-fuzz/ $(BUILD)-fuzz/corpus $(wildcard tests/data/corpus/*)

.PHONY: soak
soak: build  ## train for STEPS tiny steps: memory, mappings, descriptors and files stay flat
	@TERAIO_SOAK_STEPS=$(STEPS) $(python) -m pytest -s tests/python/training/test_soak.py

# tests/README.md says what each part tries. A night on two cores; SEEDS=200 PROGRAMS=100 STEPS=2000
# for half an hour.
.PHONY: campaign
campaign:  ## try everything that could give a wrong byte, for a night: SEEDS, PROGRAMS, STEPS; needs root
	@tools/run_tests.sh build faulty-drives kernel-faults random-programs ends soak fuzz sanitize-thread \
	  sanitize-extension-thread

.PHONY: faulty-drives
faulty-drives: build  ## train on drives that fail and lie: SEEDS trainings from seed FIRST on
	@PYTHONPATH=tests/python/programs $(python) -m faulty_trainings $(FIRST) $$(($(FIRST) + $(SEEDS))) --jobs $(cores)

.PHONY: kernel-faults random-programs ends
kernel-faults: build
	@$(python) -m pytest tests/python/faults/test_kernel_faults.py tests/python/faults/test_failing_block_devices.py

random-programs: build
	@PYTHONPATH=tests/python/programs $(python) -m random_programs --seed $(FIRST) --count $(PROGRAMS)

ends: export TERAIO_TEST_DAY := all
ends: build
	@$(python) -m pytest tests/python/faults/test_ends.py

# PYTHONS="python3.11 /opt/3.13/bin/python" (default: all that are found) and VERSIONS="2.15.0" (of PyTorch)
# build for some only.
.PHONY: release
release: packages  ## build dist/: the sdist and a wheel for each Python 3.10 to 3.13 (some: PYTHONS), and try each
	@tools/setup/install_packages.sh mmdebstrap
	@VERSIONS="$(VERSIONS)" tools/wheels/build.sh $(CURDIR)/build-wheels $(PYTHONS)
	@$(MAKE) --no-print-directory test-wheels

.PHONY: test-wheels
test-wheels:  ## try each wheel in dist/ in a fresh environment for each PyTorch (downloads 3 GB each)
	@for each in build-wheels/python3.*/bin/python; do \
	  $$each tools/wheels/try_wheel.py $(CURDIR)/build-wheels $(VERSIONS) || exit 1; done

.PHONY: test-wheels-baseline
test-wheels-baseline:  ## the same on Debian 11, the oldest system that the wheel is for (Python 3.11; needs root)
	@tools/setup/install_packages.sh mmdebstrap
	@tools/wheels/try_on_baseline.sh $(CURDIR)/build-wheels $(VERSIONS)

.PHONY: docs
docs: build $(VENV_DOCS)/.ready  ## build the documentation as a site into build/docs
	@NO_MKDOCS_2_WARNING=1 $(VENV_DOCS)/bin/mkdocs build --strict
	@echo "The site is $(BUILD)/docs/index.html. Its search needs a server: python3 -m http.server -d $(BUILD)/docs"

.PHONY: format
format: setup  ## format C++ and Python files
	@git ls-files -z '*.cpp' '*.h' | xargs -0 clang-format-14 -i
	@$(VENV)/bin/ruff format --quiet .

.PHONY: lint
lint: setup  ## check layers, file sizes, links and format without building
	@$(python) -m pytest --quiet tests/tidy
	@$(VENV)/bin/ruff check .

.PHONY: clean
clean:  ## remove what was built, but not the environments
	rm -rf $(BUILD) $(BUILD)-newest $(BUILD)-gpu $(BUILD)-carry-* $(BUILD)-address $(BUILD)-thread $(BUILD)-fuzz gpu-carry \
	  build-wheels

# Targets that the ones above use.

.PHONY: test-cpp test-python test-python-full test-newest
# Python tests share the cores, so threads that wait must not spin.
pytest := -m pytest -n $(TEST_WORKERS) --dist worksteal
test-python test-python-full test-yard test-newest: export OMP_WAIT_POLICY := passive
test-full-%: export OMP_WAIT_POLICY := passive

test-cpp: build
	@ctest --test-dir $(BUILD) --output-on-failure -j $(JOBS)

# Tests of scripts that developers run.
yard := tests/python/yard

# The two levels of tests: `make test` runs the first, `make test-all` runs both.
test-python: build browser
	@$(python) $(pytest) -m "not full" --ignore=$(yard)

.PHONY: test-yard
test-yard: build browser  ## test the examples, benchmarks and tools, on both levels
	@$(python) $(pytest) $(yard)

# Optimizers and quantized bases of other packages have a folder and a run of their own: see
# requirements/optimizers.txt.
optimizers := $(BUILD)/optimizers
with_optimizers := tests/python/front_ends/test_optimizers.py tests/python/front_ends/test_quantized.py
full_level = $(python) $(pytest) -m full --durations=20 tests/python $(with_optimizers:%=--ignore=%) --ignore=$(yard)
# The half of the day, and what the day draws (tests/python/programs/drawn.py).
test-python-full: build browser shells $(optimizers)/.ready
	@$(full_level) --slice day/2
	@PYTHONPATH=$(CURDIR)/$(optimizers) $(python) $(pytest) -m full $(with_optimizers)
	@PYTHONPATH=$(CURDIR)/$(optimizers) $(python) $(pytest) -k bitsandbytes tests/python/escapes/test_address_users.py
	@PYTHONPATH=$(CURDIR)/$(optimizers) $(python) $(pytest) -m full -k "mambapy or monai or geometric" \
	  tests/python/dry_run/test_trainers.py

# A half of the full level: test-full-1 and test-full-2.
test-full-%: build browser
	@$(full_level) --slice $*/2

# What reaches into PyTorch: the newest one runs these, except for the matrix in further budgets.
newest := $(addprefix tests/python/,hooks escapes session commands/test_launcher.py dry_run/test_dry_run.py \
  $(patsubst %,training/test_%.py,collectives matrix programs recompute))
newest_full := $(addprefix tests/python/,hooks/test_compiled.py hooks/test_higher_order.py dry_run/test_dry_run.py \
  session/test_session.py $(patsubst %,training/test_%.py,collectives matrix programs))
# It has a TorchTitan of its own: see requirements/titan_newest.txt.
titan_newest := $(BUILD)-newest/titan
# ccache finds what $(BUILD) compiled under the same name of the compiler only; Python has another name.
test-newest: export CXX := c++
test-newest: $(VENV_NEWEST)/.ready $(titan_newest)/.ready
ifeq ($(TERAIO_SKIP_NEWEST),1)
	@echo "TERAIO_SKIP_NEWEST=1: not tested against the newest PyTorch"
else
	@echo "Building for PyTorch $$($(python_newest) -c 'from torch.version import __version__; print(__version__)')"
	@$(python_newest) -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps \
	  --config-settings=build-dir=$(BUILD)-newest .
	@$(python_newest) $(pytest) -m "not full" --slice day/2 $(newest)
	@$(python_newest) $(pytest) -m full --slice day/2 -k "not test_equal_bits_within" $(newest_full)
	@PYTHONPATH=$(CURDIR)/$(titan_newest) $(python_newest) $(pytest) -m full tests/python/front_ends/test_titan_newest.py
endif

# Only the layers of raw memory and of threads are sanitized; sanitizing all layers would take
# longer than all other tests. Tests that measure the memory of the process, which is mostly that of
# the sanitizer, are left out.
sanitized_address := device io storage testing iteration engine learn runtime
sanitized_thread := io storage testing engine learn runtime
not_sanitized := SsdStoreTest.TheStoreItselfTakesLittleMemory
not_sanitized_address := $(not_sanitized)
not_sanitized_thread := $(not_sanitized):*HoldsNoMore*
# The thread sanitizer makes programs ten times slower, so it runs only tests with several threads.
only_sanitized_thread := Striped*:*Staged*:*FailingCopy*:GpuDirect*:Slow*:Faults*:HostStore*:Runtime*:Offload*:Prefetch*:Eviction*:Failed*:*RandomProgram*:PlanningThread*
empty :=
space := $(empty) $(empty)

# The programs and the extension have one build, in which they share the layers.
define configure_sanitizer
	@echo "Building $(1) for the $* sanitizer in $(BUILD)-$*"
	@mkdir -p $(BUILD)-$*
	@cmake -S . -B $(BUILD)-$* -G Ninja -DTERAIO_SANITIZE=$* -DCMAKE_BUILD_TYPE=None \
	  -DCMAKE_CXX_FLAGS="-O1 -g1" -DTERAIO_FILES_AT_ONCE=12 -DTERAIO_BUILD_PYTORCH=ON \
	  -DPython_EXECUTABLE=$(python) -DTERAIO_BUILD_TOOLS=OFF >$(BUILD)-$*/configure.log || \
	  { cat $(BUILD)-$*/configure.log; exit 1; }
endef

.PHONY: sanitize-address sanitize-thread
sanitize-address sanitize-thread: sanitize-%: setup
	$(call configure_sanitizer,tests)
	@cmake --build $(BUILD)-$* --target $(sanitized_$*:%=%_tests)
	@GTEST_FILTER='$(only_sanitized_$*)-$(not_sanitized_$*)' ctest --test-dir $(BUILD)-$* --output-on-failure -j $(JOBS) \
	  -L '^($(subst $(space),|,$(sanitized_$*)))$$'

# The extension under a sanitizer, in a Python that has the sanitizer's library preloaded. Python and
# PyTorch are not instrumented: their own accesses are not checked, and Python leaks by design. The
# sanitizers do not support children of programs with threads, such as a data loader's: their own locks
# may be held at the fork. The memory of the process is mostly that of the sanitizer, which keeps what
# was freed. What a sanitizer reports comes past pytest, which captures what Python prints and no more
# (--capture=sys); it then ends the worker, so that the test fails.
sanitizer_library = $(shell gcc -print-file-name=lib$(1).so) $(shell gcc -print-file-name=libstdc++.so.6)
sanitize-extension-address: export ASAN_OPTIONS := detect_leaks=0
sanitize-extension-thread: export TSAN_OPTIONS := ignore_noninstrumented_modules=1 report_signal_unsafe=0 die_after_fork=0 halt_on_error=1
sanitize-extension-address: preload = $(call sanitizer_library,asan)
sanitize-extension-thread: preload = $(call sanitizer_library,tsan)
sanitize-extension-address sanitize-extension-thread: selection = -k "not data_loader and not fixed_overhead"

.PHONY: sanitize-extension-address sanitize-extension-thread
sanitize-extension-address sanitize-extension-thread: sanitize-extension-%: setup
	$(call configure_sanitizer,the extension)
	@cmake --build $(BUILD)-$* --target teraio_pytorch
	@LD_PRELOAD="$(preload)" PYTHONPATH=$(CURDIR)/$(BUILD)-$*/python $(python) $(pytest) --capture=sys \
	  $(selection) tests/python/escapes/test_threads.py tests/python/session/test_session.py

# The training text: the prose sources of the Python documentation.
.PHONY: corpus
corpus:
	@tools/setup/install_packages.sh python3-doc

# The shells that complete the words of `teraio`.
.PHONY: shells
shells:
	@tools/setup/install_packages.sh zsh fish

# The browser that the page of `teraio report` is tested in. Ubuntu has no such package: there, the
# tests need the command, wherever it comes from, and are skipped without it.
.PHONY: browser
browser:
	@command -v chromium >/dev/null || ! grep -q '^ID=debian' /etc/os-release || \
	  tools/setup/install_packages.sh chromium || true

.PHONY: setup
setup: packages $(VENV)/.ready

# The demo needs the first part of the packages, of the environment and of the build; the tests need
# all of them. The second part adds to the first: nothing is installed or compiled twice.
.PHONY: demo-packages packages
demo-packages:
	@tools/setup/install_packages.sh

packages:
	@tools/setup/install_packages.sh test_packages.txt

.PHONY: extension
extension: $(BUILD)/.configured  ## build only the extension and the command
	@cmake --build $(BUILD) --target teraio teraio_pytorch

$(VENV)/.demo: requirements/demo.txt requirements/runtime.txt tools/setup/make_venv.sh | demo-packages
	@tools/setup/make_venv.sh $(VENV) $< $(CURDIR)/$(BUILD)/python
	@touch $@

whole_environment := $(addprefix requirements/,pinned.txt common.txt front_ends.txt notebooks.txt)
$(VENV)/.ready: $(whole_environment) $(VENV)/.demo | packages
	@tools/setup/make_venv.sh $(VENV) $<
	@touch $@

$(optimizers)/.ready: requirements/optimizers.txt | setup
	@$(python) -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target $(@D) -r $<
	@touch $@

ifneq ($(TERAIO_SKIP_NEWEST),1)
$(VENV_NEWEST)/.ready: requirements/newest.txt requirements/runtime.txt requirements/common.txt tools/setup/make_venv.sh | packages
	@tools/setup/make_venv.sh $(VENV_NEWEST) $<
	@touch $@

$(titan_newest)/.ready: requirements/titan_newest.txt | $(VENV_NEWEST)/.ready
	@$(python_newest) -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target $(@D) -r $<
	@touch $@
else
$(VENV_NEWEST)/.ready $(titan_newest)/.ready: ;
endif

$(VENV_PEERS)/.ready: $(whole_environment) requirements/demo.txt requirements/runtime.txt requirements/peers.txt | packages
	@tools/setup/install_packages.sh libaio-dev
	@tools/setup/make_venv.sh $(VENV_PEERS) requirements/pinned.txt
	@echo "Installing $(DEEPSPEED) into $(VENV_PEERS)"
	@$(VENV_PEERS)/bin/python -m pip install --quiet -r requirements/peers.txt
	@DS_ACCELERATOR=cpu DS_SKIP_CUDA_CHECK=1 DS_BUILD_OPS=0 \
	  $(VENV_PEERS)/bin/python -m pip install --quiet --no-build-isolation $(DEEPSPEED)
	@touch $@

$(VENV_DOCS)/.ready: requirements/docs.txt tools/setup/make_venv.sh
	@tools/setup/make_venv.sh $(VENV_DOCS) $<
	@touch $@

$(BUILD)/.configured: $(VENV)/.demo | demo-packages
	@cmake -S . -B $(BUILD) -G Ninja -DPython_EXECUTABLE=$(python) -DTERAIO_BUILD_TESTS=OFF
	@touch $@

$(BUILD)/.whole: $(BUILD)/.configured $(VENV)/.ready | packages
	@cmake -S . -B $(BUILD) -DTERAIO_BUILD_TESTS=ON
	@touch $@
