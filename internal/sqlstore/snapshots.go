package sqlstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/klauspost/compress/zstd"
)

const (
	// MaxSnapshotBytes limits one state before compression. The reader holds it in memory twice.
	MaxSnapshotBytes = 256 << 20
	// snapshotPart is the number of bytes of a compressed state in one row, far below the limits of either engine.
	snapshotPart = 4 << 20
	// maxSnapshotParts limits the rows of one snapshot. Compression adds less than a part to a state.
	maxSnapshotParts = MaxSnapshotBytes/snapshotPart + 1
	// pruneBatch is the number of snapshots that one transaction of Prune deletes, so that others can write in between.
	pruneBatch = 200
	// eachPage is the number of rows that Each reads at a time.
	eachPage = 1000
)

var (
	// ErrSnapshotTooLarge: the state is larger than MaxSnapshotBytes; nothing was stored.
	ErrSnapshotTooLarge = errors.New("snapshot is too large")
	// ErrSnapshotDamaged: the stored snapshot differs from the one that was saved. Discard it and fold the stream.
	ErrSnapshotDamaged = errors.New("snapshot is damaged")
)

const createSnapshots = `
CREATE TABLE IF NOT EXISTS stream_snapshots (
	stream       TEXT   NOT NULL,
	fold_version BIGINT NOT NULL,
	part         BIGINT NOT NULL,
	parts        BIGINT NOT NULL,
	revision     BIGINT NOT NULL,
	written_by   TEXT   NOT NULL,
	checksum     BYTEA  NOT NULL,
	state        BYTEA  NOT NULL,
	PRIMARY KEY (stream, fold_version, part)
)`

// The first part decides: an older revision must not overwrite a newer one of the same fold version, because two nodes,
// or a slow goroutine, may save out of order. It also serializes two that save the same snapshot.
const saveFirstPart = saveFurtherPart + `
ON CONFLICT (stream, fold_version, part) DO UPDATE SET
	parts = excluded.parts, revision = excluded.revision, written_by = excluded.written_by,
	checksum = excluded.checksum, state = excluded.state
WHERE stream_snapshots.revision < excluded.revision`

const deleteFurtherParts = `DELETE FROM stream_snapshots WHERE stream = $1 AND fold_version = $2 AND part > 0`

const saveFurtherPart = `
INSERT INTO stream_snapshots (stream, fold_version, part, parts, revision, written_by, checksum, state)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`

const loadParts = `
SELECT part, parts, revision, written_by, checksum, state FROM stream_snapshots
WHERE stream = $1 AND fold_version = $2 ORDER BY part LIMIT $3`

const discardSnapshot = `DELETE FROM stream_snapshots WHERE stream = $1 AND fold_version = $2`

const listSnapshots = `
SELECT stream, fold_version, revision FROM stream_snapshots
WHERE part = 0 AND (stream > $1 OR stream = $1 AND fold_version > $2)
ORDER BY stream, fold_version LIMIT $3`

const listOutdated = `
SELECT stream, fold_version FROM stream_snapshots
WHERE part = 0 AND stream >= $1 AND stream < $2 AND fold_version < $3
ORDER BY stream, fold_version LIMIT $4`

// Snapshots stores folded states of streams, so that a long stream need not be read from its beginning. They are
// disposable: without one, the stream is folded. There is one per stream and fold version, with a checksum and the
// release that wrote it, so that two releases that fold differently have one each.
type Snapshots struct {
	store   *Store
	release string
	pack    *zstd.Encoder
	unpack  *zstd.Decoder
}

// NewSnapshots creates the table if it is missing. Snapshots record Config.Release of the store.
func NewSnapshots(ctx context.Context, store *Store) (*Snapshots, error) {
	if err := store.Create(ctx, createSnapshots); err != nil {
		return nil, fmt.Errorf("create table of snapshots: %w", err)
	}
	s := &Snapshots{store: store, release: store.cfg.Release}
	var err error
	// The checksum of the snapshot makes zstd's checksums superfluous.
	s.pack, err = zstd.NewWriter(nil, zstd.WithEncoderCRC(false), zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, fmt.Errorf("open snapshots: %w", err)
	}
	s.unpack, err = zstd.NewReader(nil, zstd.WithDecoderMaxMemory(MaxSnapshotBytes), zstd.WithDecoderConcurrency(1),
		zstd.IgnoreChecksum(true))
	return s, Wrap(err, "open snapshots")
}

