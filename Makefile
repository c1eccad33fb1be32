# Needs make and Python 3.10 or newer; everything else, MPI included, goes into a virtual environment.
#
#   make PYTHON=python3.12      another Python, with a virtual environment of its own
#   make demo RANKS=2 ARGS="--steps 100 --json demo.json"
#   make demo ARGS="--budget 0.25", or ARGS="--recipe dgc"
#   make fuzz SECONDS=3600 SEED=7      another sequence

PYTHON ?= python3
VENV ?= .venv$(if $(filter-out python3,$(PYTHON)),-$(notdir $(PYTHON)))
RANKS ?= 4
CUDA ?= 12
SECONDS ?= 60
SEED ?= 0
ARGS ?=
TESTS ?=

BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
PEERS := $(VENV)/.peers
TORCH := $(VENV)/.torch
CUPY := $(VENV)/.cupy-$(CUDA)
MPICH := $(VENV)-mpich
INTEGRATIONS := $(VENV)-integrations
ARM64 := $(VENV)-arm64
FUZZ := $(VENV)/.fuzz
DOCS := $(VENV)/.docs
DIST := $(VENV)/.dist

# For ranks that share one machine and few cores: as root, too; shared memory only; one thread a rank; a waiting rank gives up its core.
MPI_ENV := OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
	OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,sm OMPI_MCA_mpi_yield_when_idle=1 \
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 NUMBA_NUM_THREADS=1

unexport PYTHONDONTWRITEBYTECODE  # tests and benchmarks start hundreds of processes, which import faster from bytecode

.DEFAULT_GOAL := help
.PHONY: help demo quick test test-all test-slow test-more test-sweep test-nightly test-bounds test-mpich test-integrations test-arm64 soak test-gpu bench-gpu lint vectors fuzz fuzz-decode fuzz-round_trip fuzz-patch mutants bench bench-select bench-value bench-budget bench-training bench-scale bench-model bench-cold bench-papers bench-patches bench-feed bench-against bench-collectives bench-step docs dist clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(INSTALLED)  ## train on 4 MPI ranks, dense and compressed, and compare: a table and demo.png
	@[ -t 1 ] || export TERM=dumb; \
	mpirun=$$(command -v $(BIN)/mpirun || echo mpirun); \
	$(MPI_ENV) $$mpirun -n $(RANKS) --oversubscribe --bind-to none $(BIN)/python -m benchmarks.demo $(ARGS)

# One process per core. Tests that start MPI ranks need the cores for themselves, so they run afterwards.
PARALLEL := --numprocesses auto --maxprocesses 8 --dist worksteal
# Folders and files with tests of MPI ranks: to collect all others takes as long again.
MPI_TESTS := tests/collectives tests/benchmarks/demo tests/benchmarks/step tests/gpu_hardware tests/test_mpi_launch.py

PARTS := $(SLOW:%=--part slow=%) $(SWEEP:%=--part sweep=%)

quick: $(INSTALLED)  ## style of what changed, and its tests, in about a minute; TESTS="rice sums": the tests of these modules
	@changed="$$(git diff --name-only --diff-filter=d HEAD -- '*.py') $$(git ls-files --others --exclude-standard -- '*.py')"; \
	if [ -n "$${changed% }" ]; then $(BIN)/ruff check $$changed && $(BIN)/ruff format --check $$changed && $(BIN)/mypy; fi
	$(BIN)/python -m tests.quick $(TESTS)

test: lint  ## lint, then the tests that sample everything, without the slow ones: 4 minutes on 2 cores
	$(BIN)/python -m pytest -q -m "not mpi and not slow and not sweep and not nightly and not bounds" $(PARALLEL)
	$(BIN)/python -m pytest -q -m "mpi and not slow and not sweep and not nightly" $(MPI_TESTS)

test-slow: $(INSTALLED)  ## the tests of tests/slow.tsv, which `make test` leaves out: 10 minutes on 2 cores
	$(BIN)/python -m pytest -q -m "slow and not mpi and not sweep and not nightly and not bounds" $(PARALLEL)
	$(BIN)/python -m pytest -q -m "slow and mpi and not sweep and not nightly" $(MPI_TESTS)

test-sweep: $(INSTALLED)  ## the cases that `make test` samples from, and multi-rank sweeps; PART=1/4: a quarter of them
	$(BIN)/python -m pytest -q -m "sweep and not mpi" $(PARALLEL) $(PART:%=--part %)
	$(BIN)/python -m pytest -q -m "sweep and mpi" $(MPI_TESTS) $(PART:%=--part %)

test-more: $(INSTALLED)  ## both in one run; SLOW=1/2 SWEEP=3/6: parts of them
	$(BIN)/python -m pytest -q -m "(slow or sweep) and not mpi and not nightly and not bounds" $(PARALLEL) $(PARTS)
	$(BIN)/python -m pytest -q -m "(slow or sweep) and mpi and not nightly" $(MPI_TESTS) $(PARTS)

