# unitward: build, test and install. `make test` needs Go and make; as root on
# Debian it installs whatever else the tests want.

GO       ?= go
PREFIX   ?= /usr/local
DESTDIR  ?=
GOLANGCI ?= github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

NFPM     ?= github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2

# What is built is named by the repository, where there is one. An empty VERSION
# is the tag's, or one between the changelog's newest entry and the next.
VERSION  =
TAG      = $(shell git tag --points-at HEAD 'v*' 2>/dev/null | tail -n 1)
COMMIT   = $(shell git describe --always --abbrev=40 --exclude '*' --dirty 2>/dev/null)
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)

PACKAGES ?= build/packages
PROGRAMS ?= $(basename $(notdir $(wildcard packaging/nfpm/*.yaml)))
ARCHS    ?= amd64 arm64
KINDS    ?= deb rpm

# Not stamped by the go command: a tree without its repository gives the same.
RELEASE_FLAGS   = -trimpath -buildvcs=false $(SMALL)
# Functions of all but the runtime are not inlined, and begin at any
# address: a program of 6.3 MB, not 6.7, that takes 2 % more processor time.
SMALL           = -gcflags=all=-l -gcflags=runtime/...= -gcflags=internal/...= -gcflags=sync/...= -gcflags=syscall=
RELEASE_LDFLAGS = -s -w -funcalign=1 -X main.releaseCommit=$(COMMIT) -X main.releaseDate=$(shell date -u -d @$(SOURCE_DATE_EPOCH) +%Y-%m-%dT%H:%M:%SZ)

export CGO_ENABLED = 0

.PHONY: build test test-unit test-rig test-vm cover lint bench package docs install install-mcp release-check clean ci

build: $(PROGRAMS:%=build/%)

.PHONY: $(PROGRAMS:%=build/%)
$(PROGRAMS:%=build/%):
	$(GO) build $(RELEASE_FLAGS) -ldflags "$(RELEASE_LDFLAGS) -X main.releaseVersion=$$($(GO) run ./packaging/release version "$(TAG)" "$(COMMIT)" $(SOURCE_DATE_EPOCH))" -o $@ ./cmd/$(notdir $@)

# Everything that can run on this machine; at the end it names what could not.
test:
	$(GO) run ./tests/rig all $(SPARE)

test-unit:
	$(GO) test ./...

# Real systemd 247, 252, 257 and 262, each as PID 1 of its own namespaces.
test-rig:
	$(GO) run ./tests/rig test

# Emulated machines: every controller, each suite's kernel, and cgroup v1.
test-vm:
	$(GO) run ./tests/rig test -suites none -vm all

# What unit tests and rig cover together, in build/coverage.txt.
cover:
	$(GO) run ./tests/rig all -vm none -cover

lint:
	$(GO) vet ./...
	test -z "$$(gofmt -l .)" || { gofmt -l . ; exit 1; }
	$(GO) mod tidy -diff
	@! grep -rnE 'strings\.[A-Za-z]+\([A-Za-z0-9_.]*\.Error\(\)|\.Error\(\) [!=]=' --include='*.go' --exclude='*_test.go' . || { echo 'errors are never matched by text' >&2; exit 1; }
	GOFLAGS=-mod=readonly $(GO) run $(GOLANGCI) run ./...

bench:
	$(GO) run ./tests/rig bench $(BENCH)

# Packages of every kind for every architecture, in $(PACKAGES), with their
# SHA256SUMS and the list of modules of each program. The same commit gives the
# same bytes. Each file of packaging/nfpm is one package.
package:
	rm -rf $(PACKAGES)
	@set -eu; umask 022; \
	version=$(VERSION); \
	[ -n "$$version" ] || version=$$($(GO) run ./packaging/release version "$(TAG)" "$(COMMIT)" $(SOURCE_DATE_EPOCH)); \
	BUILD=$(PACKAGES)/build; export SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH); \
	for name in $(PROGRAMS); do \
		$(GO) run -tags docs ./cmd/$$name cmd/$$name/manual "$$BUILD/docs/$$name" $(SOURCE_DATE_EPOCH); \
		gzip -9n "$$BUILD/docs/$$name"/man/*; \
	done; \
	$(GO) run ./packaging/release changelog-rpm "$$version" $(SOURCE_DATE_EPOCH) > "$$BUILD/changelog.yaml"; \
	for name in $(PROGRAMS); do for arch in $(ARCHS); do \
		echo "building $$name $$version for $$arch"; \
		mkdir -p "$$BUILD/bin/$$arch" "$$BUILD/sbom/$$arch"; \
		GOARCH=$$arch $(GO) build $(RELEASE_FLAGS) -ldflags "$(RELEASE_LDFLAGS) -X main.releaseVersion=$$version" -o "$$BUILD/bin/$$arch/$$name" "./cmd/$$name"; \
		$(GO) run ./packaging/release sbom "$$BUILD/bin/$$arch/$$name" "$$version" $(SOURCE_DATE_EPOCH) > "$$BUILD/sbom/$$arch/$$name.cdx.json"; \
		$(GO) run ./packaging/release changelog "$$name" "$$version" $(SOURCE_DATE_EPOCH) | gzip -9n > "$$BUILD/$$name.changelog.gz"; \
		for kind in $(KINDS); do \
			$(GO) run ./packaging/release config "packaging/nfpm/$$name.yaml" $$kind $$arch "$$version" "$$BUILD" > "$$BUILD/nfpm.yaml"; \
			$(GO) run $(NFPM) package -f "$$BUILD/nfpm.yaml" -p $$kind -t $(PACKAGES); \
		done; \
		cp "$$BUILD/sbom/$$arch/$$name.cdx.json" "$(PACKAGES)/$${name}_$${version}_$$arch.cdx.json"; \
	done; done; \
	cd $(PACKAGES) && sha256sum $$(ls -p | grep -v /) > SHA256SUMS && cat SHA256SUMS

# A commit with a version's tag has an entry for it in the changelog.
release-check:
	@if [ -n "$(TAG)" ]; then $(GO) run ./packaging/release check "$(TAG)"; fi

docs:
	set -e; for name in $(PROGRAMS); do \
		$(GO) run -tags docs ./cmd/$$name cmd/$$name/manual build/docs/$$name $(SOURCE_DATE_EPOCH); \
	done

install: build/unitward docs
	install -D -m 0755 build/unitward $(DESTDIR)$(PREFIX)/bin/unitward
	ln -sfn unitward $(DESTDIR)$(PREFIX)/bin/unitward-shell
	install -D -m 0644 packaging/unitward.slice $(DESTDIR)$(PREFIX)/lib/systemd/system/unitward.slice
	install -D -m 0644 packaging/app-unitward.slice $(DESTDIR)$(PREFIX)/lib/systemd/user/app-unitward.slice
	for page in build/docs/unitward/man/*; do \
		install -D -m 0644 $$page $(DESTDIR)$(PREFIX)/share/man/man$${page##*.}/$${page##*/} || exit 1; \
	done
	install -D -m 0644 build/docs/unitward/completions/unitward $(DESTDIR)$(PREFIX)/share/bash-completion/completions/unitward
	install -D -m 0644 build/docs/unitward/completions/_unitward $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_unitward
	install -D -m 0644 build/docs/unitward/completions/unitward.fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/unitward.fish
	for example in packaging/examples/*; do \
		install -D -m 0644 $$example $(DESTDIR)$(PREFIX)/share/doc/unitward/examples/$${example##*/} || exit 1; \
	done

# The face for agents, which the packages have in one of their own.
install-mcp: build/unitward-mcp docs
	install -D -m 0755 build/unitward-mcp $(DESTDIR)$(PREFIX)/bin/unitward-mcp
	install -D -m 0644 build/docs/unitward-mcp/man/unitward-mcp.1 $(DESTDIR)$(PREFIX)/share/man/man1/unitward-mcp.1

clean:
	rm -rf build

ci: export UNITWARD_REQUIRE = rig,vm,packages,clients
# What one machine shows is not shown by another again.
ci: SPARE = -spare
ci: lint release-check test