// Load returns the state of a stream after the event with the returned revision, if this fold version saved one.
// Errors:
// ErrSnapshotDamaged, ErrUnavailable, ErrCorrupt, ctx.Err().
func (s *Snapshots) Load(ctx context.Context, stream string,
	foldVersion int) (revision uint64, state []byte, found bool, err error) {
	stored, err := AllRows(ctx, s.store.Read(), loadParts, func(p *storedPart, row Scanner) error {
		return row.Scan(&p.part, &p.parts, &p.revision, &p.writtenBy, &p.checksum, &p.state)
	}, stream, foldVersion, maxSnapshotParts+1)
	if err != nil {
		return 0, nil, false, fmt.Errorf("load snapshot of %s: %w", stream, s.store.classify(err))
	}
	if len(stored) == 0 {
		return 0, nil, false, nil
	}
	packed, err := joinParts(stream, foldVersion, stored)
	if err != nil {
		return 0, nil, false, fmt.Errorf("load snapshot of %s, fold version %d, written by release %q: %w",
			stream, foldVersion, stored[0].writtenBy, err)
	}
	if state, err = s.unpack.DecodeAll(packed, []byte{}); err != nil {
		return 0, nil, false, fmt.Errorf("load snapshot of %s, fold version %d: %w: %w", stream, foldVersion,
			ErrSnapshotDamaged, err)
	}
	return uint64(stored[0].revision), state, true, nil
}

// storedPart is one row.
type storedPart struct {
	part, parts, revision int64
	writtenBy             string
	checksum, state       []byte
}

// joinParts returns the compressed state of a snapshot's rows. Errors: ErrSnapshotDamaged.
func joinParts(stream string, foldVersion int, stored []storedPart) ([]byte, error) {
	first := stored[0]
	if first.parts != int64(len(stored)) {
		return nil, fmt.Errorf("%w: it has %d parts, want %d", ErrSnapshotDamaged, len(stored), first.parts)
	}
	packed := first.state
	for i, p := range stored[1:] {
		if p.part != int64(i+1) {
			return nil, fmt.Errorf("%w: part %d is missing", ErrSnapshotDamaged, i+1)
		}
		packed = append(packed, p.state...)
	}
	sum := snapshotChecksum(stream, foldVersion, first.revision, first.writtenBy, packed)
	if !bytes.Equal(sum, first.checksum) {
		return nil, fmt.Errorf("%w: the checksum does not match the content", ErrSnapshotDamaged)
	}
	return packed, nil
}

// snapshotChecksum covers all fields of a snapshot, texts with their lengths.
func snapshotChecksum(stream string, foldVersion int, revision int64, writtenBy string, packed []byte) []byte {
	h := sha256.New()
	head := binary.BigEndian.AppendUint32(nil, uint32(len(stream)))
	head = append(head, stream...)
	head = binary.BigEndian.AppendUint64(head, uint64(foldVersion))
	head = binary.BigEndian.AppendUint64(head, uint64(revision))
	head = binary.BigEndian.AppendUint32(head, uint32(len(writtenBy)))
	head = append(head, writtenBy...)
	h.Write(head)
	h.Write(packed)
	return h.Sum(nil)
}

