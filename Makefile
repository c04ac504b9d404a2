# lobes.spike: `make help` says what there is.
.DEFAULT_GOAL := help
SHELL := bash

.PHONY: help
help: ## this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):[^#]*## */\1\t/' | expand -t 16

.PHONY: setup
setup: ## the controller's environment, .venv
	@tools/setup.sh controller

.PHONY: setup-dev
setup-dev: ## .venv with what the tests and checks need as well
	@tools/setup.sh dev

.PHONY: setup-312
setup-312: ## .venv312: the tests on Python 3.12 and the newest ansible-core
	@tools/setup.sh dev-312

.PHONY: engine
engine: ## a container engine and an image registry on this machine, started only where none answers
	@tools/engine.sh up
	@tools/registry.sh up
