package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"letterhead/domain/proof"
	"letterhead/internal/disk"
	"letterhead/internal/eventlog"
	"letterhead/internal/safehttp"
	"letterhead/internal/sqlstore"
)

const (
	// witnessTime limits an attempt to reach a witness. A disk of another machine can hang.
	witnessTime = 10 * time.Second
	// maxWitness limits the text of a witness: some 20,000 checkpoints.
	maxWitness = 4 << 20
)

// ErrWitness: what a witness keeps cannot be compared with the ledger or continued.
var ErrWitness = errors.New("it keeps no checkpoints of this ledger, or another text")

// Witness keeps signed checkpoints where the service cannot change them: a file, to which each is added, or an HTTPS
// endpoint, which gets each in a request. It stops no checkpoint, whatever it keeps: Compare finds another history.
type Witness struct {
	Name   string // path of the file, or URL of the endpoint
	Client *safehttp.Client
	Sent   *sqlstore.Positions // checkpoints that endpoints got
	Logger *slog.Logger

	turn   sync.Mutex // held by an attempt, which may hang after its time
	mu     sync.Mutex // guards failed
	failed bool       // the last Write
}

func isEndpoint(name string) bool { return strings.Contains(name, "://") }

// within runs an attempt for witnessTime at most. It fails if an earlier attempt still hangs.
func (w *Witness) within(ctx context.Context, attempt func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, witnessTime)
	defer cancel()
	if !w.turn.TryLock() {
		return errors.New("an earlier attempt has not ended")
	}
	ended := make(chan error, 1)
	go func() {
		err := attempt(limited)
		w.turn.Unlock() // before the next attempt can begin
		ended <- err
	}()
	select {
	case err := <-ended:
		return err
	case <-limited.Done():
		return cmp.Or(ctx.Err(), fmt.Errorf("it has not answered in %s", witnessTime))
	}
}

// WriteAll gives each witness the checkpoints of the log that it lacks, and calls result, concurrently, with whether it has
// all.
func (l *Ledger) WriteAll(ctx context.Context, result func(witness string, all bool)) {
	var group sync.WaitGroup
	for _, w := range l.Witnesses {
		group.Go(func() { result(w.Name, w.Write(ctx, l)) })
	}
	group.Wait()
}

