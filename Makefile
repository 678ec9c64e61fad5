# `make run` serves Letterhead and `make test` tests it. Both need only Go and make.

export CGO_ENABLED ?= 0

# The release of Go that builds and tests Letterhead, where the installed one is older. Go fetches it through the module
# proxy. It is newer than the version in go.mod, which says what the code needs, because it has the fixes of the
# standard library (CONTRIBUTING.md). A GOTOOLCHAIN in the environment wins, but for "local", which machines and images
# set for all projects: name that on make's command line to use the installed Go.
GO_RELEASE := go1.27.3
ifeq ($(MAKELEVEL)$(filter-out local auto,$(GOTOOLCHAIN)),0)
GOTOOLCHAIN := $(shell installed=$$(GOTOOLCHAIN=local go env GOVERSION); \
  if [ "$$(printf '%s\n' $(GO_RELEASE) "$$installed" | sort -V | tail -n 1)" = "$$installed" ]; then echo local; \
  elif GOTOOLCHAIN=$(GO_RELEASE) go version >/dev/null 2>&1; then echo $(GO_RELEASE); \
  else echo local; echo "$(GO_RELEASE) cannot be fetched: the installed $$installed is used" >&2; fi)
endif
export GOTOOLCHAIN

# The packages of both modules: the product, and the programs that develop it (tools/go.mod). go.work joins the two.
MODULES := ./... ./tools/...

