package readapi_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"letterhead/readapi/openapi"
	"letterhead/readapi/openapi/openapitest"
)

// contractFile is the table of every endpoint and status with the test that shows it, generated from
// the observations of this package's tests:
//
//	go test ./readapi -update-contract
//
// Of several tests that show a row, the first by name is listed.
const contractFile = "../docs/contract.md"

var updateContract = flag.Bool("update-contract", false, "write "+contractFile+" from this run")

// checkAnswers returns the checker of all tests, which reads the document once.
var checkAnswers = sync.OnceValues(func() (*openapitest.Checker, error) { return openapitest.New(baseURL) })

// contract collects the observations of a run.
var contract = observations{seen: map[openapitest.Row]map[string]bool{}}

type observations struct {
	mu   sync.Mutex
	seen map[openapitest.Row]map[string]bool // names of the tests
}

// witness is a transport that checks every completely read answer against the OpenAPI document, and
// records its row.
type witness struct {
	http.RoundTripper
	s       *service
	checker *openapitest.Checker
	mu      sync.Mutex
	told    map[string]bool // findings that were already reported
}

// witnessed wraps a transport in a witness, except in benchmarks.
func (s *service) witnessed(transport http.RoundTripper) http.RoundTripper {
	if _, measured := s.t.(*testing.B); measured {
		return transport
	}
	checker, err := checkAnswers()
	s.must(err)
	return &witness{RoundTripper: transport, s: s, checker: checker, told: map[string]bool{}}
}

func (w *witness) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := w.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = &seenBody{ReadCloser: resp.Body, ended: func(body []byte) {
			w.check(openapitest.Answer{Method: r.Method, Path: w.pathOf(r), Status: resp.StatusCode, Header: resp.Header, Body: body})
		}}
	}
	return resp, err
}

// seenBody passes a body through unchanged, and examines it once it was read to its end.
type seenBody struct {
	io.ReadCloser
	read  bytes.Buffer
	ended func(body []byte)
}

func (b *seenBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read.Write(p[:n])
	if errors.Is(err, io.EOF) && b.ended != nil {
		ended := b.ended
		b.ended = nil
		ended(b.read.Bytes())
	}
	return n, err
}

// pathOf returns the path of a request as in the document: the separate host serves logos at its root.
func (w *witness) pathOf(r *http.Request) string {
	if w.s.logoHost != "" && r.Host == w.s.logoHost {
		return "/logo" + r.URL.EscapedPath()
	}
	return r.URL.EscapedPath()
}

func (w *witness) check(a openapitest.Answer) {
	row, ok, err := w.checker.Check(a)
	if err != nil {
		w.tell(err)
		return
	}
	if !ok || w.s.clock == nil {
		return // sites run in real time, and only if a database server is configured, so they do not count
	}
	name, _, _ := strings.Cut(w.s.t.Name(), "/")
	contract.mu.Lock()
	defer contract.mu.Unlock()
	if contract.seen[row] == nil {
		contract.seen[row] = map[string]bool{}
	}
	contract.seen[row][name] = true
}

// tell reports each finding once per service: a test may see it in thousands of answers.
func (w *witness) tell(err error) {
	finding, _, _ := strings.Cut(err.Error(), "\nheader ")
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.told[finding] {
		w.told[finding] = true
		w.s.t.Errorf("contract: %v", err)
	}
}

func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 && ranEverything() {
		if err := settleContract(); err != nil {
			fmt.Fprintln(os.Stderr, "contract:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// ranEverything reports whether no flag excluded tests.
func ranEverything() bool {
	for _, name := range []string{"run", "skip", "list", "fuzz"} {
		if f := flag.Lookup("test." + name); f != nil && f.Value.String() != "" {
			return false
		}
	}
	return !testing.Short()
}

// settleContract compares a run of all tests with the document and with the table, or writes the
// table. Additional rows are not an error, because the answers to concurrent requests depend on
// timing.
func settleContract() error {
	checker, err := checkAnswers()
	if err != nil {
		return err
	}
	contract.mu.Lock()
	defer contract.mu.Unlock()
	var errs []error
	rows := documented(checker.Document())
	for _, row := range rows {
		if len(contract.seen[row]) == 0 {
			errs = append(errs, fmt.Errorf("no test shows %s", row))
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	if *updateContract {
		return os.WriteFile(contractFile, table(rows), 0o644)
	}
	return errors.Join(compareTable(rows)...)
}

// documented returns the rows that the document promises, in its order; on HEAD, where no body has a
// code, one per status.
func documented(d *openapi.Document) []openapitest.Row {
	var rows []openapitest.Row
	for _, o := range d.Operations {
		for _, r := range o.Responses {
			codes := r.Codes()
			if len(codes) == 0 || o.Method == http.MethodHead {
				codes = []string{""}
			}
			for _, code := range codes {
				rows = append(rows, openapitest.Row{Method: o.Method, Path: o.Path, Status: r.Status, Code: code})
			}
		}
	}
	return rows
}

const tableHead = `# Endpoints, statuses and the tests that show them

Made by ` + "`go test ./readapi -update-contract`" + `; a run of all tests fails when a test named here does not show its row any
more, and when the interface description promises something that no test shows. A 405 stands beside the first method
that the path answers.

| Endpoint | Status | Code | Shown by |
|---|---|---|---|
`

func table(rows []openapitest.Row) []byte {
	var b bytes.Buffer
	b.WriteString(tableHead)
	for _, row := range rows {
		by := slices.Min(slices.Collect(maps.Keys(contract.seen[row])))
		fmt.Fprintf(&b, "| `%s %s` | %d | %s | `%s` |\n", row.Method, row.Path, row.Status, row.Code, by)
	}
	return b.Bytes()
}

// compareTable reports the rows of the table whose test did not show them, and the promises that are
// missing from it.
func compareTable(rows []openapitest.Row) []error {
	file, err := os.ReadFile(contractFile)
	if err != nil {
		return []error{err}
	}
	var errs []error
	listed := map[openapitest.Row]bool{}
	lines := strings.Split(strings.TrimPrefix(string(file), tableHead), "\n")
	for _, line := range lines {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if len(cells) != 4 {
			continue
		}
		method, path, _ := strings.Cut(strings.Trim(cells[0], "`"), " ")
		status, _ := strconv.Atoi(cells[1])
		row := openapitest.Row{Method: method, Path: path, Status: status, Code: strings.TrimSpace(cells[2])}
		name := strings.Trim(cells[3], "`")
		listed[row] = true
		if !contract.seen[row][name] {
			errs = append(errs, fmt.Errorf("%s: %s names %s, which does not show it; run go test ./readapi -update-contract", row, contractFile, name))
		}
	}
	for _, row := range rows {
		if !listed[row] {
			errs = append(errs, fmt.Errorf("%s is not in %s; run go test ./readapi -update-contract", row, contractFile))
		}
	}
	return errs
}
