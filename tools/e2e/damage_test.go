package e2e

import (
	"bytes"
	bigendian "encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/testmust"
)

// The files of an event log.
const (
	logName    = "events.db"
	walName    = "events.db-wal"
	markerName = "events.head"
)

// logFiles has the contents of an event log's files by name. A missing file has no entry.
type logFiles map[string][]byte

func readLogFiles(t *testing.T, folder string) logFiles {
	t.Helper()
	files := logFiles{}
	for _, name := range []string{logName, walName, markerName} {
		data, err := os.ReadFile(filepath.Join(folder, name))
		if err == nil {
			files[name] = data
		} else if !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	return files
}

func (f logFiles) write(t *testing.T, folder string) {
	t.Helper()
	for _, name := range []string{logName, walName, markerName} {
		err := os.Remove(filepath.Join(folder, name))
		if data, found := f[name]; found {
			err = os.WriteFile(filepath.Join(folder, name), data, 0o600)
		}
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
}

// with returns a copy with one changed file. If change returns nil, the copy lacks the file.
func (f logFiles) with(name string, change func(b []byte) []byte) logFiles {
	out := maps.Clone(f)
	if out[name] = change(bytes.Clone(f[name])); out[name] == nil {
		delete(out, name)
	}
	return out
}

// readEvents returns all events of a log.
func readEvents(t *testing.T, log *sqlite.Log) (events []eventlog.Recorded) {
	t.Helper()
	for at := eventlog.Position(0); ; {
		page, err := log.ReadAll(t.Context(), at, eventlog.Filter{}, 1000)
		testmust.Succeed(t, err)
		events = append(events, page.Events...)
		if at = page.Next; page.End {
			return events
		}
	}
}

// killedFolder is a data folder whose server was killed while it charged look-ups.
type killedFolder struct {
	data       string
	files      logFiles            // after the kill
	olderFiles logFiles            // before the last charges, copied from the running server
	otherFiles logFiles            // of another data folder
	events     []eventlog.Recorded // the contents of files
	charged    []string            // request ids of the charges whose answers were received
}

func newKilledFolder(t *testing.T) killedFolder {
	k := killedFolder{data: t.TempDir()}
	n := start(t, k.data)
	_, key := account(t, k.data, "custom")
	var mu sync.Mutex
	charge := func(each int) {
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range each {
					a, err := n.get("/v1/brands/github.com", key)
					if err != nil || a.status != http.StatusOK {
						t.Errorf("the look-up answered %d (%v), want 200", a.status, err)
						return
					}
					mu.Lock()
					k.charged = append(k.charged, a.header.Get("X-Request-Id"))
					mu.Unlock()
				}
			})
		}
		wg.Wait()
	}
	charge(2)
	k.olderFiles = readLogFiles(t, k.data)
	charge(8)
	n.kill()
	k.files = readLogFiles(t, k.data)

	another := t.TempDir()
	m := start(t, another, "LETTERHEAD_STARTER=off")
	account(t, another, "free")
	m.kill()
	k.otherFiles = readLogFiles(t, another)

	folder := t.TempDir()
	k.files.write(t, folder)
	log, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(folder, logName)})
	if err != nil {
		t.Fatalf("open the log after the kill: %v", err)
	}
	k.events = readEvents(t, log)
	testmust.Succeed(t, log.Close())
	found := map[string]bool{}
	for _, e := range k.events {
		if e.Type == "CreditsCharged" {
			found[e.Metadata.RequestID] = true
		}
	}
	for _, id := range k.charged {
		if !found[id] {
			t.Errorf("the log lacks the charge of request %s, which was answered", id)
		}
	}
	return k
}

// open opens a copy of files and returns the error if the log rejects them or finds damage. An opened log must have
// every event. A failed start must not change the files.
func (k killedFolder) open(t *testing.T, files logFiles) (openErr error) {
	t.Helper()
	folder := t.TempDir()
	files.write(t, folder)
	log, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(folder, logName)})
	if err != nil {
		if !errors.Is(err, eventlog.ErrLoss) && !errors.Is(err, eventlog.ErrCorrupt) && !strings.Contains(err.Error(), "this release reads format") {
			t.Errorf("the log was rejected with an unexpected error: %v", err)
		}
		after := readLogFiles(t, folder)
		for name, data := range files {
			if !bytes.Equal(after[name], data) {
				t.Errorf("the failed start changed %s", name)
			}
		}
		return err
	}
	err = log.Check(t.Context(), nil)
	if err == nil && !reflect.DeepEqual(readEvents(t, log), k.events) {
		t.Error("the log differs from the acknowledged events, but neither the start nor the check reported it")
	}
	if err := errors.Join(err, log.Close()); err != nil {
		return err
	}
	return nil
}

