# `make demo` and `make test` do all the set-up; they need Python 3.10 or later, nothing else.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python3.10; do \
	$$p -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null \
	&& { echo $$p; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
DEMO := .demo

# A runtime for Spark is installed only where there is none.
JAVA := $(shell java -version 2>&1 | grep -qE 'version "(1[7-9]|[2-9][0-9])' || echo ,java)

.PHONY: help install hooks test-fast test-packages quick-tests test-connect test-foreign test-lane test-newest test-oldest demo demo-orders demo-events demo-lake ui picture reference docs check dist test test-long test-spark compatibility test-core test-wheel test-lake faults test-hosts bench clean
help: ## show this
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

# uv would keep a source, a build and a copy of PySpark for every clone: 2 GB each. It verifies the
# hashes that the constraints hold, of everything but this folder.
UV := $(BIN)/uv pip install --quiet --no-cache --compile-bytecode \
	--constraint constraints.txt --build-constraint scripts/build.txt
UV_INSTALL := VIRTUAL_ENV=$(VENV) $(UV)

# Hundreds of processes of the tests would compile our own modules, each for itself.
unexport PYTHONDONTWRITEBYTECODE

$(VENV)/.installed: pyproject.toml constraints.txt scripts/build.txt scripts/uv.txt
	@test -n "$(PYTHON)" || { echo "Python 3.10 to 3.13 is needed; set PYTHON=" >&2; exit 2; }
	@echo "Installing PySpark, Dagster and what else it needs into $(VENV): 1.5 GB, a minute or more"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes \
		--only-binary :all: -r scripts/uv.txt
	$(UV_INSTALL) --editable '.[demo,dg,postgres,mysql,kafka,avro,excel,connect$(JAVA)]'
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	@echo "Installing what the tests need into $(VENV): half a minute or more"
	$(UV_INSTALL) --group dev
	touch $@

install: $(VENV)/.installed ## make .venv with the package and what it needs

hooks: $(VENV)/.installed-dev ## run the checks of .pre-commit-config.yaml before each commit
	$(BIN)/pre-commit install

demo: $(VENV)/.installed ## run the example project on real data and print its log
	$(BIN)/python -m logdriven_dagster.examples.demo --folder $(DEMO)

demo-orders: $(VENV)/.installed ## run an order system in PostgreSQL: keys, changes, batches
	scripts/test_packages.sh postgresql libpostgresql-jdbc-java
	$(BIN)/python -m logdriven_dagster.examples.orders --folder $(DEMO)-orders

demo-events: $(VENV)/.installed ## count page views from a Kafka topic by the hour, late ones too
	scripts/test_packages.sh libxerial-sqlite-jdbc-java libxerial-sqlite-jdbc-jni
	$(BIN)/python -m logdriven_dagster.examples.events --folder $(DEMO)-events

demo-lake: $(VENV)/.installed-dev demo ## run the demo on S3, a REST catalog of Iceberg and PostgreSQL
	scripts/test_packages.sh postgresql
	$(BIN)/python -m scripts.lake.demo --folder $(DEMO)-lake --local $(DEMO)

ui: $(VENV)/.installed ## open the example project in Dagster's web interface
	test -f $(DEMO)/logdriven.yaml || $(BIN)/python -m logdriven_dagster.examples.demo --folder $(DEMO)
	env -u DAGSTER_HOME $(BIN)/logdriven ui --project $(DEMO)

SIGHTS := $(CURDIR)/.screenshots
picture: $(VENV)/.installed-dev demo ## draw the pictures of README and docs anew, by Chromium; dark ones into .screenshots
	scripts/test_packages.sh chromium
	$(BIN)/python -m tests.ui.picture
	LOGDRIVEN_SCREENSHOTS=$(SIGHTS) $(BIN)/python -m pytest -q tests/ui/test_command.py tests/ui/test_backfills.py
	cd $(SIGHTS) && cp table.png plots.png window.png failure.png backfill.png $(CURDIR)/docs/images/

reference: $(VENV)/.installed-dev ## write docs/reference.md anew, from the models of the files
	$(BIN)/python -m scripts.reference

docs: $(VENV)/.installed-dev ## build the documentation as a site, in site/; a warning is an error
	$(UV_INSTALL) --group docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir site

check: $(VENV)/.installed-dev ## lint, types, direction of imports, language of names and texts
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m pytest -q --noconftest tests/setup/test_language.py

# Hundreds of JVMs of the tests would load and link Spark's classes, each for itself.
$(VENV)/.classes: $(VENV)/.installed-dev
	@echo "Making an archive of Spark's classes for the tests: a minute"
	$(BIN)/python -m tests.classes
	touch $@

TWO := --numprocesses 2 --dist loadfile --no-loadscope-reorder
BESIDE_CHECK := --ignore=tests/setup/test_language.py  # which `check` runs
SIDE_BY_SIDE := $(MAKE) --no-print-directory --jobs 2 --output-sync
test: ## install what the tests need and run them all
	$(MAKE) --no-print-directory --jobs 2 $(VENV)/.installed-dev test-packages
	$(SIDE_BY_SIDE) check $(VENV)/.classes
	$(BIN)/python -m pytest $(TWO) $(BESIDE_CHECK) -m 'not long' --durations=25
	$(MAKE) --no-print-directory CONNECT=tests/engine/spark test-connect

test-packages:
	scripts/test_packages.sh

CONNECT ?= $(shell grep -rl --include='test_*.py' mark.connect tests)
test-connect: $(VENV)/.installed-dev ## every test of Spark Connect; `make test` runs those of tests/engine/spark
	LOGDRIVEN_TEST_SPARK=connect $(BIN)/python -m pytest $(TWO) -m 'connect and not long' $(CONNECT)

test-foreign: $(VENV)/.installed-dev ## counts on a server of Spark Connect that does not know the project
	LOGDRIVEN_TEST_SPARK=foreign $(BIN)/python -m pytest tests/engine/spark/test_counts.py

test-long: $(VENV)/.installed-dev $(VENV)/.classes ## the tests of several seconds, and the other members of families
	scripts/test_packages.sh
	$(BIN)/python -m pytest $(TWO) -m long --report .reports/long-tests.md
	$(MAKE) --no-print-directory test-foreign

# By default the tests that need no Spark, no server and no browser.
LANE ?= not spark and not database and not browser and not slow and not long
TESTS ?=
IN_LANE = -m pytest $(TWO) -m '$(LANE)' --durations=25 $(TESTS)
test-fast: $(VENV)/.installed-dev ## lint, types and the tests that need no Spark, no server and no browser
	@began=$$SECONDS; $(MAKE) --no-print-directory --jobs 2 check quick-tests; \
	echo "make test-fast took $$((SECONDS - began)) seconds"

quick-tests: $(VENV)/.installed-dev
	@$(BIN)/python $(IN_LANE) $(BESIDE_CHECK) -q --durations=10 --hypothesis-profile=quick

test-lane: $(VENV)/.installed-dev $(if $(findstring not spark,$(LANE)),,$(VENV)/.classes) ## the tests of one lane of CI: LANE='spark and not long' TESTS=tests/engine
	$(if $(findstring not database,$(LANE)),,scripts/test_packages.sh)
	$(BIN)/python $(IN_LANE)

# The constraints hold one version of each package. Users get any that the ranges allow.
test-newest: RESOLUTION := highest
test-oldest: RESOLUTION := lowest-direct
test-newest: ## a lane with the newest versions that pyproject.toml allows
test-oldest: ## a lane with the oldest versions that pyproject.toml allows
test-newest test-oldest: test-%: $(VENV)/.installed
	test -x $(VENV)-$*/bin/python || $(PYTHON) -m venv --without-pip $(VENV)-$*
	VIRTUAL_ENV=$(VENV)-$* $(BIN)/uv pip install --quiet --no-cache --compile-bytecode \
		--build-constraint scripts/build.txt --upgrade --resolution $(RESOLUTION) \
		--group dev --editable '.[demo,postgres,mysql,kafka,avro,excel,connect$(JAVA)]'
	$(VENV)-$*/bin/python $(IN_LANE)

# All but PySpark as it is pinned. The oldest patch of a line is the hardest to please.
SPARK ?= 4.0.0
OLD := .venv-spark-$(SPARK)
OF_SPARK := tests/engine tests/plugins/delta tests/quality tests/stretches tests/slices/test_files.py tests/slices/test_upstream.py \
	tests/extending tests/setup/test_private_apis.py
$(OLD)/.installed: $(VENV)/.installed-dev
	test -x $(OLD)/bin/python || $(PYTHON) -m venv --without-pip $(OLD)
	sed '/^pyspark==/,/sha256/d' constraints.txt > $(OLD)/constraints.txt
	VIRTUAL_ENV=$(OLD) $(subst int constraints,int $(OLD)/constraints,$(UV)) --group dev \
		--editable '.[demo,postgres,mysql,kafka,avro,excel,connect$(JAVA)]' 'pyspark==$(SPARK)'
	touch $@

test-spark: $(OLD)/.installed ## what Spark runs, on another version of it, classic and over Connect: SPARK=4.0.0
	scripts/test_packages.sh
	$(OLD)/bin/python -m pytest $(TWO) $(OF_SPARK)
	LOGDRIVEN_TEST_SPARK=connect $(OLD)/bin/python -m pytest $(TWO) -m connect tests/engine tests/plugins/delta tests/quality

WRITERS := $(VENV)-writers
$(WRITERS)/.installed: tests/engine/compatibility/requirements.txt $(VENV)/.installed
	test -x $(WRITERS)/bin/python || $(PYTHON) -m venv --without-pip $(WRITERS)
	VIRTUAL_ENV=$(WRITERS) $(BIN)/uv pip install --quiet --no-cache --only-binary :all: -r $<
	touch $@

# The older Spark runs although the newer one has found changes: both write their columns.
compatibility: $(VENV)/.installed-dev $(VENV)/.classes $(WRITERS)/.installed $(OLD)/.installed ## load what other programs write, on two versions of Spark; writes docs/evidence/compatibility.md
	scripts/test_packages.sh postgresql mariadb-server libpostgresql-jdbc-java libmariadb-java
	failed=; for python in $(BIN)/python $(OLD)/bin/python; do \
		LOGDRIVEN_TEST_WRITERS=$(WRITERS) $$python -m pytest tests/engine/compatibility || failed=1; \
	done; test -z "$$failed"

CORE := .core
test-core: $(VENV)/.installed-dev ## a host of logdriven_dagster-core[client], without Spark, runs windows on a server
	rm -rf $(CORE)
	$(BIN)/uv build --quiet --wheel core --out-dir $(CORE)/dist --build-constraint scripts/build.txt
	$(PYTHON) -m venv --without-pip $(CORE)/venv
	VIRTUAL_ENV=$(CORE)/venv $(UV) "$$(ls $(CORE)/dist/*.whl)[client]"
	LOGDRIVEN_TEST_CORE=$(CORE)/venv $(BIN)/python -m pytest tests/setup/test_core.py

dist: $(VENV)/.installed ## build what is published into dist/: wheels of both packages, and the source
	rm -rf dist
	$(BIN)/uv build --quiet . --out-dir dist --build-constraint scripts/build.txt
	$(BIN)/uv build --quiet --wheel core --out-dir dist --build-constraint scripts/build.txt

WHEEL := .wheel
test-wheel: $(VENV)/.installed-dev dist ## install the built wheel into a clean environment, and run a new project with it
	rm -rf $(WHEEL)
	$(PYTHON) -m venv --without-pip $(WHEEL)
	VIRTUAL_ENV=$(WHEEL) $(UV) "$$(ls dist/logdriven_dagster-[0-9]*.whl)[postgres$(JAVA)]"
	LOGDRIVEN_TEST_WHEEL=$(WHEEL) $(BIN)/python -m pytest tests/setup/test_release.py

test-lake: $(VENV)/.installed-dev ## the engine's tests on S3, and Iceberg's over REST, Glue and Hive
	scripts/test_packages.sh
	LOGDRIVEN_TEST_STORAGE=s3 $(BIN)/python -m pytest $(TWO) tests/engine tests/plugins/delta
	for catalog in rest glue hive; do \
		LOGDRIVEN_TEST_STORAGE=s3 LOGDRIVEN_TEST_CATALOG=$$catalog $(BIN)/python -m pytest $(TWO) \
			tests/engine/targets tests/scripts/test_catalogs.py -k 'iceberg or catalog' || exit; \
	done

N ?= 200
SEED ?= 1
LOG ?= sqlite
STORAGE ?= local
WINDOWS ?=
RATE ?= 0.03
faults: $(VENV)/.installed-dev ## kill and freeze runners N times, or in RATE of WINDOWS; LOG=postgresql STORAGE=s3: see docs/evidence/reliability.md
	scripts/test_packages.sh
	$(BIN)/python -m tests.faults $(if $(WINDOWS),--windows $(WINDOWS) --rate $(RATE),$(N)) --seed $(SEED) --log $(LOG) --storage $(STORAGE)

test-hosts: $(VENV)/.installed-dev ## run projects on hosts that share nothing, cut them off, kill them; as root
	scripts/test_packages.sh postgresql
	$(BIN)/python -m tests.hosts

ROUNDS ?=
ONLY ?=
SCALE ?= full
bench: $(VENV)/.installed-dev ## compare with Spark, SQLMesh, dbt; ROUNDS=3 ONLY=A,D SCALE=quick TABLES=10000
	scripts/test_packages.sh postgresql libpostgresql-jdbc-java
	$(BIN)/python -m benchmarks --scale $(SCALE) --only '$(ONLY)' $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(TABLES),--tables $(TABLES)) $(if $(HOURS),--hours $(HOURS))

clean: ## remove what make made
	rm -rf $(VENV) $(VENV)-* $(CORE) $(WHEEL) $(DEMO) $(DEMO)-orders $(DEMO)-events $(DEMO)-lake .servers .bench site dist build *.egg-info