// Save stores the state of a stream after the event with that revision, unless a newer state of the same fold version
// is stored. Errors: ErrSnapshotTooLarge, ErrLogReplaced, ErrUnavailable, ErrClosed, ctx.Err().
func (s *Snapshots) Save(ctx context.Context, stream string, foldVersion int, revision uint64, state []byte) error {
	if len(state) > MaxSnapshotBytes {
		return fmt.Errorf("save snapshot of %s with %d bytes: %w", stream, len(state), ErrSnapshotTooLarge)
	}
	packed := s.pack.EncodeAll(state, []byte{})
	sum := snapshotChecksum(stream, foldVersion, int64(revision), s.release, packed)
	parts := max(1, (len(packed)+snapshotPart-1)/snapshotPart)
	part := func(i int) []byte { return packed[i*snapshotPart : min((i+1)*snapshotPart, len(packed))] }
	err := s.store.Write(ctx, func(tx *Tx) error {
		if err := tx.CheckLogID(ctx); err != nil {
			return err
		}
		result, err := tx.ExecContext(ctx, saveFirstPart, stream, foldVersion, 0, parts, int64(revision), s.release,
			sum, part(0))
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n == 0 {
			return err // nil if a newer one is stored
		}
		if _, err := tx.ExecContext(ctx, deleteFurtherParts, stream, foldVersion); err != nil {
			return err
		}
		for i := 1; i < parts; i++ {
			if _, err := tx.ExecContext(ctx, saveFurtherPart, stream, foldVersion, i, parts, int64(revision), s.release,
				[]byte{}, part(i)); err != nil {
				return err
			}
		}
		return nil
	})
	return Wrap(err, "save snapshot of %s", stream)
}

// Discard deletes the snapshot of a stream and fold version, so that an earlier revision can be saved again.
// Errors: ErrUnavailable, ErrClosed, ctx.Err().
func (s *Snapshots) Discard(ctx context.Context, stream string, foldVersion int) error {
	err := s.store.Write(ctx, func(tx *Tx) error {
		_, err := tx.ExecContext(ctx, discardSnapshot, stream, foldVersion)
		return err
	})
	return Wrap(err, "discard snapshot of %s", stream)
}

// Each calls f for every snapshot, by stream and fold version, with the revision in its row; only Load checks whether
// the snapshot is intact. Errors: ErrUnavailable, ErrCorrupt, ctx.Err(), and the errors of f.
func (s *Snapshots) Each(ctx context.Context, f func(stream string, foldVersion int, revision uint64) error) error {
	type entry struct {
		stream                string
		foldVersion, revision int64
	}
	after := entry{foldVersion: -1}
	for {
		page, err := AllRows(ctx, s.store.Read(), listSnapshots, func(e *entry, row Scanner) error {
			return row.Scan(&e.stream, &e.foldVersion, &e.revision)
		}, after.stream, after.foldVersion, eachPage)
		if err != nil {
			return fmt.Errorf("list snapshots: %w", s.store.classify(err))
		}
		for _, e := range page {
			if err := f(e.stream, int(e.foldVersion), uint64(e.revision)); err != nil {
				return err
			}
		}
		if len(page) < eachPage {
			return nil
		}
		after = page[len(page)-1]
	}
}

// Prune deletes snapshots of streams with a prefix whose fold version is below oldest, because no release that may
// still run reads them. It returns their number. Errors: ErrUnavailable, ErrClosed, ctx.Err().
func (s *Snapshots) Prune(ctx context.Context, streamPrefix string, oldest int) (pruned int, err error) {
	for {
		keys, err := AllRows(ctx, s.store.Read(), listOutdated, func(k *snapshotKey, row Scanner) error {
			return row.Scan(&k.stream, &k.foldVersion)
		}, streamPrefix, prefixEnd(streamPrefix), oldest, pruneBatch)
		if err != nil || len(keys) == 0 {
			return pruned, Wrap(s.store.classify(err), "prune snapshots of %s*", streamPrefix)
		}
		err = s.store.Write(ctx, func(tx *Tx) error {
			for _, k := range keys {
				if _, err := tx.ExecContext(ctx, discardSnapshot, k.stream, k.foldVersion); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return pruned, fmt.Errorf("prune snapshots of %s*: %w", streamPrefix, err)
		}
		pruned += len(keys)
	}
}

type snapshotKey struct {
	stream      string
	foldVersion int64
}

// prefixEnd returns the first text after all texts with an ASCII prefix.
func prefixEnd(prefix string) string {
	if prefix == "" {
		return strings.Repeat("\U0010FFFF", 4)
	}
	return prefix[:len(prefix)-1] + string(rune(prefix[len(prefix)-1]+1))
}
