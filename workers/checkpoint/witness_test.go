package checkpoint_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/mod/sumdb/note"

	"letterhead/domain/proof"
	"letterhead/eventschemas"
	"letterhead/internal/sqlstore"
	"letterhead/internal/testcert"
	"letterhead/internal/testmust"
	"letterhead/internal/testnet"
	"letterhead/internal/testwait"
	"letterhead/workers/checkpoint"
)

// endpoint is a witness on the internet that keeps what it gets.
type endpoint struct {
	mu     sync.Mutex
	status int
	got    []string
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	switch {
	case err != nil:
		w.WriteHeader(http.StatusTeapot)
	case r.Method == http.MethodGet:
		fmt.Fprint(w, strings.Join(e.got, ""))
	case e.status != 0:
		w.WriteHeader(e.status)
	default:
		e.got = append(e.got, string(body))
	}
}

func (e *endpoint) answer(status int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.status = status
}

func (e *endpoint) posts() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.got)
}

// witness returns a witness of a world, and what it logs. Addresses are of a stand-in for the internet, with TLS.
func (w *world) witness(name string, sites map[string]http.Handler) (*checkpoint.Witness, *bytes.Buffer) {
	w.Helper()
	authority := testmust.Get(testcert.NewAuthority())(w)
	internet := testmust.Get(testnet.New(authority))(w)
	w.Cleanup(internet.Close)
	for host, site := range sites {
		internet.Serve(host, site)
	}
	client := testmust.Get(internet.Client())(w)
	w.Cleanup(client.Close)
	lines := &bytes.Buffer{}
	return &checkpoint.Witness{Name: name, Client: client, Sent: testmust.Get(sqlstore.NewPositions(w.Context(), w.store))(w), Logger: slog.New(slog.NewTextHandler(lines, nil))}, lines
}

// keys returns the public key of the world.
func (w *world) keys() note.Verifiers { return testmust.Get(w.maker.Keys())(w) }

// notes returns the signed checkpoints of a log, in their order.
func (w *world) notes() (texts []string) {
	for i, rec := range testmust.Get(w.log.ReadStream(w.Context(), eventschemas.CheckpointsStream, 0, 0, 100))(w) {
		if i%2 == 1 {
			texts = append(texts, testmust.Get(eventschemas.Decode(rec.Type, rec.SchemaVersion, rec.Data))(w).(eventschemas.LedgerCheckpointed).Note)
		}
	}
	return texts
}

func content(t *testing.T, name string) string {
	t.Helper()
	return string(testmust.Get(os.ReadFile(name))(t))
}

func TestWitness_File_GetsEveryCheckpointAndCompletesATornOne(t *testing.T) {
	w := newWorld(t)
	w.open(november, first)
	w.make()
	w.make()
	name := filepath.Join(t.TempDir(), "witness.txt")
	witness, _ := w.witness(name, nil)
	for range 2 { // the second attempt has nothing to do
		if !witness.Write(t.Context(), &w.maker.Ledger) || content(t, name) != strings.Join(w.notes(), "") {
			t.Fatalf("the file has %q, want both checkpoints", content(t, name))
		}
	}
	w.make()
	if err := witness.State(t.Context(), &w.maker.Ledger); err == nil || !strings.Contains(err.Error(), "2 of 3 checkpoints") {
		t.Errorf("state: %v, want that it lacks one", err)
	}
	third := w.notes()[2]
	for _, torn := range []int{1, len(third) / 2, len(third) - 1} {
		testmust.Succeed(t, os.WriteFile(name, []byte(strings.Join(w.notes()[:2], "")+third[:torn]), 0o644))
		if !witness.Write(t.Context(), &w.maker.Ledger) || content(t, name) != strings.Join(w.notes(), "") {
			t.Errorf("after a write that ended at byte %d, the file has %q, want three checkpoints", torn, content(t, name))
		}
	}
	if err := witness.State(t.Context(), &w.maker.Ledger); err != nil {
		t.Errorf("state: %v", err)
	}
}

