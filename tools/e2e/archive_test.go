package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"letterhead/commands"
	"letterhead/domain/brand"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
)

// logged is an event of the log without its position.
type logged struct {
	Stream     string          `json:"stream"`
	Revision   uint64          `json:"revision"`
	ID         string          `json:"id"`
	Type       string          `json:"type"`
	OccurredAt string          `json:"occurred_at"`
	Metadata   json.RawMessage `json:"metadata"`
	Data       json.RawMessage `json:"data"`
}

func (l logged) String() string {
	return fmt.Sprintf("%s@%d %s %s %s %s %s", l.Stream, l.Revision, l.ID, l.Type, l.OccurredAt, l.Metadata, l.Data)
}

func loggedIn(t *testing.T, lines string) (events []logged) {
	t.Helper()
	for _, line := range strings.Split(strings.TrimSpace(lines), "\n") {
		var l logged
		decode(t, line, &l)
		events = append(events, l)
	}
	return events
}

// wholeLog returns all events of a folder's log.
func wholeLog(t *testing.T, data string) []logged {
	t.Helper()
	return loggedIn(t, ok(t, data, "events", "replay", "--json"))
}

// exceptStreams returns the events of all other streams as text.
func exceptStreams(events []logged, streams ...string) (out []string) {
	for _, e := range events {
		// A node records its request counts when it stops.
		if !slices.Contains(streams, e.Stream) && !strings.HasPrefix(e.Stream, "usage-node-") {
			out = append(out, e.String())
		}
	}
	return out
}

// Look-ups of these domains fail with and without DNS, because startWithoutCrawls denies all IP addresses.
var unknownDomains = []string{"letterhead-no-such-brand-1.com", "letterhead-no-such-brand-2.com"}

const brandStreamPrefix = "brand-"

// startWithoutCrawls starts a server whose crawls cannot connect to any address.
func startWithoutCrawls(t *testing.T, data string) *node {
	t.Helper()
	return start(t, data, "LETTERHEAD_STARTER=off", "LETTERHEAD_CRAWL_DENY=0.0.0.0/0,::/0")
}

// lookupFails looks up a domain and expects no brand.
func (n *node) lookupFails(domain, key string) {
	n.t.Helper()
	a, err := n.get("/v1/brands/"+domain, key)
	if err != nil || a.status == 200 || a.status == 400 || a.status == 401 {
		n.t.Fatalf("the look-up of %s answered %d %s (%v), want a failed crawl", domain, a.status, a.body, err)
	}
}

// newFolderWithFailures creates a folder in which look-ups of two domains failed. The second domain is a brand.
func newFolderWithFailures(t *testing.T) (data, accountID, key string) {
	t.Helper()
	data = folderWithoutStarter(t)
	n := startWithoutCrawls(t, data)
	acc, key := account(t, data, "free")
	for _, domain := range unknownDomains {
		n.lookupFails(domain, key)
	}
	ok(t, data, "brand", "override", "--reason", "test", unknownDomains[1], "name", `"Two"`) // makes it a brand
	n.stop()
	return data, acc.Account.ID, key
}

func archiveArgs(to string) []string {
	return []string{"archive", "--before", time.Now().UTC().Format(time.RFC3339Nano), "--to", to, "--yes", "--json"}
}

// verifyAll runs the commands that verify a folder.
func verifyAll(t *testing.T, data string) {
	t.Helper()
	ok(t, data, "ledger", "verify")
	ok(t, data, "projections", "verify")
}

