package readapi_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"letterhead/internal/testmust"
	"letterhead/readapi/openapi"
	"letterhead/readapi/openapi/openapitest"
)

// contractFile is the page of every endpoint and status with the test that shows it. Tests declare what
// they show with service.shows, and a run of all tests writes the page:
//
//	go test ./readapi -update-contract
const contractFile = "../docs/contract.md"

var updateContract = flag.Bool("update-contract", false, "write "+contractFile+" from the declarations of this run")

// checkAnswers returns the checker of all tests, which reads the document once.
var checkAnswers = sync.OnceValues(func() (*openapitest.Checker, error) { return openapitest.New(baseURL) })

// contract collects the observations and the declarations of a run.
var contract = observations{
	seen: map[openapitest.Row]map[string]bool{}, declared: map[openapitest.Row]string{}, passed: map[string]bool{},
}

type observations struct {
	mu       sync.Mutex
	seen     map[openapitest.Row]map[string]bool // names of the tests that got such an answer
	declared map[openapitest.Row]string          // name of the test
	passed   map[string]bool                     // tests, by name
}

// shows declares that this test is the one that shows an endpoint's status, with each of the codes if
// there are any. The test fails if the OpenAPI document does not have them, if the test does not get
// such an answer, or if the page names another test.
func (s *service) shows(endpoint string, status int, codes ...string) {
	s.t.Helper()
	checker, err := checkAnswers()
	s.must(err)
	method, path, _ := strings.Cut(endpoint, " ")
	o := openapitest.Operation(checker.Document(), method, path)
	if o == nil || openapitest.Response(o, status) == nil {
		s.t.Fatalf("the OpenAPI document does not have %s with status %d", endpoint, status)
	}
	if len(codes) == 0 || method == http.MethodHead || len(openapitest.Response(o, status).Codes()) == 0 {
		codes = []string{""} // there is no body with a code
	}
	name, _, _ := strings.Cut(s.t.Name(), "/")
	for _, code := range codes {
		row := openapitest.Row{Method: method, Path: path, Status: status, Code: code}
		contract.declare(s.t, row, name)
		s.t.Cleanup(func() {
			if !s.t.Failed() && !contract.saw(row, name) {
				s.t.Errorf("%s declares %s but did not get such an answer", name, row)
			}
		})
	}
}

