# Wakepoint's make targets. `make` lists them. All that is needed is Go, git, gcc (for the race detector) and make; for `make long` also Node.js 20 with npm.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules
.DELETE_ON_ERROR:

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
GOOS    ?= $(shell go env GOOS)
GOARCH  ?= $(shell go env GOARCH)

# Tests that start a real engine find it here and fail when it is missing.
export WAKEPOINT_ENGINE ?= $(CURDIR)/bin/wakepoint-engine

# Packages whose tests start no engine: quick enough to run again under the race detector.
QUICK = $(shell go list ./... | grep -v -e /tests -e /bench -e /examples)

FUZZTIME ?= 30s
BENCH    ?= .
DIST     := wakepoint_$(VERSION)_$(GOOS)_$(GOARCH)
RELEASE  := CGO_ENABLED=0 GOOS=$(GOOS) GOARCH=$(GOARCH) go build -trimpath
VERSION_WAKEPOINT := -X github.com/wakepoint/wakepoint/starter/cli.version=$(VERSION)
VERSION_ENGINE    := -X github.com/wakepoint/wakepoint/engine.Version=$(VERSION)

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

# Plain `go build`, without -trimpath and with C as the machine has it: either would give every package another entry in
# the build cache than `go test` uses, and the engine would be compiled twice. Only a release pays for that.
.PHONY: build
build: ## build both programs into bin/ (the engine takes about 10 minutes the first time)
	go build -ldflags '$(VERSION_WAKEPOINT)' -o bin/wakepoint ./cmd/wakepoint
	cd engine && go build -ldflags '$(VERSION_ENGINE)' -o ../bin/wakepoint-engine ./cmd/wakepoint-engine

.PHONY: demo
demo: build ## build both programs and run the demo on the embedded engine
	bin/wakepoint demo

.PHONY: test
test: build ## build both programs, then run the tests of both modules
	go test -timeout 20m ./...
	cd engine && go test -timeout 20m ./...

.PHONY: race
race: ## run the quick tests under the race detector
	go test -race -timeout 20m $(QUICK)

.PHONY: replay
replay: ## replay the recorded histories, every test anew
	go test -count=1 ./tests/replay/...

.PHONY: long
long: build ## run the long tests too: kills, storms, long waits, a service that misbehaves, TypeScript (about an hour; needs Node.js 20)
	go test -tags long -count=1 -timeout 120m ./tests/... ./workflows

.PHONY: fuzz
fuzz: ## run every fuzz test for FUZZTIME (30s)
	@grep -rlE --exclude-dir=engine --include='*_test.go' '^func Fuzz' . | while read -r file; do \
		for name in $$(sed -nE 's/^func (Fuzz[A-Za-z0-9_]*)\(.*/\1/p' "$$file"); do \
			go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "$$(dirname "$$file")"; \
		done; \
	done

.PHONY: bench
bench: build ## run the benchmarks whose names match BENCH (all)
	go test -run '^$$' -bench '$(BENCH)' -benchmem -timeout 60m ./bench/...

.PHONY: lint
lint: bin/golangci-lint ## run the linters over both modules
	bin/golangci-lint run ./...
	cd engine && ../bin/golangci-lint run --config ../.golangci.yml ./...

.PHONY: fmt
fmt: bin/golangci-lint ## format both modules
	bin/golangci-lint fmt ./...
	cd engine && ../bin/golangci-lint fmt --config ../.golangci.yml ./...

.PHONY: workflowcheck
workflowcheck: bin/workflowcheck ## look for what is not deterministic in the workflows (exit status 3: found some)
	bin/workflowcheck -config .workflowcheck.yml ./workflows/...

.PHONY: record-histories
record-histories: build ## record the histories of new lives in tests/replay, on the embedded engine
	go test -count=1 -run '^TestRecord' ./tests/replay/... -record

.PHONY: docs
docs: ## print the tables and charts in docs/ anew from the code
	@sed -n 's/^<!-- Printed from the code: \(go .*\) -->$$/\1/p' docs/*.md | sort -u | while read -r command; do \
		echo "$$command"; $$command; \
	done

.PHONY: release
release: ## build for GOOS and GOARCH, and pack both programs, licence and README into dist/
	rm -rf dist/$(DIST) && mkdir -p dist/$(DIST)
	$(RELEASE) -ldflags '-s -w $(VERSION_WAKEPOINT)' -o dist/$(DIST)/ ./cmd/wakepoint
	cd engine && $(RELEASE) -ldflags '-s -w $(VERSION_ENGINE)' -o ../dist/$(DIST)/ ./cmd/wakepoint-engine
	cp LICENSE README.md dist/$(DIST)/
	tar --sort=name --owner=0 --group=0 --numeric-owner --mode='a+rX,u+w,go-w' --mtime="@$$(git log -1 --format=%ct)" \
		-C dist -cf - $(DIST) | gzip -n > dist/$(DIST).tar.gz
	rm -rf dist/$(DIST)
	cd dist && sha256sum $(DIST).tar.gz > $(DIST).tar.gz.sha256

.PHONY: image
image: ## build the container image wakepoint:VERSION
	docker build --build-arg VERSION=$(VERSION) -t wakepoint:$(VERSION) .

.PHONY: tools
tools: bin/golangci-lint bin/workflowcheck ## build the developer tools into bin/

bin/golangci-lint: tools/go.mod tools/go.sum
	cd tools && go build -o ../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

bin/workflowcheck: tools/go.mod tools/go.sum
	cd tools && go build -o ../$@ go.temporal.io/sdk/contrib/tools/workflowcheck

.PHONY: version
version: ## print the version that a build gets
	@echo $(VERSION)

.PHONY: clean
clean: ## remove what was built: bin/ and dist/
	rm -rf bin dist