const (
	walHeader = 32
	walFrame  = 24 + 4096
)

// walFrames returns the number of valid frames of a write-ahead log, those with the salts of its header, and the
// indexes of the commit frames among them.
func walFrames(wal []byte) (frames int, commits []int) {
	for at := walHeader; at+walFrame <= len(wal) && bytes.Equal(wal[at+8:at+16], wal[16:24]); at += walFrame {
		if bigendian.BigEndian.Uint32(wal[at+4:]) != 0 {
			commits = append(commits, frames)
		}
		frames++
	}
	return frames, commits
}

type damage struct {
	name   string
	change func(b []byte) []byte
}

func flip(name string, at int) damage {
	return damage{name, func(b []byte) []byte { b[at] ^= 0x10; return b }}
}

func zero(name string, from, n int) damage {
	return damage{name, func(b []byte) []byte { clear(b[from : from+n]); return b }}
}

func cut(name string, length int) damage {
	return damage{name, func(b []byte) []byte { return b[:length] }}
}

func noise(name string, from, n int) damage {
	return damage{name, func(b []byte) []byte {
		for i := range n {
			b[from+i] = byte(rand.Uint32())
		}
		return b
	}}
}

func swap(name string, a, b, n int) damage {
	return damage{name, func(p []byte) []byte {
		first := bytes.Clone(p[a : a+n])
		copy(p[a:a+n], p[b:b+n])
		copy(p[b:b+n], first)
		return p
	}}
}

func replaced(name string, by []byte) damage {
	return damage{name, func([]byte) []byte { return by }}
}

// walDamages returns damages of a write-ahead log, each of which removes acknowledged data.
func walDamages(k killedFolder) []damage {
	wal := k.files[walName]
	frames, commits := walFrames(wal)
	at := func(frame int) int { return walHeader + frame*walFrame }
	middle := frames / 2
	damages := []damage{
		flip("header: magic", 3), flip("header: byte order", 3), flip("header: format", 7), flip("header: page size", 10),
		flip("header: sequence", 15), flip("header: first salt", 16), flip("header: second salt", 23),
		flip("header: checksum", 28), zero("header: zeroed", 0, walHeader), noise("header: noise", 0, walHeader),
	}
	for _, f := range []struct {
		name  string
		frame int
	}{{"first frame", 0}, {"frame in the middle", middle}, {"commit in the middle", commits[len(commits)/2]}, {"last frame", frames - 1}} {
		from := at(f.frame)
		damages = append(damages,
			flip(f.name+": page number", from+3), flip(f.name+": commit field", from+6), flip(f.name+": salt", from+9),
			flip(f.name+": checksum", from+20), flip(f.name+": page", from+24+1000), zero(f.name+": zeroed", from, walFrame),
			noise(f.name+": sectors of noise", from+24+512, 1536))
	}
	return append(damages,
		zero("16 frames of zeros", at(middle), 16*walFrame), noise("64 KiB of noise", at(middle)+100, 64<<10),
		swap("two frames swapped", at(middle), at(middle+1), walFrame),
		damage{"a frame missing", func(b []byte) []byte { return slices.Delete(b, at(middle), at(middle+1)) }},
		damage{"a frame twice", func(b []byte) []byte {
			return slices.Insert(b, at(middle), bytes.Clone(b[at(middle):at(middle+1)])...)
		}},
		cut("cut to half", at(middle)), cut("the last commit cut off", at(commits[len(commits)-2]+1)), cut("cut within the last frame", at(frames)-7),
		cut("cut after the header", walHeader), cut("cut within the header", 10), cut("empty", 0),
		zero("all zeros", 0, len(wal)),
		replaced("missing", nil), replaced("from another folder", k.otherFiles[walName]), replaced("an older copy", k.olderFiles[walName]),
	)
}