BIN     := bin/letterhead
VERSION := $(shell sed -n 's/^const version = "\(.*\)"/\1/p' cmd/letterhead/version.go)
COMMIT  ?= $(shell git describe --match '' --always --abbrev=12 --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.commit=$(COMMIT)

TEST_FLAGS ?= -timeout 10m
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
BENCH_REPLAY_EVENTS ?= 1000000

# Where accounting-tools installs what it has from PyPI.
ACCOUNTING := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/letterhead-accounting
export PATH := $(PATH):$(ACCOUNTING)/bin

.PHONY: run build test test-full test-short test-race-short test-race test-services test-cluster race verify release manual test-packages vet lint lint-openapi lint-client client lint-deploy lint-tools lint-tools-all lint-workflows vuln vulndb toolchain fuzz conformance bench bench-logos compare lab lab-cluster accuracy logo-sheet background-sheet tour pages notice starter accounting-tools clean help

help: ## Show the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

toolchain:
	@echo $(GOTOOLCHAIN)

run: build ## Build and serve on 127.0.0.1:8080 with everything in ./data
	@$(BIN) serve

# Without -trimpath, tests and linters reuse what the build compiles.
build: bin/LICENSES.txt ## Build bin/letterhead and bin/LICENSES.txt
	@if [ ! -x $(BIN) ]; then echo "building $(BIN); the first build compiles all dependencies and takes two to three minutes on 2 cores"; fi
	@mkdir -p bin
	@go build -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/letterhead

bin/LICENSES.txt: go.mod go.sum $(wildcard */LICENSE-*.txt */*/LICENSE-*.txt)
	@mkdir -p bin
	@go run ./tools/notice -texts $@

# A test that asks for a real service (internal/testservices) skips unless LETTERHEAD_TEST_POSTGRES, _KAFKA,
# _ELASTICSEARCH or _EVENTSTORE names it. The gate divides the packages: RACE holds those to run under the race
# detector, SHORT those to run with -short. With make -j2 -k two groups run side by side, and a failure in one does
# not keep the others from running.
RACE  ?=
SHORT ?=
# The race detector only slows these packages down: those below e2e drive the built binary, which has no detector
# in it, and the others draw. The tests of esdbtest kill servers, and then EventStoreDB's client library reads the
# headers of a failed call while gRPC still writes them.
NO_RACE = letterhead/tools/e2e% letterhead/internal/eventlog/esdb/esdbtest letterhead/internal/resvg letterhead/internal/monogram letterhead/readapi/logo letterhead/starter letterhead/tools/accuracy% letterhead/tools/cluster
override RACE := $(filter-out $(NO_RACE),$(RACE))
test: test-short test-race-short test-race test-full ## Run every test that needs nothing but this repository
test-full:       PACKAGES = $(filter-out $(RACE) $(SHORT),$(if $(RACE)$(SHORT),$(or $(shell go list $(MODULES)),$(error go list fails)),$(MODULES)))
test-short:      PACKAGES = $(filter-out $(RACE),$(SHORT))
test-race-short: PACKAGES = $(filter $(RACE),$(SHORT))
test-race:       PACKAGES = $(filter-out $(SHORT),$(RACE))
test-full test-short test-race-short test-race: build
	@$(if $(strip $(PACKAGES)),go test $(TEST_FLAGS) $(PACKAGES))
test-short test-race-short: private override TEST_FLAGS += -short
test-race test-race-short: private override TEST_FLAGS += $(RACE_FLAGS)
test-race test-race-short: private export CGO_ENABLED = 1
# SQLite is C translated to Go. With the detector in it, its tests take four times as long; what calls it keeps the
# detector. wazero must keep it, too, although compiling a module takes five times as long: otherwise the detector
# reports races in crypto/tls that do not exist.
RACE_FLAGS = -race -gcflags=modernc.org/sqlite/lib=-race=false -gcflags=modernc.org/libc/...=-race=false

# One test for each rule that takes several nodes to break (docs/rules.md).
CLUSTER_SMOKE = Credits_SixtyFourClients|MixedRequests|Node_KilledWhileHoldingCredits|Lookups_HundredForOneUnknownDomain|Standby_RelayKilled|Balance_ReadOnAnyNode|ReadModels_RebuiltWhileServed|Suspension_OnOneNode|RateLimit_SixtyOneRequests
test-cluster: build ## Run the tests in CLUSTER_SMOKE against the services in LETTERHEAD_TEST_*
	LETTERHEAD_BINARY="$(CURDIR)/$(BIN)" go test -tags services $(TEST_FLAGS) -run '$(CLUSTER_SMOKE)' ./tools/cluster

# The packages whose tests use real services, directly or through the packages that open databases for tests.
SERVICE_TESTS = $(sort $(dir $(shell grep -rlE --include='*_test.go' 'internal/testservices|sqlstoretest|projectionstest' cmd examples internal node projections readapi tools workers)))
test-services: build ## Run the tests against the services in LETTERHEAD_TEST_POSTGRES, _KAFKA, _ELASTICSEARCH and _EVENTSTORE
	@if [ -z "$$LETTERHEAD_TEST_POSTGRES$$LETTERHEAD_TEST_KAFKA$$LETTERHEAD_TEST_ELASTICSEARCH$$LETTERHEAD_TEST_EVENTSTORE" ]; then \
	  echo "no service is named; after \"docker compose up -d\" see docs/distributed.md for the addresses"; exit 1; fi
	LETTERHEAD_BINARY="$(CURDIR)/$(BIN)" go test -tags services -p 1 $(TEST_FLAGS) $(addprefix ./,$(SERVICE_TESTS)) $(TEST_ARGS)

race: ## Run the tests under the race detector, without those of NO_RACE (needs a C compiler)
	CGO_ENABLED=1 go test $(RACE_FLAGS) -timeout 40m $(filter-out $(NO_RACE),$(or $(shell go list $(MODULES)),$(error go list fails)))

vet: ## go vet
	go vet $(MODULES)
	go vet -tags services,lab,conformance,logobench,tour ./tools/...

lint: vet ## go vet, gofmt and staticcheck
	@out=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$out" ]; then echo "gofmt would change:"; echo "$$out"; exit 1; fi
	go run $(STATICCHECK) $(MODULES)
	go run ./tools/notice -check

# npm comes with Node.js and fetches these two from its registry.
SPECTRAL := @stoplight/spectral-cli@6.16.3
REDOCLY  := @redocly/cli@2.77.0
lint-openapi: ## Spectral and Redocly on the API description (npx and its registry)
	@if command -v npx >/dev/null; then readapi/openapi/lint.sh $(SPECTRAL) $(REDOCLY); else echo "npx is missing: the API description was not linted"; fi

# The description as a service serves it.
CLIENT_DESCRIPTION := $(CURDIR)/clients/typescript/build/openapi.json
client lint-client: build
	@mkdir -p $(dir $(CLIENT_DESCRIPTION))
	@go test ./readapi/openapi -run '^TestClient_' -count=1 -description $(CLIENT_DESCRIPTION) >/dev/null
	@clients/typescript/check.sh $(if $(filter client,$@),--renew) $(CLIENT_DESCRIPTION) $(CURDIR)/$(BIN)
client: ## Renew the types of the client for TypeScript, compile and test it (npm and its registry)
lint-client: ## Check that the types of the client for TypeScript are current, compile and test it (npm and its registry)

lint-deploy: ## Check docker-compose.yml and deploy/ with Go, and with promtool, haproxy and python3 if installed
	@deploy/lint/lint.sh

# The database of known vulnerabilities is a Go module, because its own server is not always reachable. The date of the
# database is in its version; VULNDB=golang.org/x/vulndb@latest takes the newest.
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0
VULNDB      ?= golang.org/x/vulndb@v0.0.0-20261105234957-e22db6528018
VULNDB_AT   := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/letterhead-vulndb
vuln: vulndb ## Report known vulnerabilities in code that Letterhead calls (govulncheck)
	@database=$$(cat $(VULNDB_AT)/current); \
	  echo "known vulnerabilities of $$(echo "$$database" | sed -E 's/.*-([0-9]{4})([0-9]{2})([0-9]{2})[0-9]{6}-[0-9a-f]+$$/\1-\2-\3/')"; \
	  go run $(GOVULNCHECK) -db "file://$$database" $(MODULES)
vulndb: ## Fetch the database of known vulnerabilities and write its index
	@set -e; mkdir -p $(VULNDB_AT); cd $(VULNDB_AT); \
	  module=$$(go mod download -json $(VULNDB) | sed -n 's/^\t"Dir": "\(.*\)",$$/\1/p'); version=$${module##*@}; \
	  if [ -z "$$module" ]; then echo "$(VULNDB) cannot be fetched" >&2; exit 1; fi; \
	  if [ ! -d "$$version" ]; then \
	    rm -rf new; go run golang.org/x/vulndb/cmd/indexdb@$$version -vulns "$$module/data/osv" -out new; mv new "$$version"; \
	  fi; echo "$$PWD/$$version" >current
	@go run $(GOVULNCHECK) -version >/dev/null

lint-tools: ## Fetch the tools of lint
	go run $(STATICCHECK) -version
lint-tools-all: lint-tools ## Fetch the tools of all linters
	go run $(ACTIONLINT) -version
	@if command -v npx >/dev/null; then readapi/openapi/lint.sh --fetch $(SPECTRAL) $(REDOCLY); fi
	@clients/typescript/check.sh --fetch
	@deploy/lint/lint.sh --fetch

ACTIONLINT := github.com/rhysd/actionlint/cmd/actionlint@v1.7.7
lint-workflows: ## actionlint on .github/workflows
	go run $(ACTIONLINT)

# Everything, with no test left out by -short: the linters; known vulnerabilities; all tests plainly and under the race detector, against
# real services, those of a cluster among them; the closed network; attacks and long streams as benchmarks; every
# fuzz target. PREVIOUS may name the binary of another release, which bench measures beside this one.
PREVIOUS ?=
MIXED ?= -requests 200000 -faults 40
verify: build lint lint-openapi lint-client lint-deploy lint-workflows vuln ## Run everything: every test in full, fuzzing, attacks, benchmarks (hours)
	-$(MAKE) accounting-tools
	@if [ -x $(SERVICES)/up ]; then eval "$$($(SERVICES)/up)" && export LETTERHEAD_TEST_SERVICES="$(abspath $(SERVICES))" LETTERHEAD_TEST_REQUIRE=postgres,kafka,elasticsearch; fi && \
	  $(MAKE) test TEST_FLAGS='-timeout 40m' && $(MAKE) race && \
	  if [ -n "$$LETTERHEAD_TEST_POSTGRES" ]; then $(MAKE) test-services SERVICE_TESTS=tools/cluster TEST_FLAGS='-timeout 90m' TEST_ARGS='$(MIXED)'; \
	  else echo "no service is named: the tests against real services were not run"; fi
	LETTERHEAD_VERIFY=1 go test ./workers/crawl -run TestHostileSites_ -count=1 -v
	@if [ -d $(LAB_SOURCE) ]; then $(MAKE) lab LAB_FLAGS=-v; fi
	@if [ -x $(SERVICES)/up ] && [ -d $(LAB_SOURCE) ]; then $(MAKE) lab-cluster; fi
	go test ./tools/e2e -run '^$$' -bench LookupsUnderAttack -benchtime 1x -timeout 20m
	LETTERHEAD_BENCH_EVENTS=300000 go test ./tools/e2e -run '^$$' -bench LookupsDuringMaintenance -benchtime 3x -timeout 20m
	go test ./commands -run '^$$' -bench LoadLongStream -benchtime 100x -timeout 60m
	go test ./internal/eventlog/sqlite -run 'ChangedBytes|Scan' -rapid.checks=5000 -count=1
	$(MAKE) fuzz
	$(MAKE) bench
	$(MAKE) accuracy
	@if command -v npx >/dev/null; then $(MAKE) conformance; fi
	@if command -v npm >/dev/null && [ -n "$(CHROMIUM)" ]; then $(MAKE) pages; fi
	$(MAKE) test-packages

# An archive of each platform with the binary, the documents and the licenses, packages for Linux, a bill of materials of
# each binary, and SHA-256 sums. The sums are signed if RELEASE_KEY names an SSH key. docs/releasing.md explains it.
DIST      ?= dist
RELEASED   = LICENSE NOTICE bin/LICENSES.txt README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md docs
PLATFORMS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
RELEASE_KEY ?=
# Both stay out of go.mod.
export NFPM := github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2
CYCLONEDX   := github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
release: bin/LICENSES.txt manual ## Build archives, packages, bills of materials and checksums for PLATFORMS in dist/ (needs GNU tar)
	@rm -rf $(DIST) && mkdir -p $(DIST)
	@set -e; export SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct); for platform in $(PLATFORMS); do \
	  os=$${platform%/*} arch=$${platform#*/}; name=letterhead_$(VERSION)_$${os}_$$arch; \
	  mkdir $(DIST)/$$name; cp -r $(RELEASED) $(DIST)/$$name; \
	  binary=$(DIST)/$$name/letterhead$$([ $$os != windows ] || echo .exe); \
	  echo "$$name"; CGO_ENABLED=0 GOOS=$$os GOARCH=$$arch go build -trimpath -ldflags '$(LDFLAGS)' -o $$binary ./cmd/letterhead; \
	  go run $(CYCLONEDX) bin -json -noserial -version v$(VERSION) -output $(DIST)/$$name.cdx.json $$binary; \
	  if [ $$os = linux ]; then \
	    cp $(DIST)/$$name.cdx.json bin/manual/sbom.cdx.json; deploy/package/build.sh $(VERSION) $$arch $$binary bin/manual $(DIST); fi; \
	  tar -C $(DIST) --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$$SOURCE_DATE_EPOCH" -cf $(DIST)/$$name.tar $$name; \
	  gzip -9n $(DIST)/$$name.tar; \
	  rm -r $(DIST)/$$name; \
	done
	@cd $(DIST) && sha256sum * >SHA256SUMS && cat SHA256SUMS
	@if [ -n "$(RELEASE_KEY)" ]; then ssh-keygen -q -Y sign -f "$(RELEASE_KEY)" -n letterhead $(DIST)/SHA256SUMS; \
	else echo "RELEASE_KEY is not set: the checksums were not signed"; fi

manual: ## Write man pages and completions to bin/manual, from the descriptions of the commands
	@rm -rf bin/manual && mkdir -p bin/manual
	@go test ./cmd/letterhead -run '^TestManual_' -count=1 -manual "$(CURDIR)/bin/manual" >/dev/null

# The packages of this source as a release before it, and as this release, of the same binary.
PACKAGES_AT := bin/packages
test-packages: manual bin/LICENSES.txt ## Install, upgrade and remove the packages (needs root, debootstrap and rpm)
	@rm -rf $(PACKAGES_AT) && mkdir -p $(PACKAGES_AT)/older $(PACKAGES_AT)/newer
	@go build -trimpath -ldflags '$(LDFLAGS)' -o $(PACKAGES_AT)/letterhead ./cmd/letterhead
	@go run $(CYCLONEDX) bin -json -noserial -version v$(VERSION) -output bin/manual/sbom.cdx.json $(PACKAGES_AT)/letterhead
	@deploy/package/build.sh $(VERSION)~rc1 $$(go env GOARCH) $(PACKAGES_AT)/letterhead bin/manual $(PACKAGES_AT)/older
	@deploy/package/build.sh $(VERSION) $$(go env GOARCH) $(PACKAGES_AT)/letterhead bin/manual $(PACKAGES_AT)/newer
	@deploy/package/test.sh $(PACKAGES_AT)/older $(PACKAGES_AT)/newer

FUZZ_TIME ?= 10s
fuzz: ## Run every fuzz target for FUZZ_TIME each
	@grep -rlE '^func Fuzz' --include='*_test.go' . | xargs -n1 dirname | sort -u | while read -r dir; do \
	  grep -hoE '^func Fuzz[A-Za-z0-9_]*' $$dir/*_test.go | awk '{print $$2}' | while read -r target; do \
	    echo "== $$dir $$target"; go test $$dir -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZ_TIME) || exit 1; \
	  done || exit 1; \
	done

conformance: build ## Run MCP's official scenarios and its inspector against /mcp (needs npx, which fetches them)
	@if ! command -v npx >/dev/null; then echo "npx is missing: nothing was run. It comes with Node.js."; exit 1; fi
	LETTERHEAD_BINARY="$(CURDIR)/$(BIN)" go test -tags conformance -count 1 -v -timeout 20m ./tools/conformance

BEANCOUNT := beancount==3.2.3
DUCKDB    := duckdb-cli==1.5.6
SUDO      := $(if $(filter 0,$(shell id -u)),,sudo -n)
accounting-tools: ## Install hledger (Debian), beancount and DuckDB (PyPI) for the tests of exports
	@command -v hledger >/dev/null || $(SUDO) apt-get install -y -qq hledger >/dev/null || { $(SUDO) apt-get update -qq && $(SUDO) apt-get install -y -qq hledger >/dev/null; }
	@python3 -m venv $(ACCOUNTING) && $(ACCOUNTING)/bin/pip install -q --disable-pip-version-check $(BEANCOUNT) $(DUCKDB)

notice: ## Write the list of all linked modules to NOTICE
	go run ./tools/notice

starter: ## Rebuild the starter index from the unpacked packages (see tools/starter)
	go run ./tools/starter -h

clean: ## Remove what was built; ./data stays
	rm -rf bin reports $(DIST) clients/typescript/build clients/typescript/dist

LAB_SOURCE ?= ../shared/lab
LAB_RUN ?= .
LAB_FLAGS ?=
lab: build ## Crawl a small closed network with the built binary (needs $(LAB_SOURCE) and namespaces)
	@if [ ! -d $(LAB_SOURCE) ]; then echo "$(LAB_SOURCE) is missing: nothing was run"; exit 1; fi
	@mkdir -p bin
	go build -C $(LAB_SOURCE) -o "$(CURDIR)/bin/lab" .
	go test -tags lab -c -o bin/lab.test ./tools/lab
	@LETTERHEAD_BINARY="$(CURDIR)/$(BIN)" LETTERHEAD_LAB="$(CURDIR)/bin/lab" LETTERHEAD_LABELS="$(CURDIR)/tools/accuracy/labels" \
	  LAB_SITES="$(abspath $(LAB_SOURCE)/../data):$(CURDIR)/tools/accuracy/sites:$(CURDIR)/tools/lab/testdata/sites" \
	  bin/lab run -- bin/lab.test -test.timeout 8m -test.parallel 8 -test.run '$(LAB_RUN)' $(patsubst -v,-test.v,$(LAB_FLAGS)); \
	  code=$$?; if [ $$code = 77 ]; then echo "this machine permits no namespaces: lab tests not run"; exit 0; fi; exit $$code

# The services run inside the closed network, in their own folder, and end with it.
CLUSTER_RUN ?= Crawler_KilledDuringCrawl|Lookup_UnknownDomain_PassesThroughEveryPart
CLUSTER_FLAGS ?=
SERVICES ?= ../shared/services
lab-cluster: build ## Crawl with a whole cluster in the small closed network (needs $(LAB_SOURCE) and $(SERVICES))
	@if [ ! -d $(LAB_SOURCE) ] || [ ! -d $(SERVICES) ]; then echo "$(LAB_SOURCE) or $(SERVICES) is missing: nothing was run"; exit 1; fi
	go build -C $(LAB_SOURCE) -o "$(CURDIR)/bin/lab" .
	go test -tags services -c -o bin/cluster.test ./tools/cluster
	@LETTERHEAD_BINARY="$(CURDIR)/$(BIN)" LETTERHEAD_TEST_SERVICES="$(abspath $(SERVICES))" CLUSTER_RUN='$(CLUSTER_RUN)' \
	  LETTERHEAD_SERVICES_DIR="$${LETTERHEAD_SERVICES_DIR:-$(CURDIR)/bin/services}-lab" LAB_SITES="$(abspath $(LAB_SOURCE)/../data)" \
	  bin/lab run -- bash -c 'eval "$$("$$LETTERHEAD_TEST_SERVICES/up")" && LETTERHEAD_TEST_REQUIRE=postgres,kafka,elasticsearch bin/cluster.test -test.timeout 20m -test.v -test.run "$$CLUSTER_RUN" $(CLUSTER_FLAGS)'; \
	  code=$$?; if [ $$code = 77 ]; then echo "this machine permits no namespaces: not run"; exit 0; fi; exit $$code

ACCURACY_FLAGS ?=
accuracy: accuracy-peers ## Score extraction on labelled pages and logos, also that of other programs (docs/accuracy.md); the contact sheet is reports/accuracy.html
	go run ./tools/accuracy -peers bin/peers $(ACCURACY_FLAGS)

# A program that cannot be installed is left out of the comparison.
accuracy-peers: ## Install the programs that make accuracy compares with in bin/peers (needs npm and Python; 250 MB)
	@mkdir -p bin/peers && cp tools/accuracy/peers/* bin/peers/
	@npm install --prefix bin/peers --ignore-scripts --no-audit --no-fund --loglevel error >/dev/null || echo "metascraper and dembrandt cannot be installed"
	@{ [ -x bin/peers/venv/bin/python ] || python3 -m venv bin/peers/venv; } && bin/peers/venv/bin/pip install -q --disable-pip-version-check -r bin/peers/requirements.txt || echo "trafilatura and favicon cannot be installed"

logo-sheet: ## Draw contact sheets of logos and monograms to reports/logos-*.png
	go test ./readapi/logo -run TestStarterLogos_OnPages_SuitTheirBackground -count 1 -sheet "$(CURDIR)/reports"

background-sheet: ## Draw the sheets of docs/backgrounds.md
	go test ./readapi/logo -run TestFamousLogos_OnAnyBackground_AreLegible -count 1 -backgrounds "$(CURDIR)/docs/backgrounds"

bench: ## Measure look-ups over HTTP, alone and on services, account streams, replay, exports, start-up, imaging, logos, crawl
	go test ./readapi -run '^$$' -bench . -benchtime 3s
	go test ./commands -run '^$$' -bench . -benchtime 2s
	LETTERHEAD_REPLAY_EVENTS=$(BENCH_REPLAY_EVENTS) go test ./projections/... -run '^$$' -bench Replay -benchtime 1x -timeout 20m
	go test ./internal/eventlog/... -run '^$$' -bench . -benchtime 1s
	LETTERHEAD_BENCH_EVENTS=$(BENCH_REPLAY_EVENTS) go test ./workers/journal -run '^$$' -bench . -benchtime 1x -timeout 20m
	LETTERHEAD_BENCH_EVENTS=$(BENCH_REPLAY_EVENTS) go test ./projections/ledger -run '^$$' -bench State -benchtime 3x -timeout 20m
	go test ./domain/proof -run '^$$' -bench . -benchtime 3x
	go test ./node -run '^$$' -bench MigrateStarter -benchtime 3x -timeout 20m
	LETTERHEAD_TEST_PREVIOUS='$(PREVIOUS)' LETTERHEAD_BENCH_EVENTS=$(BENCH_REPLAY_EVENTS) \
	  go test ./tools/e2e -run '^$$' -bench . -benchtime 3x -timeout 30m
	go test ./internal/imaging ./internal/svg ./readapi/logo ./workers/crawl/... ./projections/search ./internal/searchindex/... -run '^$$' -bench . -benchtime 1s
	@if [ -x $(SERVICES)/up ]; then eval "$$($(SERVICES)/up)" && LETTERHEAD_TEST_PREVIOUS='$(PREVIOUS)' \
	  go test -tags services ./tools/cluster -run '^$$' -bench 'ChargedLookups|ScaleOut' -benchtime 1x -timeout 20m; \
	else echo "$(SERVICES) is missing: look-ups on services were not measured"; fi
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory bench-logos; else echo "npm is missing: logos were not compared with another image server"; fi

# The service written by hand that compare runs, and the rounds in which the two take turns.
PEER   ?= ../shared/peers
ROUNDS ?= 4
compare: build ## Compare charged look-ups with a service written by hand on PostgreSQL (needs ../shared/peers, wrk and h2load)
	@if [ ! -x $(PEER)/compare.py ] || [ ! -x $(SERVICES)/up ]; then echo "$(PEER) or $(SERVICES) is missing: nothing was compared"; exit 0; fi; \
	  for tool in wrk h2load python3 psql; do if ! command -v $$tool >/dev/null; then echo "$$tool is missing: nothing was compared"; exit 1; fi; done; \
	  eval "$$($(SERVICES)/up)" && PG="$${LETTERHEAD_TEST_POSTGRES%/*}" LETTERHEAD=$(BIN) ROUNDS=$(ROUNDS) LETTERHEAD_REFRESH=off $(PEER)/compare.py

tour: ## Draw the screenshots of docs/tour.md (needs Chromium)
	go test -tags tour -count 1 -v -timeout 20m -run TestTour ./tools/e2e

CHROMIUM     = $(shell for name in chromium chromium-browser google-chrome-stable google-chrome; do command -v $$name && break; done)
AXE         := axe-core@4.14.1
STRIPE_MOCK := github.com/stripe/stripe-mock@v0.203.0
pages: ## Check the pages with axe, and buy credits at stripe-mock (needs Chromium, and npm, which fetches axe)
	@if ! command -v npm >/dev/null; then echo "npm is missing: nothing was checked. It comes with Node.js."; exit 1; fi
	@if [ -z "$(CHROMIUM)" ]; then echo "Chromium is missing: nothing was checked."; exit 1; fi
	@tools=$$(mktemp -d) && trap 'rm -rf "$$tools"' EXIT && npm install --silent --no-save --prefix "$$tools" $(AXE) && GOBIN="$$tools" go install $(STRIPE_MOCK) && \
	  LETTERHEAD_TEST_AXE="$$tools/node_modules/axe-core/axe.min.js" LETTERHEAD_TEST_STRIPE_MOCK="$$tools/stripe-mock" \
	  go test -tags tour -count 1 -timeout 30m -run 'TestAccessibility|TestCheckout' ./tools/e2e && go test -tags tour -count 1 -run InABrowser ./readapi

bench-logos: build ## Compare the logo endpoint with npm's ipx on the same images (needs node and npm, which fetches it)
	@for tool in node npm; do if ! command -v $$tool >/dev/null; then echo "$$tool is missing: nothing was measured. It comes with Node.js."; exit 1; fi; done
	LETTERHEAD_BINARY="$(CURDIR)/$(BIN)" go test -tags logobench -count 1 -v -timeout 20m ./tools/e2e/logobench
