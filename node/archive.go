package node

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/klauspost/compress/zstd"

	"letterhead/internal/disk"
	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/operations"
	"letterhead/workers/backup"
	"letterhead/workers/loss"
	"letterhead/workers/relay"
)

// archivedLog is the new log in the data folder while it is written.
const archivedLog = "events.archive.db"

// Archived is the result of Archive.
type Archived struct {
	ArchivedFailures
	Kept string      `json:"kept,omitempty"` // the log as it was before
	Rest backup.Rest `json:"rest"`
}

// OldFailures returns the streams of domains that never were brands and whose last crawl failed before a time in the
// past, which a flag gave.
func (s *Stores) OldFailures(ctx context.Context, cfg backup.Config, flag string,
	before time.Time) (*backup.Failures, error) {
	if now := s.clock.Now(); before.After(now) {
		return nil, operations.UsageError{Err: fmt.Errorf("%s is %s, which is in the future: it is %s", flag,
			before.Format(time.RFC3339), now.UTC().Format(time.RFC3339))}
	}
	return backup.FindFailures(ctx, cfg, s.Log, before)
}

// Archive writes failures to a file and takes them out of the log: the other events are copied into a new log, which
// takes the place of the old one. Nothing else may use the folder.
func (s *Stores) Archive(ctx context.Context, failures *backup.Failures, file string) (out Archived, err error) {
	out.Streams, out.Events = failures.Streams, failures.Events
	if out.File, err = filepath.Abs(file); err != nil {
		return out, err
	}
	if out.SHA256, err = writeArchive(ctx, out.File, failures); err != nil {
		return out, err
	}
	if out.Rest, err = s.copyRest(ctx, failures); err != nil {
		return out, err
	}
	out.Kept, err = s.replaceLog(ctx, out.Rest.Readers)
	return out, err
}

// CheckRoomForCopy fails when a second copy of the log would use up the file system.
func (s *Stores) CheckRoomForCopy() error {
	info, err := os.Stat(s.config.EventsPath())
	if err != nil {
		return err
	}
	space, err := disk.At(s.config.Data)
	if err != nil {
		return err
	}
	if need := info.Size() + space.Reserve(); space.Free < need {
		return fmt.Errorf("the new log may need %d MiB in addition to the old one and %d MiB stay in reserve, but only %d MiB are free in %s; nothing was changed",
			info.Size()>>20, space.Reserve()>>20, space.Free>>20, s.config.Data)
	}
	return nil
}

// writeArchive writes the failures to a file and returns its SHA-256. The file is either complete and durable or does
// not exist. The output is deterministic, so the file of an interrupted run is used again; any other file is rejected.
func writeArchive(ctx context.Context, name string, failures *backup.Failures) (sum string, err error) {
	err = disk.WriteFile(name, func(w io.Writer) error {
		hash := sha256.New()
		if err := encodeArchive(ctx, io.MultiWriter(w, hash), failures); err != nil {
			return err
		}
		sum = hex.EncodeToString(hash.Sum(nil))
		held, err := fileSum(name)
		switch {
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return err
		case err == nil && held != sum:
			return errors.New("the file exists with different content; choose another name")
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("write the archive %s: %w", name, err)
	}
	return sum, nil
}

// encodeArchive writes each event as a line, compressed. One goroutine compresses, so that the bytes are always the
// same.
func encodeArchive(ctx context.Context, w io.Writer, failures *backup.Failures) error {
	compressed, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(true))
	if err != nil {
		return err
	}
	buffered := bufio.NewWriterSize(compressed, 1<<20)
	lines := json.NewEncoder(buffered)
	lines.SetEscapeHTML(false)
	err = failures.Each(ctx, func(r *eventlog.Recorded) error { return lines.Encode(ToJSON(*r)) })
	return errors.Join(err, buffered.Flush(), compressed.Close())
}

func fileSum(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// copyRest writes the new log next to the old one and closes it.
func (s *Stores) copyRest(ctx context.Context, failures *backup.Failures) (rest backup.Rest, err error) {
	path := filepath.Join(s.config.Data, archivedLog)
	if err := sqlite.Remove(path); err != nil { // of an interrupted run
		return rest, err
	}
	to, err := sqlite.Open(ctx, sqlite.Config{Path: path, Logger: s.logger})
	if err != nil {
		return rest, err
	}
	checkpoints, err := s.crawlCheckpoints(ctx)
	if err == nil {
		rest, err = failures.CopyRest(ctx, to, checkpoints)
	}
	if err = errors.Join(err, to.Close()); err != nil {
		err = errors.Join(err, sqlite.Remove(path))
	}
	return rest, err
}

// crawlCheckpoints returns the relay's checkpoints of the crawl topics. Crawls that were requested after them are
// pending.
func (s *Stores) crawlCheckpoints(ctx context.Context) (map[string]eventlog.Position, error) {
	checkpoints := map[string]eventlog.Position{}
	for _, name := range CrawlCheckpoints() {
		at, found, err := s.Positions.Load(ctx, name)
		if err != nil {
			return nil, err
		}
		if found {
			checkpoints[name] = at
		}
	}
	return checkpoints, nil
}

// replaceLog replaces the log and returns the name under which the old one is kept. It first discards what
// depends on positions, except for the positions in the new log, so that a start accepts either log.
func (s *Stores) replaceLog(ctx context.Context, checkpoints map[string]eventlog.Position) (kept string, err error) {
	if err := s.forgetSearch(ctx); err != nil { // which reads the log
		return "", err
	}
	if err := s.Log.Close(); err != nil {
		return "", err
	}
	if err := loss.Renew(ctx, s.Database, checkpoints); err != nil {
		return "", err
	}
	suffix := ".archived-" + s.clock.Now().UTC().Format("20060102T150405.000Z")
	path := s.config.EventsPath()
	return path + suffix, sqlite.Replace(path, filepath.Join(s.config.Data, archivedLog), suffix)
}

// EventJSON is an event as `events tail --json` prints it.
type EventJSON struct {
	Position      eventlog.Position `json:"position"`
	Stream        string            `json:"stream"`
	Revision      uint64            `json:"revision"`
	ID            string            `json:"id"`
	Type          string            `json:"type"`
	SchemaVersion int               `json:"schema_version"`
	OccurredAt    time.Time         `json:"occurred_at"`
	Metadata      eventlog.Metadata `json:"metadata"`
	Data          json.RawMessage   `json:"data"`
}

// ToJSON returns an event as commands print it.
func ToJSON(r eventlog.Recorded) EventJSON {
	return EventJSON{
		Position: r.Position, Stream: r.Stream, Revision: r.Revision, ID: r.ID.String(), Type: r.Type,
		SchemaVersion: r.SchemaVersion, OccurredAt: r.OccurredAt, Metadata: r.Metadata, Data: r.Data,
	}
}

// CrawlCheckpoints returns the names of the positions before which all crawl work is done. The relay starts its other
// topics from the beginning, so that their consumers get every event, with the same event ids as before.
func CrawlCheckpoints() []string {
	var names []string
	for _, topic := range relay.CrawlTopics() {
		names = append(names, topic.Checkpoint())
	}
	return names
}