// What is no checkpoint of the ledger is not written to, and stops no checkpoint.
func TestWitness_FileOfSomebodyElse_StaysAndStopsNothing(t *testing.T) {
	w := newWorld(t)
	w.open(november, first)
	w.make()
	foreign := newWorld(t)
	foreign.private = testmust.Get(proof.NewKey("other.example.com/ledger"))(t)
	foreign.make()
	for what, text := range map[string]string{"a note": "buy milk\n", "a letter": strings.Repeat("dear auditor\n", 9), "checkpoints of another ledger": foreign.notes()[0],
		"a text after a checkpoint": w.notes()[0] + "seen, J.\n"} {
		name := filepath.Join(t.TempDir(), "file.txt")
		testmust.Succeed(t, os.WriteFile(name, []byte(text), 0o644))
		witness, lines := w.witness(name, nil)
		w.maker.Witnesses = []*checkpoint.Witness{witness}
		w.make()
		for range 3 {
			if witness.Write(t.Context(), &w.maker.Ledger) || content(t, name) != text {
				t.Errorf("%s: the file has %q, want it unchanged", what, content(t, name))
			}
		}
		if n := strings.Count(lines.String(), "level=WARN"); n != 1 || !strings.Contains(lines.String(), "name another file") {
			t.Errorf("%s: %d warnings, want one that says what to do: %s", what, n, lines)
		}
	}
}

func TestWitness_Unreachable_StopsNothingAndWarnsOnce(t *testing.T) {
	w := newWorld(t)
	w.open(november, first)
	folder := filepath.Join(t.TempDir(), "disk")
	witness, lines := w.witness(filepath.Join(folder, "witness.txt"), nil)
	w.maker.Witnesses = []*checkpoint.Witness{witness}
	for range 3 {
		w.make()
		if witness.Write(t.Context(), &w.maker.Ledger) {
			t.Error("a file in a folder that does not exist was written")
		}
	}
	testmust.Succeed(t, os.Mkdir(folder, 0o755))
	for range 2 {
		if !witness.Write(t.Context(), &w.maker.Ledger) {
			t.Errorf("with the folder: %s", lines)
		}
	}
	if warned, again := strings.Count(lines.String(), "level=WARN"), strings.Count(lines.String(), "level=INFO"); warned != 1 || again != 1 {
		t.Errorf("logged %s; want one warning and one line of its end", lines)
	}
	if got := content(t, filepath.Join(folder, "witness.txt")); got != strings.Join(w.notes(), "") {
		t.Errorf("the file has %q, want three checkpoints", got)
	}
}

// An endpoint gets each checkpoint once, also after failures and a restart.
func TestWitness_Endpoint_GetsEachCheckpointOnce(t *testing.T) {
	w := newWorld(t)
	w.open(november, first)
	w.make()
	e := &endpoint{}
	sites := map[string]http.Handler{"witness.example.com": e}
	witness, _ := w.witness("https://witness.example.com/ledger", sites)
	if !witness.Write(t.Context(), &w.maker.Ledger) {
		t.Error("the first checkpoint was not posted")
	}
	e.answer(http.StatusServiceUnavailable)
	w.make()
	w.make()
	if witness.Write(t.Context(), &w.maker.Ledger) {
		t.Error("an endpoint that answers 503 has the checkpoint")
	}
	if err := witness.State(t.Context(), &w.maker.Ledger); err == nil || !strings.Contains(err.Error(), "1 of 3 checkpoints") {
		t.Errorf("state: %v", err)
	}
	e.answer(0)
	for range 2 {
		restarted, lines := w.witness("https://witness.example.com/ledger", sites)
		if !restarted.Write(t.Context(), &w.maker.Ledger) || !slices.Equal(e.posts(), w.notes()) {
			t.Errorf("the endpoint got %q, want the three checkpoints: %s", e.posts(), lines)
		}
	}
	if text, err := witness.Compare(t.Context(), &w.maker.Ledger, w.keys()); err != nil || !strings.Contains(text, "the 3 checkpoint(s)") {
		t.Errorf("comparison with the endpoint: %q, %v", text, err)
	}
}