// fileDamages returns damages of the database file of a closed log, by kind of page.
func fileDamages(k killedFolder, file []byte) []damage {
	const page = 4096
	kinds := map[byte][]int{} // offsets by the type of a b-tree page
	for at := page; at < len(file); at += page {
		kinds[file[at]] = append(kinds[file[at]], at)
	}
	damages := []damage{
		flip("header: magic", 2), flip("header: page size", 16), flip("header: pages", 30), flip("header: page count zero", 31),
		flip("header: schema format", 47), flip("header: text encoding", 59), flip("header: application", 70), flip("header: user version", 63),
		flip("schema: page type", 100), zero("schema: zeroed", 100, page-100), flip("schema: text", page-50), zero("first page zeroed", 0, page),
		cut("a page cut off", len(file)-page), cut("cut to half", len(file)/2/page*page), cut("cut within the last page", len(file)-100), cut("empty", 0),
		replaced("missing", nil), replaced("from another folder", k.otherFiles[logName]), replaced("an older copy", k.olderFiles[logName]),
	}
	for _, kind := range []struct {
		name string
		typ  byte
	}{{"interior of the table", 0x05}, {"leaf of the table", 0x0d}, {"interior of the index", 0x02}, {"leaf of the index", 0x0a}} {
		pages := kinds[kind.typ]
		if len(pages) == 0 {
			continue
		}
		at := pages[len(pages)/2]
		last := pages[len(pages)-1]
		damages = append(damages,
			flip(kind.name+": page type", at), flip(kind.name+": number of cells", at+4), flip(kind.name+": cell pointer", at+13),
			flip(kind.name+": content", at+page-20), zero(kind.name+": zeroed", at, page), noise(kind.name+": noise", at, page),
			zero(kind.name+": half of it zeroed", at+page/2, page/2), zero(kind.name+": last one zeroed", last, page))
		if len(pages) > 1 {
			damages = append(damages, swap(kind.name+": two swapped", pages[0], last, page),
				damage{kind.name + ": replaced by another", func(b []byte) []byte { copy(b[at:at+page], b[pages[0]:pages[0]+page]); return b }})
		}
	}
	return damages
}

// If the files of the log are damaged after a kill, the log never silently lacks an acknowledged event: it is rejected,
// or the damaged bytes are unused.
// Rule 2.
func TestDamagedLog_Opened_IsRejectedOrLosesNothing(t *testing.T) {
	k := newKilledFolder(t)
	if t.Failed() {
		return
	}
	t.Run("write-ahead log", func(t *testing.T) {
		damages := walDamages(k)
		for _, d := range damages {
			t.Run(d.name, func(t *testing.T) {
				if k.open(t, k.files.with(walName, d.change)) == nil {
					t.Error("the log was opened although acknowledged events were damaged")
				}
			})
		}
		t.Logf("%d kinds of damage", len(damages))
	})
	t.Run("torn end", func(t *testing.T) {
		frames, _ := walFrames(k.files[walName])
		end := walHeader + frames*walFrame
		torn := bytes.Clone(k.files[walName][end-walFrame : end]) // valid salts, invalid checksum
		for _, n := range []int{1, 24, 100, walFrame} {
			if err := k.open(t, k.files.with(walName, func(b []byte) []byte { return append(b[:end], torn[:n]...) })); err != nil {
				t.Errorf("open the log with %d bytes of an unacknowledged write: %v", n, err)
			}
		}
	})
	t.Run("file", func(t *testing.T) {
		folder := t.TempDir()
		k.files.write(t, folder)
		log, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(folder, logName)})
		testmust.Succeed(t, err)
		testmust.Succeed(t, log.Close())
		closedFiles := readLogFiles(t, folder)
		damages, rejected := fileDamages(k, closedFiles[logName]), 0
		for _, d := range damages {
			t.Run(d.name, func(t *testing.T) {
				if k.open(t, closedFiles.with(logName, d.change)) != nil {
					rejected++
				} else {
					t.Log("harmless")
				}
			})
		}
		t.Logf("%d of %d kinds of damage were rejected, the others lost no event", rejected, len(damages))
		if rejected < 45 {
			t.Errorf("%d of %d kinds of damage were rejected, want at least 45", rejected, len(damages))
		}
	})
	t.Run("marker", func(t *testing.T) {
		for _, d := range []damage{flip("one slot", 40), flip("the other slot", 4096+40), cut("one slot cut off", 4096)} {
			if err := k.open(t, k.files.with(markerName, d.change)); err != nil {
				t.Errorf("%s: opening the log: %v", d.name, err)
			}
		}
		for _, d := range []damage{zero("zeroed", 0, 8192), cut("empty", 0), replaced("from another folder", k.otherFiles[markerName])} {
			if k.open(t, k.files.with(markerName, d.change)) == nil {
				t.Errorf("%s: the log was opened, want an error", d.name)
			}
		}
		// The first start after an upgrade has no marker. The marker is old if an older release has appended to the log.
		if err := k.open(t, k.files.with(markerName, replaced("", nil).change)); err != nil {
			t.Errorf("open the log without a marker: %v", err)
		}
		if err := k.open(t, k.files.with(markerName, replaced("", k.olderFiles[markerName]).change)); err != nil {
			t.Errorf("open the log with an older marker: %v", err)
		}
	})
	t.Run("commands", func(t *testing.T) { k.checkCommandsFail(t) })
	t.Run("accept", func(t *testing.T) { k.checkAcceptedLoss(t) })
}