test-nightly: $(INSTALLED)  ## sweeps that take an hour
	$(BIN)/python -m pytest -q -m nightly $(PARALLEL)

test-all: test test-slow test-sweep test-bounds  ## these four, one after another

test-arm64: $(INSTALLED) $(ARM64)/.installed  ## a wheel for ARM64, built here, under qemu-aarch64-static; needs Debian's apt
	ARM64=$(abspath $(ARM64)) $(BIN)/python -m pytest -q -m nightly tests/test_package.py -k arm64

test-mpich: $(MPICH)/.installed  ## the multi-rank tests under MPICH, which has an environment of its own
	REQUIRE_MPI=1 $(MPICH)/bin/python -m pytest tests/collectives tests/test_mpi_launch.py -k "not simulated" $(ARGS)

test-integrations: $(INTEGRATIONS)/.installed  ## adapters and trainers (Flower, NVFlare, torchft, Lightning, Accelerate, transformers, JAX) with the real packages, in an environment of their own
	REQUIRE_INTEGRATIONS=1 $(INTEGRATIONS)/bin/python -m pytest -q tests/integrations tests/test_documents.py -k "integrations or federated or hivemind or accelerate or jax" $(ARGS)

test-bounds: $(INSTALLED)  ## a corpus that reaches every kernel, with bounds checks and with guard pages; minutes
	$(BIN)/python -m pytest -q -m bounds $(PARALLEL) $(PART:%=--part %)

soak: $(INSTALLED)  ## random collectives with random faults on 4 MPI ranks; SECONDS=300, ARGS=--methods=store
	mpirun=$$(command -v $(BIN)/mpirun || echo mpirun); \
	$(MPI_ENV) $$mpirun -n 4 --oversubscribe --bind-to none $(BIN)/python -W ignore -m tests.soak --seconds $(SECONDS) --seed $(SEED) $(ARGS)

test-gpu: $(CUPY)  ## the tests that need a GPU, in an environment with CuPy (CUDA=13: for drivers of CUDA 13)
	REQUIRE_GPU=1 $(BIN)/python -m pytest -m gpu $(ARGS)

lint: $(INSTALLED)  ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

vectors: $(INSTALLED)  ## write new golden containers; ARGS=--update also changes those there are
	$(BIN)/python formats/make_vectors.py $(ARGS)

fuzz: fuzz-decode fuzz-round_trip fuzz-patch  ## break containers, and judge what decoders do: SECONDS=60 a target; finds go into fuzz-finds

fuzz-decode fuzz-round_trip fuzz-patch: fuzz-%: $(FUZZ)
	@if $(BIN)/python -c 'import atheris' 2>/dev/null; \
	then $(BIN)/python -m tests.fuzz.atheris_target $* -seed=$(SEED) -max_total_time=$(SECONDS) -max_len=69632 -print_final_stats=1 $(ARGS); \
	else $(BIN)/python -m tests.fuzz.loop $* $(SECONDS) --seed $(SEED) $(ARGS); fi

mutants: $(INSTALLED)  ## change the decoder in 200 places, and see what no vector notices; ARGS=--write for all
	@$(BIN)/python -m tests.fuzz.mutants $(or $(ARGS),--sample 200)

bench: $(PEERS)  ## size and speed of index codecs and other compressors: results/index.md, index.png; ARGS=--quick
	@[ -t 1 ] || export TERM=dumb; $(BIN)/python -m benchmarks.index $(ARGS)

bench-select: $(TORCH)  ## time of selectors and torch.topk: results/select.md, .png; minutes
	@[ -t 1 ] || export TERM=dumb; $(BIN)/python -m benchmarks.select $(ARGS)

bench-value: $(PEERS)  ## size, error and speed of value codecs: results/value.md, .png; ARGS=--quick
	@[ -t 1 ] || export TERM=dumb; $(BIN)/python -m benchmarks.value $(ARGS)

bench-patches: $(TORCH) $(PEERS)  ## size and speed of patches of weights, and other projects' formats: results/patches.md, .png; ARGS=--quick
	@[ -t 1 ] || export TERM=dumb; $(BIN)/python -m benchmarks.patches $(ARGS)

bench-against: $(PEERS)  ## times of calls here and in an earlier revision, in turns on one core: REV=27319317; 15 minutes
	@[ -t 1 ] || export TERM=dumb; $(BIN)/python -m benchmarks.against $(REV) $(ARGS)

bench-feed: $(TORCH)  ## time until servers behind slow links have a step's weights: results/feed.md, .png; root; ARGS=--quick
	@[ -t 1 ] || export TERM=dumb; $(BIN)/python -m benchmarks.feed $(ARGS)

