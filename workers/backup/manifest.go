package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
)

const (
	// Format is the newest backup format that this release reads. Every format has the layout of format 1, but may
	// contain events of the data format with its number, which an older release must not restore.
	Format = eventschemas.Format

	product      = "letterhead"
	begunName    = "begun.json"
	manifestName = "manifest.json"
	// maxManifestBytes bounds both files. A segment takes about 300 bytes of the manifest.
	maxManifestBytes = 64 << 20
)

// Manifest lists the parts of a backup.
type Manifest struct {
	Format   int       `json:"format"`
	Product  string    `json:"product"`
	Version  string    `json:"version"` // of letterhead, of the last run
	Finished time.Time `json:"finished_at"`
	// Position is P: the backup contains exactly the events of the source up to it.
	Position eventlog.Position `json:"position"`
	Events   uint64            `json:"events"`
	Last     *EventRef         `json:"last,omitempty"` // nil for an empty log
	Segments []SegmentFile     `json:"segments"`
	Names    []NamesFile       `json:"names"`
	Checksum string            `json:"checksum"` // SHA-256 of this object with an empty checksum
}

// SegmentFile describes one segment.
type SegmentFile struct {
	Name     string            `json:"name"`
	SHA256   string            `json:"sha256"` // of the file
	Bytes    int64             `json:"bytes"`
	RawBytes int64             `json:"raw_bytes"` // before compression
	Events   uint64            `json:"events"`
	After    eventlog.Position `json:"after"`
	Through  eventlog.Position `json:"through"`
	Assets   int               `json:"assets"`  // referred to and in the backup
	Missing  int               `json:"missing"` // referred to, but not in the asset store at the time
}

// NamesFile is one file of names.
type NamesFile struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
	Count  uint64 `json:"count"`
}

// RawBytes is the size of all events before compression.
func (m *Manifest) RawBytes() (n int64) {
	for _, s := range m.Segments {
		n += s.RawBytes
	}
	return n
}

// NameCount returns the number of names in the backup.
func (m *Manifest) NameCount() (n uint64) {
	for _, f := range m.Names {
		n += f.Count
	}
	return n
}

// begun is the file that marks a folder as a backup before it has a manifest.
type begun struct {
	Format  int       `json:"format"`
	Product string    `json:"product"`
	Version string    `json:"version"`
	At      time.Time `json:"begun_at"`
}

func (m *Manifest) sum() (string, error) {
	plain := *m
	plain.Checksum = ""
	raw, err := json.Marshal(&plain)
	if err != nil {
		return "", err
	}
	return hexSum(raw), nil
}

func hexSum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// writeManifest finishes a backup: everything that the manifest lists is already durable.
func writeManifest(ctx context.Context, to place, m *Manifest) (err error) {
	if m.Checksum, err = m.sum(); err != nil {
		return fmt.Errorf("write the manifest: %w", err)
	}
	raw, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return fmt.Errorf("write the manifest: %w", err)
	}
	if err := to.flush(ctx); err != nil {
		return err
	}
	if err := to.put(ctx, manifestName, append(raw, '\n')); err != nil {
		return err
	}
	return to.flush(ctx)
}

// readManifest returns the manifest of a finished backup. Errors: ErrNotBackup, ErrUnfinished, ErrNewer, ErrDamaged.
func readManifest(ctx context.Context, from place) (*Manifest, error) {
	raw, err := from.get(ctx, manifestName, maxManifestBytes)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := readBegun(ctx, from); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%s: %w", from, ErrUnfinished)
	}
	if err != nil {
		return nil, fmt.Errorf("open the backup at %s: %w", from, err)
	}
	m, err := decodeManifest(raw)
	if err != nil {
		return nil, fmt.Errorf("open the backup at %s: %w", from, err)
	}
	return m, nil
}

// decodeManifest reads and checks a manifest. Errors: ErrNewer, ErrDamaged, ErrNotBackup.
func decodeManifest(raw []byte) (*Manifest, error) {
	var head begun
	if err := json.Unmarshal(raw, &head); err != nil {
		return nil, fmt.Errorf("%w: the manifest cannot be read: %w", ErrDamaged, err)
	}
	// This check comes first: a newer release may compute its checksum differently.
	if head.Format > Format && head.Product == product {
		return nil, fmt.Errorf("backup of format %d, written by letterhead %s: %w", head.Format, head.Version, ErrNewer)
	}
	var m Manifest
	in := json.NewDecoder(bytes.NewReader(raw))
	in.DisallowUnknownFields()
	if err := in.Decode(&m); err != nil {
		return nil, fmt.Errorf("%w: the manifest cannot be read: %w", ErrDamaged, err)
	}
	sum, err := m.sum()
	if err != nil {
		return nil, err
	}
	if sum != m.Checksum {
		return nil, fmt.Errorf("%w: the manifest's checksum does not match", ErrDamaged)
	}
	if m.Product != product || m.Format < 1 {
		return nil, fmt.Errorf("%w: the manifest belongs to another program", ErrNotBackup)
	}
	return &m, m.check()
}

// check verifies that the parts are consistent.
func (m *Manifest) check() error {
	var events uint64
	var at eventlog.Position
	for i, s := range m.Segments {
		if s.After != at || s.Through <= s.After || s.Name != segmentName(uint64(i+1)) {
			return fmt.Errorf("%w: %s does not follow the previous segment", ErrDamaged, s.Name)
		}
		at = s.Through
		events += s.Events
	}
	if events != m.Events || at != m.Position || (m.Last == nil) != (events == 0) {
		return fmt.Errorf("%w: the manifest's numbers do not add up", ErrDamaged)
	}
	return nil
}

// readBegun checks that a place is a backup. Errors: ErrNotBackup, ErrNewer.
func readBegun(ctx context.Context, from place) (begun, error) {
	var b begun
	raw, err := from.get(ctx, begunName, maxManifestBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return b, fmt.Errorf("%s: %w", from, ErrNotBackup)
	}
	if err != nil {
		return b, fmt.Errorf("open the backup at %s: %w", from, err)
	}
	if err := json.Unmarshal(raw, &b); err != nil || b.Product != product || b.Format < 1 {
		return b, fmt.Errorf("%s: %w: %s was not written by letterhead", from, ErrNotBackup, begunName)
	}
	if b.Format > Format {
		return b, fmt.Errorf("backup of format %d, written by letterhead %s: %w", b.Format, b.Version, ErrNewer)
	}
	return b, nil
}