func TestArchive_FailedLookups_MovesOnlyThose(t *testing.T) {
	data, _, key := newFolderWithFailures(t)
	before := wholeLog(t, data)
	archivedStream := brandStreamPrefix + unknownDomains[0]
	file := filepath.Join(t.TempDir(), "failed.jsonl.zst")

	t.Run("rejected", func(t *testing.T) {
		for name, args := range map[string][]string{
			"in the future": {"archive", "--before", "2999-01-01", "--to", file, "--yes"},
			"not a date":    {"archive", "--before", "yesterday", "--to", file, "--yes"},
			"without file":  {"archive", "--before", "2026-10-01", "--yes"},
			"not confirmed": slices.DeleteFunc(archiveArgs(file), func(a string) bool { return a == "--yes" }),
		} {
			if out, errs, code := letterhead(t, data, args...); code == 0 {
				t.Errorf("archive %s ended with 0: %s%s", name, out, errs)
			}
		}
		n := startWithoutCrawls(t, data)
		if _, errs, code := letterhead(t, data, archiveArgs(file)...); code == 0 || !strings.Contains(errs, "stop the server") {
			t.Errorf("archive on a folder in use ended with %d: %s", code, errs)
		}
		n.stop()
		if _, err := os.Stat(file); !os.IsNotExist(err) {
			t.Errorf("a rejected command left %s (%v)", file, err)
		}
		if out := ok(t, data, "archive", "--before", "2001-01-01", "--to", file, "--yes"); !strings.Contains(out, "nothing to archive") {
			t.Errorf("archive without old events printed %s", out)
		}
	})

	var out struct {
		Streams, Events uint64
		SHA256, Kept    string
		Rest            struct{ Events uint64 }
	}
	decode(t, ok(t, data, archiveArgs(file)...), &out)
	if out.Streams != 1 || out.Events != 2 {
		t.Errorf("archive printed %+v, want 1 stream and 2 events", out)
	}
	raw, err := os.ReadFile(file)
	testmust.Succeed(t, err)
	if sum := sha256.Sum256(raw); hex.EncodeToString(sum[:]) != out.SHA256 {
		t.Errorf("the SHA-256 of the file is %x, but the command printed %s", sum, out.SHA256)
	}
	expand, err := zstd.NewReader(bytes.NewReader(raw))
	testmust.Succeed(t, err)
	lines, err := io.ReadAll(expand)
	expand.Close()
	testmust.Succeed(t, err)
	var want []string
	for _, e := range before {
		if e.Stream == archivedStream {
			want = append(want, e.String())
		}
	}
	if got := exceptStreams(loggedIn(t, string(lines))); !slices.Equal(got, want) {
		t.Errorf("the archive contains\n%s\nwant\n%s", got, want)
	}
	if _, err := os.Stat(out.Kept); err != nil {
		t.Errorf("the old log: %v", err)
	}
	if got, want := exceptStreams(wholeLog(t, data)), exceptStreams(before, archivedStream); !slices.Equal(got, want) {
		t.Errorf("the log contains\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	verifyAll(t, data)

	t.Run("crawled again", func(t *testing.T) {
		n := startWithoutCrawls(t, data)
		if got := n.balance(key); got != 50 {
			t.Errorf("the balance is %v, want 50", got)
		}
		n.lookupFails(unknownDomains[0], key)
		var types []string
		for _, e := range loggedIn(t, ok(t, data, "events", "replay", "--stream", archivedStream, "--json")) {
			types = append(types, e.Type)
		}
		if want := []string{"CrawlRequested", "CrawlFailed"}; !slices.Equal(types, want) {
			t.Errorf("the stream of %s has %v, want %v", unknownDomains[0], types, want)
		}
		n.stop()
		verifyAll(t, data)
	})
}

// A crawl that was requested but not yet relayed when the server stopped runs after the archive step.
func TestArchive_PendingCrawl_RunsAfterwards(t *testing.T) {
	data, _, _ := newFolderWithFailures(t)
	const waiting = "letterhead-no-such-brand-3.com"
	log, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(data, "events.db")})
	testmust.Succeed(t, err)
	brands, err := commands.NewBrands(commands.BrandsConfig{}, log)
	testmust.Succeed(t, err)
	_, err = brands.RequestCrawl(t.Context(), commands.RequestCrawl{
		Request: commands.Request{ID: "request", Actor: "operator:test"}, Domain: waiting, Cause: brand.CauseOperator, Priority: brand.PriorityLive, Allowed: time.Hour,
	})
	testmust.Succeed(t, errors.Join(err, log.Close()))
	ok(t, data, archiveArgs(filepath.Join(t.TempDir(), "failed.jsonl.zst"))...)
	n := startWithoutCrawls(t, data)
	var types []string
	testwait.Until(30*time.Second, func() bool {
		types = nil
		for _, e := range loggedIn(t, ok(t, data, "events", "replay", "--stream", brandStreamPrefix+waiting, "--json")) {
			types = append(types, e.Type)
		}
		return len(types) > 1
	})
	if want := []string{"CrawlRequested", "CrawlFailed"}; !slices.Equal(types, want) {
		t.Errorf("the stream of %s has %v, want %v", waiting, types, want)
	}
	n.stop()
	verifyAll(t, data)
}

// If an archive step is killed repeatedly, the folder always has either the complete old log or the complete new one.
// The same command then finishes the work with one archive.
func TestArchive_Killed_LeavesOldOrNewLog(t *testing.T) {
	data, _, _ := newFolderWithFailures(t)
	archivedStream := brandStreamPrefix + unknownDomains[0]
	before := wholeLog(t, data)
	file := filepath.Join(t.TempDir(), "failed.jsonl.zst")
	args := append([]string{"--data", data}, archiveArgs(file)...)
	kills := 0
	killSteps(func(d time.Duration) bool {
		if killedAfter(t, d, args...) {
			return true
		}
		kills++
		ok(t, data, "ledger", "verify")
		got := exceptStreams(wholeLog(t, data))
		if !slices.Equal(got, exceptStreams(before)) && !slices.Equal(got, exceptStreams(before, archivedStream)) {
			t.Fatalf("after a kill at %s the log contains\n%s", d, strings.Join(got, "\n"))
		}
		return false
	})
	if kills == 0 {
		t.Fatal("no run was killed")
	}
	if got, want := exceptStreams(wholeLog(t, data)), exceptStreams(before, archivedStream); !slices.Equal(got, want) {
		t.Errorf("after %d kills the log contains\n%s", kills, strings.Join(got, "\n"))
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	verifyAll(t, data)
}
