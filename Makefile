# Short names for what one does here; `make` alone lists them. The build itself is CMake's.
# PREFIX, DESTDIR: where `make install` puts things.
# JOBS: compilers and tests at once.  CMAKE_FLAGS: more settings, as in CMAKE_FLAGS=-DNEAP_ONEDNN=OFF.
# FUZZ_SECONDS: how long `make fuzz` looks.  MINUTES: how long `make soak` disturbs.
JOBS ?= $(shell nproc)
CMAKE_FLAGS ?=
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 60
MINUTES ?= 60

CONFIGURE = cmake -S . -G Ninja --log-level=NOTICE $(CMAKE_FLAGS)
# Two tests share the cores: a waiting thread must not spin. No summary by label: ctest's totals come last.
CTEST = OMP_WAIT_POLICY=passive ctest -j2 --output-on-failure --no-label-summary --test-dir

.DEFAULT_GOAL := help
.PHONY: help setup build install demo test test-cuda bench-cuda test-report soak promise test-sanitized fuzz conformance models bench lint format clean

help:            ## this list
	@awk -F ' *## *' '/^[a-z-]+:.*##/ {sub(":.*", "", $$1); printf "make %-16s%s\n", $$1, $$2}' Makefile

setup:           ## install the Debian packages that are missing
	@scripts/setup.sh

build: setup     ## the program, optimised: build/neap
	@$(CONFIGURE) -B build
	@ninja -C build -j$(JOBS) neap

install: setup   ## program, libraries and headers into PREFIX
	@$(CONFIGURE) -B build
	@ninja -C build -j$(JOBS) neap
	@cmake --install build --prefix $(PREFIX) | tail -n 1

demo: build      ## the same training twice, the second time in a quarter of the activation memory; a table and a report
	@scripts/demo.sh

test: setup      ## all tests
	@$(CONFIGURE) -B build
	@ninja -C build -j$(JOBS)
	@$(CTEST) build -LE cuda

test-cuda: setup  ## what needs an NVIDIA GPU: every op's kernels, the device, training
	@scripts/gpu_check.sh

bench-cuda: setup  ## step times and memory on an NVIDIA GPU, its ceilings, PyTorch beside it (bench/CUDA.md)
	@GPU_CHECK_PARTS="time peers" scripts/gpu_check.sh

test-report: build  ## the report in a real browser (headless Chromium), by keyboard and for screen readers
	@scripts/setup.sh report
	@tests/report/browser_test.py build/neap

soak: build      ## MINUTES of budget changes, disk faults, stops and kills; ends with the weights of the undisturbed run
	@bench/soak.py --minutes $(MINUTES)

promise: build   ## every built-in model at its minimum, inside of a memory cgroup where there is one
	@bench/promise.py

test-sanitized: setup  ## the tests without long training, under AddressSanitizer and UBSan
	@$(CONFIGURE) -B build-asan -DNEAP_SANITIZE=ON -DNEAP_CUDA=OFF
	@ninja -C build-asan -j$(JOBS)
	@UBSAN_OPTIONS=print_stacktrace=1 $(CTEST) build-asan -LE "long|cuda"

fuzz:            ## hostile ONNX files against the importer, for FUZZ_SECONDS
	@scripts/setup.sh fuzz
	@$(CONFIGURE) -B build-asan -DNEAP_SANITIZE=ON -DNEAP_CUDA=OFF
	@ninja -C build-asan -j$(JOBS) onnx_fuzz
	@tests/fuzz/run.sh build-asan/onnx_fuzz $(FUZZ_SECONDS)

conformance: setup  ## the ONNX project's own operator tests: passed, unsupported, failed, by op
	@$(CONFIGURE) -B build
	@ninja -C build -j$(JOBS) onnx_node_test
	@tests/conformance/run.py

models: build    ## models exported from PyTorch: import, train, export; losses compared with PyTorch's; built-in ones saved
	@tests/models/run.py
	@build/models-venv/bin/python tests/models/builtin.py

bench: build     ## compare with peers; writes bench/RESULTS.md
	@scripts/bench.sh

lint:            ## clang-format, house rules, clang-tidy on what changed
	@scripts/setup.sh lint
	@$(CONFIGURE) -B build
	@scripts/lint.sh

format:          ## let clang-format rewrite the sources
	@scripts/setup.sh lint
	@git ls-files -co --exclude-standard '*.cc' '*.h' '*.cu' '*.cuh' | xargs -r clang-format -i

clean:           ## remove what was built
	@rm -rf build build-asan
