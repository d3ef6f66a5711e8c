# unitward: build, test and install. `make test` needs Go and make; as root on
# Debian it installs whatever else the tests want.

GO       ?= go
PREFIX   ?= /usr/local
DESTDIR  ?=
GOLANGCI ?= github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

export CGO_ENABLED = 0

.PHONY: build test test-unit test-rig test-vm cover lint bench package install clean ci

build:
	$(GO) build -trimpath -ldflags '-s -w' -o build/unitward ./cmd/unitward

# Everything that can run on this machine; at the end it names what could not.
test:
	$(GO) run ./tests/rig all

test-unit:
	$(GO) test ./...

# Real systemd 247, 252, 257 and 262, each as PID 1 of its own namespaces.
test-rig:
	$(GO) run ./tests/rig test

# Emulated machines: every controller, each suite's kernel.
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
	$(GO) run ./tests/rig bench

# The packages are not there yet.
package:
	@echo 'make package: cannot build packages: they are not written yet; make install works' >&2
	@exit 1

install: build
	install -D -m 0755 build/unitward $(DESTDIR)$(PREFIX)/bin/unitward
	install -D -m 0644 packaging/unitward.slice $(DESTDIR)$(PREFIX)/lib/systemd/system/unitward.slice
	install -D -m 0644 packaging/app-unitward.slice $(DESTDIR)$(PREFIX)/lib/systemd/user/app-unitward.slice

clean:
	rm -rf build

ci: export UNITWARD_REQUIRE = rig,vm
ci: lint test