bench-budget: $(INSTALLED)  ## error over bits of budget and all schemes, with bounds: results/budget.md, .png; ARGS=--quick
	@[ -t 1 ] || export TERM=dumb; $(BIN)/python -m benchmarks.budget $(ARGS)

bench-model: $(INSTALLED)  ## time of models of many tensors: results/model.md, .png; ARGS=--quick
	@[ -t 1 ] || export TERM=dumb; $(BIN)/python -m benchmarks.model $(ARGS)

bench-cold: $(INSTALLED)  ## time to the first gradient of a process, cold and warm: results/cold.md; minutes
	@[ -t 1 ] || export TERM=dumb; $(BIN)/python -m benchmarks.cold $(ARGS)

bench-papers: $(TORCH)  ## measure what results/papers.md shows: its data files; 20 min, resumable; ARGS=--quick
	@[ -t 1 ] || export TERM=dumb; $(MPI_ENV) $(BIN)/python -m benchmarks.papers $(ARGS)

bench-collectives: $(INSTALLED)  ## times of collectives between hosts: results/collectives.md, .png; root; ARGS=--quick
	@[ -t 1 ] || export TERM=dumb; $(BIN)/python -m benchmarks.collectives $(ARGS)

bench-training: $(TORCH)  ## train with every system: results/training.md, .png; a night, resumable; ARGS=--quick
	@[ -t 1 ] || export TERM=dumb; $(BIN)/python -m benchmarks.training $(ARGS)

bench-scale: $(TORCH)  ## time of a step for 4 to 1,024 ranks, as a map: results/scale.md, .png; root; minutes; ARGS=--quick
	@[ -t 1 ] || export TERM=dumb; $(BIN)/python -m benchmarks.scale $(ARGS)

bench-step: $(TORCH)  ## time of whole steps of DDP with the hook, torch's hooks, a floor: results/step.md, .png; root; ARGS=--quick
	@[ -t 1 ] || export TERM=dumb; $(BIN)/python -m benchmarks.step $(ARGS)

bench-gpu: $(CUPY)  ## kernels, whole steps and training on a GPU: results/gpu.md, gpu.png, gpu_training.png; 4 minutes
	@[ -t 1 ] || export TERM=dumb; $(BIN)/python -m benchmarks.gpu $(ARGS)

docs: $(DOCS)  ## build the site into build/site: README, guides, format, results, API; a broken link fails
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --config-file docs/mkdocs.yml $(ARGS)

dist: $(DIST)  ## build the sdist and the wheels into dist/, and check them; the conformance kit into build/; kernels for PYTHON take minutes
	@rm -rf dist build
	WIRECODEC_BUILD_SECONDS=0 $(BIN)/python -m build
	WIRECODEC_BUILD_SECONDS=3600 $(BIN)/python -m build --wheel
	WIRECODEC_BUILD_SECONDS=3600 WIRECODEC_BUILD_MACHINE=aarch64 $(BIN)/python -m build --wheel
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python -m check_wheel_contents dist/*.whl
	$(BIN)/python formats/make_kit.py build

clean:  ## remove virtual environments, caches, fuzz-finds, and the output of `make demo`
	rm -rf .venv .venv-* build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis demo.png demo.json fuzz-finds
	find . -name .git -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

$(INSTALLED): EXTRAS := mpi,test,bench
$(MPICH)/.installed: EXTRAS := mpich,test
$(INTEGRATIONS)/.installed: EXTRAS := test,integrations
$(INSTALLED) $(MPICH)/.installed $(INTEGRATIONS)/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or newer is needed: make PYTHON=python3.12")'
	@echo "installing into $(@D) (once; a minute or two) ..."
	@$(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -e ".[$(EXTRAS)]"
	@touch $@

$(ARM64)/.installed: tests/arm64.sh | $(INSTALLED)
	@rm -rf $(@D)
	sh tests/arm64.sh $(@D) $(BIN)/python
	@touch $@

$(PEERS): $(INSTALLED)
	@echo "installing others' compressors, to compare with (once) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[bench,peers]"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[peers-source]" || \
		echo "no FastPFor, which is compiled from source: the benchmark goes on without it"
	@touch $@

$(FUZZ): $(INSTALLED)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[test,fuzz]" || \
		echo "no atheris, which has wheels for Linux alone: a plain loop of the same mutations goes on without it"
	@touch $@

$(DOCS): $(INSTALLED)
	@echo "installing MkDocs (once) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[docs]"
	@touch $@

$(DIST): $(INSTALLED)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dist]"
	@touch $@

$(CUPY): $(INSTALLED)
	@echo "installing CuPy for CUDA $(CUDA) (once) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[test,bench,cuda$(CUDA)]"
	@touch $@

$(TORCH): $(INSTALLED)
	@echo "installing torch (once; a smaller build for the CPU serves, too, if it is there already) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[bench,gradients]"
	@touch $@