// Write gives the witness the checkpoints of the log that it lacks, and reports whether it has all. It logs a failure, unless
// the attempt before failed.
func (w *Witness) Write(ctx context.Context, l *Ledger) bool {
	err := w.compare(ctx, l, true)
	if ctx.Err() != nil {
		return err == nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if was := w.failed; err == nil && was {
		w.Logger.Info("a witness has every checkpoint of the ledger again", "witness", w.Name)
	} else if err != nil && !was {
		w.Logger.Warn("a witness lacks checkpoints of the ledger; it is tried again", "error", err)
	}
	w.failed = err != nil
	return err == nil
}

// State returns an error if the witness lacks checkpoints: ErrChanged if it has one that the log lacks, ErrWitness, those of
// the log and the file.
func (w *Witness) State(ctx context.Context, l *Ledger) error { return w.compare(ctx, l, false) }

// compare compares the witness with the log, and may give it what it lacks.
func (w *Witness) compare(ctx context.Context, l *Ledger, give bool) error {
	err := w.within(ctx, func(ctx context.Context) error {
		h, size, rest, err := w.holds(ctx, l)
		for ; err == nil && size < uint64(len(h.leaves)); size++ {
			if !give {
				return fmt.Errorf("it has %d of %d checkpoints; the log of the server says why", size, len(h.leaves))
			}
			var n *proof.Note
			if n, err = storedNote(ctx, l.Log, size+1); err != nil {
				return err
			}
			if l.wrong(&signed{}, n) {
				return fmt.Errorf("%w: the signature of checkpoint %d is wrong", ErrChanged, n.Size)
			}
			if isEndpoint(w.Name) {
				err = w.post(ctx, n)
			} else {
				err, rest = extend(w.Name, n.Text, rest), ""
			}
		}
		return err
	})
	if err != nil {
		err = fmt.Errorf("witness %s: %w", w.Name, err)
	}
	return err
}

// holds returns the checkpoints of the log, how many of them the witness has, and the text with which an interrupted write
// ended its file.
func (w *Witness) holds(ctx context.Context, l *Ledger) (h *history, size uint64, rest string, err error) {
	var notes []*proof.Note
	var sent eventlog.Position
	if isEndpoint(w.Name) {
		sent, _, err = w.Sent.Load(ctx, w.position())
	} else if notes, rest, err = w.read(ctx); errors.Is(err, fs.ErrNotExist) {
		err = nil // the first checkpoint makes it
	}
	if err == nil { // after the witness, which is written after the log
		h, err = readHistory(ctx, l.Log)
	}
	switch {
	case err != nil:
	case len(notes) > 0:
		last := slices.MaxFunc(notes, bySize)
		size, err = last.Size, h.lacks(last)
	default: // an endpoint gets checkpoints again if the log was set back
		size = min(uint64(sent), uint64(len(h.leaves)))
		if size < uint64(sent) {
			err = w.Sent.Reset(ctx, w.position(), eventlog.Position(size))
		}
	}
	return h, size, rest, err
}

func (w *Witness) position() string { return "witness " + w.Name }

func bySize(a, b *proof.Note) int { return cmp.Compare(a.Size, b.Size) }

// lacks returns nil if a checkpoint is in the log, otherwise ErrChanged, or ErrWitness for one of another ledger.
func (h *history) lacks(n *proof.Note) error {
	if h.last != nil && n.Origin != h.origin() {
		return fmt.Errorf("%w: it is of %s, and this is %s; name another file or address", ErrWitness, n.Origin, h.origin())
	}
	if n.Size <= uint64(len(h.leaves)) {
		if root, err := proof.Root(h.leaves[:n.Size]); err != nil || root == n.Root {
			return err
		}
	}
	return fmt.Errorf("%w: the log lacks checkpoint %d, which the witness keeps: events were lost or rewritten, an older copy "+
		"was restored, or this is another ledger, which needs another witness", ErrChanged, n.Size)
}

// extend adds a checkpoint to a file and makes it durable. The rest is its beginning, if an interrupted write ended the file
// with that.
func extend(name, text, rest string) error {
	if !strings.HasPrefix(text, rest) {
		return fmt.Errorf("%w: it ends with another text; name another file", ErrWitness)
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text[len(rest):])
	return cmp.Or(errors.Join(err, f.Sync(), f.Close()), disk.SyncFolder(filepath.Dir(name)))
}

func (w *Witness) post(ctx context.Context, n *proof.Note) error {
	answer, err := w.Client.Post(ctx, w.Name, []byte(n.Text), safehttp.Limits{},
		safehttp.Header{Name: "Content-Type", Value: "text/plain; charset=utf-8"})
	if err == nil && answer.StatusCode/100 != 2 {
		err = fmt.Errorf("it answered %d to checkpoint %d", answer.StatusCode, n.Size)
	}
	if err != nil {
		return err
	}
	return w.Sent.Save(ctx, w.position(), eventlog.Position(n.Size))
}

// read returns the checkpoints that the witness keeps, of its file or as its address answers them, and the text after them.
// Errors: ErrWitness, those of the file and the client.
func (w *Witness) read(ctx context.Context) ([]*proof.Note, string, error) {
	var text []byte
	if isEndpoint(w.Name) {
		if !strings.HasPrefix(w.Name, "https://") {
			return nil, "", fmt.Errorf("%w: its address must begin with https://", ErrWitness)
		}
		answer, err := w.Client.NewSession().Get(ctx, w.Name, safehttp.Limits{Body: maxWitness})
		switch {
		case err != nil:
			return nil, "", err
		case answer.StatusCode != http.StatusOK:
			return nil, "", fmt.Errorf("it answered %d", answer.StatusCode)
		case answer.Truncated, len(answer.Redirects) > 0:
			return nil, "", fmt.Errorf("%w: its answer was cut off, or it redirects, which may hide checkpoints", ErrWitness)
		}
		text = answer.Body
	} else {
		f, err := os.Open(w.Name)
		if err != nil {
			return nil, "", err
		}
		defer f.Close()
		if text, err = io.ReadAll(io.LimitReader(f, maxWitness+1)); err != nil {
			return nil, "", err
		}
	}
	notes, rest, err := proof.ParseNotes(string(text))
	if len(text) > maxWitness {
		err = fmt.Errorf("more than %d bytes", maxWitness)
	}
	if err != nil {
		err = fmt.Errorf("%w: %w; name another file, or an address of the checkpoints and not of a page that shows them", ErrWitness, err)
	}
	return notes, rest, err
}