// Log, kept files and checkpoints are replaced, and signed with the right key: only the witness knows.
func TestWitness_AnotherHistoryIsSigned_IsNotGivenAndIsNamed(t *testing.T) {
	w := newWorld(t)
	w.open(november, first)
	w.open(november, second)
	w.make()
	name := filepath.Join(t.TempDir(), "witness.txt")
	forged := newWorld(t)
	forged.private = w.private
	copyStream(t, w.log, forged.log, "account-"+first)
	copyStream(t, w.log, forged.log, "account-"+second)
	copyStream(t, w.log, forged.log, eventschemas.CheckpointsStream)
	for i := range 2 {
		w.append(november, second, charged(fmt.Sprint("c", i)))
		w.make()
	}
	witness, _ := w.witness(name, nil)
	if !witness.Write(t.Context(), &w.maker.Ledger) {
		t.Fatal("the witness got nothing")
	}
	testmust.Succeed(t, forged.maker.CaughtUp(t.Context()))
	forged.make() // checkpoint 2 without the charge
	before := content(t, name)
	if err := witness.State(t.Context(), &forged.maker.Ledger); !errors.Is(err, checkpoint.ErrChanged) || !strings.Contains(err.Error(), "checkpoint 3") {
		t.Errorf("state: %v, want ErrChanged with checkpoint 3", err)
	}
	if witness.Write(t.Context(), &forged.maker.Ledger) || content(t, name) != before {
		t.Error("the witness was given another history")
	}
	if _, err := witness.Compare(t.Context(), &forged.maker.Ledger, w.keys()); !errors.Is(err, checkpoint.ErrChanged) || !strings.Contains(err.Error(), "lacks checkpoint 2,") {
		t.Errorf("comparison: %v, want ErrChanged with checkpoint 2", err)
	}
	empty := newWorld(t) // the checkpoints were dropped, too
	empty.private = w.private
	empty.open(november, first)
	empty.make()
	if witness.Write(t.Context(), &empty.maker.Ledger) || content(t, name) != before {
		t.Error("the witness was given a new history")
	}
	if _, err := witness.Compare(t.Context(), &empty.maker.Ledger, w.keys()); !errors.Is(err, checkpoint.ErrChanged) || !strings.Contains(err.Error(), "lacks checkpoint 1,") {
		t.Errorf("comparison with a new log: %v, want ErrChanged with checkpoint 1", err)
	}
	if text, err := witness.Compare(t.Context(), &w.maker.Ledger, w.keys()); err != nil || !strings.Contains(text, "the 3 checkpoint(s)") {
		t.Errorf("comparison with the right log: %q, %v", text, err)
	}
}

func TestCompare_AccountsWereRewrittenBelowTheirCheckpoints_TheLastDiffers(t *testing.T) {
	w, other := rewritten(t, true)
	name := filepath.Join(t.TempDir(), "witness.txt")
	witness, _ := w.witness(name, nil)
	if !witness.Write(t.Context(), &w.maker.Ledger) {
		t.Fatal("the witness got nothing")
	}
	if _, err := witness.Compare(t.Context(), &other.maker.Ledger, w.keys()); !errors.Is(err, checkpoint.ErrChanged) || !strings.Contains(err.Error(), "root of checkpoint 4") {
		t.Errorf("comparison: %v, want ErrChanged with checkpoint 4", err)
	}
	if text, err := witness.Compare(t.Context(), &w.maker.Ledger, w.keys()); err != nil || !strings.Contains(text, "the 4 checkpoint(s)") {
		t.Errorf("comparison with the right log: %q, %v", text, err)
	}
	testmust.Succeed(t, os.WriteFile(name, []byte(content(t, name)+origin+"\n5\n"), 0o644))
	if text, err := witness.Compare(t.Context(), &w.maker.Ledger, w.keys()); err != nil || !strings.Contains(text, "no whole checkpoint") {
		t.Errorf("comparison with a torn file: %q, %v", text, err)
	}
}

// A checkpoint with a wrong signature in a file, or an old one at its end, stops nothing, and hides nothing.
func TestWitness_FileWasChanged_StopsNothing(t *testing.T) {
	w := newWorld(t)
	w.open(november, first)
	w.make()
	w.make()
	name := filepath.Join(t.TempDir(), "witness.txt")
	notes := w.notes()
	testmust.Succeed(t, os.WriteFile(name, []byte(notes[0]+notes[1]+strings.Replace(notes[0], "\n1\n", "\n999\n", 1)), 0o644))
	witness, _ := w.witness(name, nil)
	w.maker.Witnesses = []*checkpoint.Witness{witness}
	w.make()
	if witness.Write(t.Context(), &w.maker.Ledger) {
		t.Error("the file has a checkpoint that the log lacks, and the witness is said to have all")
	}
	testmust.Succeed(t, os.WriteFile(name, []byte(notes[0]+notes[1]+notes[0]), 0o644))
	if !witness.Write(t.Context(), &w.maker.Ledger) || content(t, name) != notes[0]+notes[1]+notes[0]+w.notes()[2] {
		t.Errorf("the file has %q, want the third checkpoint at its end", content(t, name))
	}
}

// An endpoint gets the checkpoints of a log that was set back, and those that follow.
func TestWitness_LogWasSetBack_EndpointGetsWhatFollows(t *testing.T) {
	w := newWorld(t)
	w.open(november, first)
	w.make()
	e := &endpoint{}
	witness, _ := w.witness("https://witness.example.com/ledger", map[string]http.Handler{"witness.example.com": e})
	testmust.Succeed(t, witness.Sent.Save(t.Context(), "witness "+witness.Name, 5))
	w.maker.Witnesses = []*checkpoint.Witness{witness}
	for range 2 {
		if !witness.Write(t.Context(), &w.maker.Ledger) {
			t.Error("the endpoint lacks checkpoints")
		}
		w.make()
	}
	if got := e.posts(); !slices.Equal(got, w.notes()[1:2]) {
		t.Errorf("the endpoint got %q, want the second checkpoint", got)
	}
}