// checkCommandsFail runs the binary on a folder whose write-ahead log has one changed byte.
func (k killedFolder) checkCommandsFail(t *testing.T) {
	frames, _ := walFrames(k.files[walName])
	damaged := k.files.with(walName, flip("", walHeader+frames/2*walFrame+2000).change)
	damaged.write(t, k.data)
	for _, args := range [][]string{{"serve", "--listen", "127.0.0.1:0"}, {"doctor"}, {"ledger", "verify"}, {"projections", "verify"}} {
		out, errs, code := letterhead(t, k.data, args...)
		t.Logf("letterhead %s: exit code %d: %s%s", strings.Join(args, " "), code, out, errs)
		if code == 0 {
			t.Errorf("letterhead %s ended with exit code 0", strings.Join(args, " "))
		}
		for _, want := range []string{"are missing", fmt.Sprintf("remembers position %d", len(k.events)), "restore the data folder from a backup", "letterhead recover accept-loss"} {
			if !strings.Contains(errs, want) {
				t.Errorf("letterhead %s did not print %q", strings.Join(args, " "), want)
			}
		}
	}
	if after := readLogFiles(t, k.data); !reflect.DeepEqual(after, damaged) {
		t.Error("the failed commands changed the log")
	}
}

// checkAcceptedLoss accepts the loss of events and checks that the log continues with the remaining ones.
func (k killedFolder) checkAcceptedLoss(t *testing.T) {
	frames, _ := walFrames(k.files[walName])
	folder := t.TempDir()
	path := filepath.Join(folder, logName)
	damaged := k.files.with(walName, flip("", walHeader+frames/2*walFrame+2000).change)
	damaged.write(t, folder)
	report, err := sqlite.Inspect(t.Context(), path)
	if err != nil || report.Loss == nil || report.Marker == nil {
		t.Fatalf("the inspection returned %+v (%v), want a loss and a marker", report, err)
	}
	log, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, AcceptLoss: true})
	testmust.Succeed(t, err)
	left := readEvents(t, log)
	loss := report.Loss
	if int(loss.Head) != len(left) || int(loss.Remembered) != len(k.events) || report.Head != loss.Head {
		t.Errorf("the loss is %+v with %d of %d events left, the inspection returned head %d", loss, len(left), len(k.events), report.Head)
	}
	if len(left) == 0 || len(left) >= len(k.events) || !reflect.DeepEqual(left, k.events[:len(left)]) {
		t.Errorf("%d of %d events are left, want a shorter prefix of them", len(left), len(k.events))
	}
	if err := errors.Join(log.Check(t.Context(), nil), log.Close()); err != nil {
		t.Error(err)
	}
	for name, data := range damaged {
		kept, err := filepath.Glob(filepath.Join(folder, name+".lost-*"))
		if err != nil || len(kept) != 1 {
			t.Fatalf("the copies of %s are %v (%v), want one", name, kept, err)
		}
		if now, err := os.ReadFile(kept[0]); err != nil || !bytes.Equal(now, data) {
			t.Errorf("%s differs from the replaced %s (%v)", kept[0], name, err)
		}
	}
	log, err = sqlite.Open(t.Context(), sqlite.Config{Path: path})
	testmust.Succeed(t, err)
	if err := log.Close(); err != nil {
		t.Error(err)
	}
}
