# lobes.spike: `make help` says what there is.
.DEFAULT_GOAL := help
SHELL := bash
MAKEFLAGS += --no-print-directory

# What `make test` runs, one after the other.
TESTS := check check-312 integration molecule

.PHONY: help
help: ## this list
	@echo "make TARGET:"
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):[^#]*## */  \1\t/' | expand -t 18
	@echo "Downloads are kept in ~/.cache/lobes-spike (LOBES_SPIKE_CACHE), image layers in /var/lib/lobes-spike (LOBES_SPIKE_STORE)."

## What is needed

.PHONY: setup
setup: ## the controller's environment, .venv
	@tools/setup.sh controller

.PHONY: setup-dev
setup-dev: ## .venv with what the tests and checks need as well
	@tools/setup.sh dev

.PHONY: setup-site
setup-site:
	@tools/setup.sh site

.PHONY: setup-312
setup-312: ## .venv312: the tests on Python 3.12 and the newest ansible-core
	@tools/setup.sh dev-312

.PHONY: docker
docker: ## a container engine and an image registry on this machine, started only where none answers
	@tools/engine.sh up
	@tools/registry.sh up

.PHONY: box
box: setup docker ## the simulated Thor, with an engine of its own, ready for inventories/sim
	@tests/doubles/box/box.sh up spike-thor 2222

.PHONY: engine
engine: ## the simulated engine by hand, on 127.0.0.1:8000 until Ctrl-C; ARGS="--fault stall" and the like
	@cd tests/doubles/engine && python3 -m spike_engine serve double --host 127.0.0.1 --port 8000 $(ARGS)

.PHONY: cpu-setup
cpu-setup: setup docker ## the real vLLM 0.29.0 for this machine's CPU, and a small real model
	@tools/image.sh vllm-cpu
	@tools/model.sh

.PHONY: model
model: cpu-setup

## Spikes

.PHONY: spike
spike: box ## the whole spike on the simulated Thor
	@tools/spike.sh sim thor

.PHONY: spike-cpu
spike-cpu: cpu-setup ## the whole spike on this machine, with the real vLLM and a real model
	@tools/spike.sh cpu cpu

.PHONY: down
down: ## remove our containers, stop the registry and the container engine if we started them
	@tools/down.sh

.PHONY: clean
clean: down ## the same, and remove what was built in this checkout; evidence stays
	@rm -rf build .cache .ansible .mypy_cache .ruff_cache .pytest_cache .hypothesis collections

## Documents

.PHONY: report
report: setup ## the documents again from EVIDENCE=<evidence>/<spike id>/<host>, offline
	@.venv/bin/ansible-playbook playbooks/transcript.yml -e evidence_dir=$(EVIDENCE)

.PHONY: verify
verify: setup ## whether the documents in EVIDENCE=... are what their evidence says, to the digit
	@.venv/bin/ansible localhost -m lobes.spike.transcript_info -a evidence_dir=$(EVIDENCE)

.PHONY: site
site: setup-site ## the documentation as a site, in build/site; every warning is an error
	@tools/site.sh

.PHONY: replay-seed
replay-seed: setup ## the documents of the spike of 2026-09-13, from its transcribed figures, in build/replay-seed
	@.venv/bin/ansible-playbook playbooks/transcript.yml -e evidence_dir=tests/fixtures/evidence/2026-09-13-lightning-thor \
	  -e dest=build/replay-seed

## Tests

.PHONY: check
check: setup-dev ## lint, types, documentation, sanity and unit tests: three to four minutes
	@tools/check.sh .venv

.PHONY: check-312
check-312: setup-312 ## sanity, unit tests and syntax on Python 3.12 and the newest ansible-core
	@tools/check.sh .venv312

.PHONY: units
units: setup-dev ## the unit tests alone
	@.venv/bin/python -m pytest -q -m "not slow" tests/unit

.PHONY: sanity
sanity: setup-dev ## ansible-test sanity alone
	@tools/ansible-test.sh .venv sanity --local

.PHONY: browser
browser:
	@tools/browser.sh

.PHONY: integration
integration: setup-dev docker browser ## tests against the doubles and the container engine, without Ansible's scenarios
	@tools/integration.sh
	@.venv/bin/python -m pytest -q -m "not slow" tests/faults
	@.venv/bin/python -m pytest -q -m slow tests/unit

.PHONY: faults
faults: setup-dev docker ## play every fault of the doubles and write docs/faults.md: what the product says of each
	@cd tests && ../.venv/bin/python -m faults --markdown ../docs/faults.md

.PHONY: test-faults
test-faults: setup-dev docker ## whole spikes hit by faults on the simulated Thor, and whether anything is lost; takes half an hour
	@.venv/bin/python -m pytest -q -m slow tests/faults
	@.venv/bin/python -m pytest -q tests/matrix

.PHONY: molecule
molecule: setup-dev cpu-setup ## the scenarios in extensions/molecule, the spike on the real vLLM among them
	@tests/doubles/box/box.sh images
	@tools/molecule.sh

.PHONY: real-engine
real-engine: setup-dev cpu-setup ## the whole spike on the real vLLM, and whether the document says what the engine did
	@tools/molecule.sh real_engine

.PHONY: real-interruptions
real-interruptions: setup-dev cpu-setup ## a spike on the real vLLM interrupted five times beside one left alone; takes half an hour
	@.venv/bin/python tests/real/interruptions.py build/interruptions

.PHONY: package
package: setup-dev ## the collection's tarball in build/package, installed elsewhere and checked from there
	@tools/package.sh

.PHONY: ee
ee: setup-dev ## the build context of the execution environment, in build/ee; the image itself needs an image registry
	@tools/ee.sh

.PHONY: conformance
conformance: setup-dev ## ours, and the public tools in .cache/peers, on every odd stream of tests/conformance
	@cd tests && ../.venv/bin/python -m conformance run --markdown ../docs/conformance.md --results ../.cache/conformance.json

.PHONY: bench
bench: setup-dev ## accuracy and cost of the client beside the public tools, into docs/benchmark.md; wants a quiet machine
	@cd tests && ../.venv/bin/python -m bench

.PHONY: bench-scale
bench-scale: setup-dev docker ## what 1, 10 and 100 boxes cost their controller, into docs/scale.md; takes half an hour
	@cd tests && ../.venv/bin/python -m bench.scale --markdown ../docs/scale.md

.PHONY: test
test: ## every test; about three quarters of an hour on two cores
	@tools/test.sh $(TESTS)

.PHONY: lock
lock: ## write the hashed requirements anew from requirements/*.in
	@tools/lock.sh