func TestCompare_NoWitnessOfTheLedger_SaysWhatToDo(t *testing.T) {
	w := newWorld(t)
	w.open(november, first)
	w.make()
	foreign := newWorld(t)
	foreign.private = testmust.Get(proof.NewKey("other.example.com/ledger"))(t)
	foreign.make()
	page := http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(rw, strings.Repeat("<p>checkpoints</p>\n", 12))
	})
	short := http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, "<html>not found</html>") })
	whole := http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, w.notes()[0]) })
	cut := http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Length", fmt.Sprint(2*len(w.notes()[0])))
		fmt.Fprint(rw, w.notes()[0])
	})
	file := func(text string) string {
		name := filepath.Join(t.TempDir(), "file.txt")
		testmust.Succeed(t, os.WriteFile(name, []byte(text), 0o644))
		return name
	}
	forgedText := strings.Replace(w.notes()[0], "\n1\n", "\n2\n", 1)
	for what, c := range map[string]struct{ name, want string }{
		"empty":                 {file(""), "no whole checkpoint"},
		"of another ledger":     {file(foreign.notes()[0]), "--key"},
		"a forged checkpoint":   {file(forgedText), "wrong signature"},
		"another text":          {file(strings.Repeat("dear auditor\n", 9)), "name another file"},
		"a page":                {"https://page.example.com/", "not of a page"},
		"a short page":          {"https://short.example.com/", "no whole checkpoint"},
		"a page that is absent": {"https://absent.example.com/", "answered 404"},
		"a redirect":            {"https://moved.example.com/", "redirects"},
		"an answer cut off":     {"https://cut.example.com/", "cut off"},
		"http":                  {"http://page.example.com/", "https"},
		"no file":               {filepath.Join(t.TempDir(), "absent.txt"), "no such file"},
	} {
		witness, _ := w.witness(c.name, map[string]http.Handler{"page.example.com": page, "short.example.com": short, "absent.example.com": http.NotFoundHandler(),
			"moved.example.com": http.RedirectHandler("https://whole.example.com/", http.StatusFound), "whole.example.com": whole, "cut.example.com": cut})
		if _, err := witness.Compare(t.Context(), &w.maker.Ledger, w.keys()); err == nil || errors.Is(err, checkpoint.ErrChanged) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q that is not ErrChanged", what, err, c.want)
		}
	}
	witness, _ := w.witness(file(foreign.notes()[0]), nil)
	if _, err := witness.Compare(t.Context(), &w.maker.Ledger, foreign.keys()); !errors.Is(err, checkpoint.ErrWitness) || !strings.Contains(err.Error(), "other.example.com/ledger") {
		t.Errorf("a witness of another ledger, with its key: %v, want ErrWitness that names it", err)
	}
}

// failing returns the metric of a witness; -1 if there is none.
func failing(t *testing.T, metrics *prometheus.Registry) float64 {
	t.Helper()
	for _, family := range testmust.Get(metrics.Gather())(t) {
		if family.GetName() == "letterhead_witness_failed" && len(family.GetMetric()) == 1 {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	return -1
}

func TestRegular_WitnessFails_IsMeasuredAndTriedAgain(t *testing.T) {
	w := newWorld(t)
	w.open(november, first)
	folder := filepath.Join(t.TempDir(), "disk")
	witness, _ := w.witness(filepath.Join(folder, "witness.txt"), nil)
	w.maker.Witnesses = []*checkpoint.Witness{witness}
	metrics := prometheus.NewRegistry()
	r := &checkpoint.Regular{Maker: *w.maker, Look: time.Millisecond, Logger: slog.New(slog.DiscardHandler), Registerer: metrics}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	if _, ok := testwait.Until(testwait.Timeout, func() bool { return failing(t, metrics) == 1 }); !ok {
		t.Fatalf("the metric of a witness without its folder is %v, want 1", failing(t, metrics))
	}
	testmust.Succeed(t, os.Mkdir(folder, 0o755))
	if _, ok := testwait.Until(testwait.Timeout, func() bool { return failing(t, metrics) == 0 }); !ok {
		t.Fatalf("the metric of a witness with its folder is %v, want 0", failing(t, metrics))
	}
	stop()
	testmust.Succeed(t, testwait.Receive(t, ended, "the end of Run"))
	if got := content(t, witness.Name); got != strings.Join(w.notes(), "") || got == "" {
		t.Errorf("the file has %q, want the checkpoint", got)
	}
}