func (c *observations) declare(t testing.TB, row openapitest.Row, name string) {
	t.Helper()
	page := testmust.Get(contractPage())(t)
	if !*updateContract && page[row] != name {
		t.Errorf("%s declares %s, for which %s names %q; run go test ./readapi -update-contract", name, row, contractFile, page[row])
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if other := c.declared[row]; other != "" && other != name {
		t.Errorf("both %s and %s declare %s", other, name, row)
	}
	c.declared[row] = name
}

func (c *observations) saw(row openapitest.Row, name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen[row][name]
}

// note records that a test has ended, unless it failed or was skipped.
func (c *observations) note(t testing.TB) {
	if t.Failed() || t.Skipped() {
		return
	}
	name, _, _ := strings.Cut(t.Name(), "/")
	c.mu.Lock()
	defer c.mu.Unlock()
	c.passed[name] = true
}

// contractTransport checks every completely read answer against the OpenAPI document, and records its row.
type contractTransport struct {
	http.RoundTripper
	s        *service
	checker  *openapitest.Checker
	mu       sync.Mutex
	reported map[string]bool // findings
}

// withContract wraps a transport in a contractTransport, except in benchmarks.
func (s *service) withContract(transport http.RoundTripper) http.RoundTripper {
	if _, measured := s.t.(*testing.B); measured {
		return transport
	}
	checker, err := checkAnswers()
	s.must(err)
	s.t.Cleanup(func() { contract.note(s.t) })
	return &contractTransport{RoundTripper: transport, s: s, checker: checker, reported: map[string]bool{}}
}

func (w *contractTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := w.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = &seenBody{ReadCloser: resp.Body, ended: func(body []byte) {
			plain, err := decode(resp.Header.Get("Content-Encoding"), body)
			if err != nil {
				w.report(err)
			}
			w.check(openapitest.Answer{Method: r.Method, Path: w.pathOf(r), Status: resp.StatusCode, Header: resp.Header, Body: plain})
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
func (w *contractTransport) pathOf(r *http.Request) string {
	if w.s.config.LogoHost != "" && r.Host == w.s.config.LogoHost {
		return "/logo" + r.URL.EscapedPath()
	}
	return r.URL.EscapedPath()
}

func (w *contractTransport) check(a openapitest.Answer) {
	row, ok, err := w.checker.Check(a)
	if err != nil {
		w.report(err)
		return
	}
	if !ok || w.s.clock == nil {
		return // sites run in real time, and only if a database server is configured, so they do not count
	}
	name, _, _ := strings.Cut(w.s.t.Name(), "/")
	contract.see(row, name)
}

// see records that a test got an answer.
func (c *observations) see(row openapitest.Row, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen[row] == nil {
		c.seen[row] = map[string]bool{}
	}
	c.seen[row][name] = true
}

// report reports each finding once per service: a test may see it in thousands of answers.
func (w *contractTransport) report(err error) {
	finding, _, _ := strings.Cut(err.Error(), "\nheader ")
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.reported[finding] {
		w.reported[finding] = true
		w.s.t.Errorf("contract: %v", err)
	}
}

func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if err := contract.finish(); err != nil {
			fmt.Fprintln(os.Stderr, "contract:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// finish compares the page with the declarations of the tests that ran, or writes it.
func (c *observations) finish() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if *updateContract {
		return c.write()
	}
	if strings.Contains(flag.Lookup("test.run").Value.String(), "/") {
		return nil // a part of a test may leave declarations out
	}
	page, err := contractPage()
	if err != nil {
		return err
	}
	var errs []error
	for row, name := range page {
		if c.passed[name] && c.declared[row] != name {
			errs = append(errs, fmt.Errorf("%s names %s for %s, which the test does not declare; run go test ./readapi -update-contract", contractFile, name, row))
		}
	}
	return errors.Join(errs...)
}

// write writes the page. It fails if a status of the document has no declaration.
func (c *observations) write() error {
	checker, err := checkAnswers()
	if err != nil {
		return err
	}
	var errs []error
	var b bytes.Buffer
	b.WriteString(tableHead)
	for _, row := range documented(checker.Document()) {
		if c.declared[row] == "" {
			errs = append(errs, fmt.Errorf("no test declares %s", row))
		}
		fmt.Fprintf(&b, "| `%s %s` | %d | %s | `%s` |\n", row.Method, row.Path, row.Status, row.Code, c.declared[row])
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	return os.WriteFile(contractFile, b.Bytes(), 0o644)
}

// contractPage returns the tests that the page names, by row.
var contractPage = sync.OnceValues(func() (map[openapitest.Row]string, error) {
	file, err := os.ReadFile(contractFile)
	if err != nil {
		return nil, err
	}
	page := map[openapitest.Row]string{}
	for line := range strings.Lines(string(file)) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if len(cells) != 4 || !strings.HasPrefix(cells[0], "`") {
			continue
		}
		method, path, _ := strings.Cut(strings.Trim(cells[0], "`"), " ")
		status, err := strconv.Atoi(cells[1])
		if err != nil {
			return nil, fmt.Errorf("%s: %q: %w", contractFile, line, err)
		}
		row := openapitest.Row{Method: method, Path: path, Status: status, Code: strings.TrimSpace(cells[2])}
		page[row] = strings.Trim(cells[3], "`")
	}
	return page, nil
})

// TestContractPage_EveryDocumentedStatus_NamesATest compares the page with the document. Whether a named
// test declares and gets the answer is checked when that test runs.
func TestContractPage_EveryDocumentedStatus_NamesATest(t *testing.T) {
	if *updateContract {
		return // the page is written at the end of this run
	}
	checker := testmust.Get(checkAnswers())(t)
	page := testmust.Get(contractPage())(t)
	tests := testNames(t)
	rows := documented(checker.Document())
	for _, row := range rows {
		if !tests[page[row]] {
			t.Errorf("%s names %q for %s, which is not a test", contractFile, page[row], row)
		}
	}
	for row := range page {
		if !slices.Contains(rows, row) {
			t.Errorf("%s has %s, which the OpenAPI document does not have", contractFile, row)
		}
	}
}

// testNames returns the names of this package's tests, from its files.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	files := testmust.Get(filepath.Glob("*_test.go"))(t)
	names := map[string]bool{}
	for _, file := range files {
		source := testmust.Get(os.ReadFile(file))(t)
		for _, found := range testFunction.FindAllSubmatch(source, -1) {
			names[string(found[1])] = true
		}
	}
	return names
}

var testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)

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

Each test declares the statuses that it shows, and ` + "`go test ./readapi -update-contract`" + ` writes this page from the
declarations. A test fails if the API description lacks what it declares, if it does not get such an answer, or if this
page names another test; and a status of the description without a test fails, too. A 405 is listed with the first
method of its path.

| Endpoint | Status | Code | Shown by |
|---|---|---|---|
`
