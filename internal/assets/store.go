package assets

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"gocloud.dev/blob"
	_ "gocloud.dev/blob/fileblob" // registers file://
	_ "gocloud.dev/blob/s3blob"   // registers s3://
	"gocloud.dev/gcerrors"

	"letterhead/internal/disk"
	"letterhead/internal/telemetry"
)

const (
	// MaxBytes limits one asset. Images are far smaller; a larger one is a mistake.
	MaxBytes = 16 << 20
	// callTimeout limits one request to a bucket if the caller has no earlier deadline. The S3 client would wait
	// forever.
	callTimeout = 15 * time.Second
)

// Errors of a Store. Other errors are the context's.
var (
	// ErrNotFound means that no asset has that id and extension, or that the id is not valid.
	ErrNotFound = errors.New("asset not found")
	// ErrUnavailable means that the storage could not be reached, did not respond before the deadline (then the error
	// is also a context.DeadlineExceeded), or failed, for example because the disk is full. The caller may retry.
	ErrUnavailable = errors.New("asset store is unavailable")
	// ErrInvalid means that the asset is empty, too large, or of a format that is not stored.
	ErrInvalid = errors.New("not a storable asset")
	// ErrDamaged means that the bytes do not match the id.
	ErrDamaged = errors.New("asset is damaged")
)

// Store holds assets. It is safe for concurrent use, and by several processes.
type Store struct {
	bucket   *blob.Bucket
	folder   string // of a file:// store, otherwise empty
	stat     func(folder string) (fs.FileInfo, error)
	failures *prometheus.CounterVec

	probing sync.Mutex
	probed  *probe // the running probe, if any
}

// Open opens the store at a URL, such as file:///var/lib/letterhead/assets or s3://bucket?region=eu-central-1. It
// creates a missing folder. It does not create or contact a bucket. The package comment describes the URL of a bucket.
func Open(ctx context.Context, storeURL string) (*Store, error) {
	u, err := url.Parse(storeURL)
	if err != nil {
		if parse, ok := errors.AsType[*url.Error](err); ok {
			err = parse.Err // without the URL, which may contain a password
		}
		return nil, fmt.Errorf("open assets: parse the URL: %w", err)
	}
	s := &Store{stat: os.Stat, failures: telemetry.Counters("letterhead_assets_failures_total",
		"Failed calls of the asset store.", "call")}
	switch u.Scheme {
	case "file":
		if s.folder, err = folderOf(u); err != nil {
			return nil, fmt.Errorf("open assets: %w", err)
		}
		// Write no metadata files. Put temporary files in the store's folder, because the system's temporary
		// folder may be on another device.
		q := u.Query()
		q.Set("metadata", "skip")
		q.Set("no_tmp_dir", "true")
		q.Set("create_dir", "true")
		u.RawQuery = q.Encode()
	case "s3":
		if err := PrepareS3(u); err != nil {
			return nil, fmt.Errorf("open assets: %w", err)
		}
	}
	if s.bucket, err = blob.OpenBucket(ctx, u.String()); err != nil {
		return nil, fmt.Errorf("open assets at %s: %w: %w", u.Redacted(), ErrUnavailable, err)
	}
	return s, nil
}

// folderOf parses a file URL as the bucket's driver does.
func folderOf(u *url.URL) (string, error) {
	path := u.Path
	if u.Host == "." || os.PathSeparator != '/' {
		path = strings.TrimPrefix(path, "/")
	}
	if path == "" {
		return "", errors.New("the file URL names no folder")
	}
	return filepath.Abs(filepath.FromSlash(path))
}

// Register registers the store's metrics; reg may be nil.
func (s *Store) Register(reg prometheus.Registerer) error {
	if err := telemetry.Register(reg, s.failures); err != nil {
		return fmt.Errorf("register metrics of the asset store: %w", err)
	}
	return nil
}

// probe is a running check of the storage, shared by all callers.
type probe struct {
	asked time.Time
	done  chan struct{} // closed when err is set
	err   error
}

// Reachable returns nil if the bucket or the folder is accessible. A network folder may hang regardless of the context,
// so at most one check runs at a time, and concurrent calls wait for the same check. Errors: ErrUnavailable, ctx.Err().
func (s *Store) Reachable(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	p := s.probe(ctx)
	select {
	case <-p.done:
		if p.err == nil {
			return nil
		}
		return s.failed(ctx, "reach", "the storage", p.err)
	case <-ctx.Done():
		return s.failed(ctx, "reach", fmt.Sprintf("the storage, which has not answered a check started %v ago",
			time.Since(p.asked).Round(time.Second)), ctx.Err())
	}
}

// probe returns the running check, or starts one. It continues if the caller that started it leaves.
func (s *Store) probe(ctx context.Context) *probe {
	s.probing.Lock()
	defer s.probing.Unlock()
	if s.probed != nil {
		return s.probed
	}
	p := &probe{asked: time.Now(), done: make(chan struct{})}
	s.probed = p
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	go func() {
		defer cancel()
		p.err = s.reach(ctx)
		s.probing.Lock()
		defer s.probing.Unlock()
		s.probed = nil
		close(p.done)
	}()
	return p
}

// Close closes the store.
func (s *Store) Close() error { return s.bucket.Close() }

// Put stores data durably and returns its id. An existing asset is left unchanged. Errors: ErrInvalid, ErrUnavailable.
func (s *Store) Put(ctx context.Context, data []byte, ext string) (string, error) {
	contentType, known := ContentType(ext)
	if !known || len(data) == 0 || len(data) > MaxBytes {
		return "", fmt.Errorf("put asset of %d bytes as %q: %w", len(data), ext, ErrInvalid)
	}
	sum := sha256.Sum256(data)
	id := hex.EncodeToString(sum[:])
	k, _ := key(id, ext)
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	// A file of another size is the rest of an interrupted write, after a power failure.
	if a, err := s.bucket.Attributes(call, k); err == nil && a.Size == int64(len(data)) {
		return id, nil
	}
	// Concurrent writers of the same bytes write identical objects, so their order does not matter.
	if err := s.bucket.Upload(call, k, bytes.NewReader(data),
		&blob.WriterOptions{ContentType: contentType}); err != nil {
		return "", s.failed(call, "put", "asset "+k, err)
	}
	if err := s.sync(k); err != nil {
		return "", fmt.Errorf("put asset %s: %w: %w", k, ErrUnavailable, err)
	}
	return id, nil
}

// sync makes a new file of a file:// store durable: its content and the entries in all folders above it.
func (s *Store) sync(k string) error {
	if s.folder == "" {
		return nil
	}
	path := filepath.Join(s.folder, filepath.FromSlash(k))
	f, err := os.OpenFile(path, os.O_RDWR, 0) // Windows flushes only files opened for writing
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	for path != s.folder {
		path = filepath.Dir(path)
		if err := disk.SyncFolder(path); err != nil {
			return err
		}
	}
	return nil
}

// Reader reads one asset. The caller must close it.
type Reader struct {
	io.ReadCloser
	Size        int64 // bytes
	ContentType string
}

// Open opens an asset. The reader is valid until ctx ends. Errors: ErrNotFound (also for a malformed id, or an
// extension that differs from the stored one), ErrUnavailable.
func (s *Store) Open(ctx context.Context, id, ext string) (*Reader, error) {
	k, ok := key(id, ext)
	if !ok {
		return nil, fmt.Errorf("open asset: %w", ErrNotFound)
	}
	if err := ctx.Err(); err != nil { // the driver for folders ignores it
		return nil, fmt.Errorf("open asset %s: %w", k, err)
	}
	// The response must start within callTimeout. The caller limits the time for the body.
	call, cancel := context.WithCancelCause(ctx)
	late := time.AfterFunc(callTimeout, func() { cancel(context.DeadlineExceeded) })
	r, err := s.bucket.NewReader(call, k, nil)
	late.Stop()
	if err != nil {
		err = s.failed(call, "open", "asset "+k, err)
		cancel(nil)
		return nil, err
	}
	contentType, _ := ContentType(ext)
	return &Reader{ReadCloser: body{r, cancel}, Size: r.Size(), ContentType: contentType}, nil
}

// body reads an asset's bytes; closing it ends the request.
type body struct {
	*blob.Reader
	end context.CancelCauseFunc
}

func (b body) Close() error {
	defer b.end(nil)
	return b.Reader.Close()
}

// Read returns a whole asset. Errors: as Open.
func (s *Store) Read(ctx context.Context, id, ext string) ([]byte, error) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	r, err := s.Open(call, id, ext)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if r.Size > MaxBytes {
		return nil, fmt.Errorf("read asset %s of %d bytes: %w", id, r.Size, ErrDamaged)
	}
	data := make([]byte, r.Size)
	if _, err := io.ReadFull(r, data); err != nil {
		return nil, s.failed(call, "read", "asset "+id, err)
	}
	return data, nil
}

// Has reports whether an asset exists. Errors: ErrUnavailable.
func (s *Store) Has(ctx context.Context, id, ext string) (bool, error) {
	k, ok := key(id, ext)
	if !ok {
		return false, nil
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := call.Err(); err != nil { // the driver for folders ignores it
		return false, s.failed(call, "find", "asset "+k, err)
	}
	there, err := s.bucket.Exists(call, k)
	if err != nil {
		return false, s.failed(call, "find", "asset "+k, err)
	}
	if !there && !s.present(call, nil) {
		return false, s.failed(call, "find", "asset "+k,
			errors.New("the storage did not respond, or it does not exist"))
	}
	return there, nil
}

// Verify checks that data matches an id. Errors: ErrDamaged.
func Verify(id string, data []byte) error {
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != id {
		return fmt.Errorf("asset %s of %d bytes: %w", id, len(data), ErrDamaged)
	}
	return nil
}

// failed converts an error of the bucket to an error of this package.
func (s *Store) failed(ctx context.Context, call, what string, err error) error {
	what = call + " " + what
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, context.DeadlineExceeded):
		s.failures.WithLabelValues(call).Inc()
		return fmt.Errorf("%s: %w: %w", what, ErrUnavailable, cause)
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", what, ctx.Err())
	case gcerrors.Code(err) == gcerrors.NotFound && s.present(ctx, err):
		return fmt.Errorf("%s: %w", what, ErrNotFound)
	}
	s.failures.WithLabelValues(call).Inc()
	var answer interface{ HTTPStatusCode() int }
	if errors.As(err, &answer) && slices.Contains([]int{http.StatusUnauthorized, http.StatusForbidden},
		answer.HTTPStatusCode()) {
		err = fmt.Errorf("the bucket refuses the credentials, or does not allow them this call: correct AWS_ACCESS_KEY_ID "+
			"and AWS_SECRET_ACCESS_KEY (or the profile), the bucket in LETTERHEAD_ASSETS, or its permissions: %w", err)
	}
	return fmt.Errorf("%s: %w: %w", what, ErrUnavailable, err)
}

// present reports whether the store exists, after an asset was not found. Behind an unmounted volume or a
// missing bucket the asset may exist. err is the error of the bucket, or nil.
func (s *Store) present(ctx context.Context, err error) bool {
	var coded interface{ ErrorCode() string }
	if errors.As(err, &coded) {
		switch coded.ErrorCode() {
		case "NoSuchBucket":
			return false
		case "NoSuchKey":
			return true
		}
	}
	return s.reach(ctx) == nil // the response to HEAD has no body with details
}

// reach returns why the store cannot be used; nil if it can.
func (s *Store) reach(ctx context.Context) error {
	if s.folder != "" {
		info, err := s.stat(s.folder)
		if err == nil && !info.IsDir() {
			err = errors.New("it is no folder")
		}
		return err
	}
	there, err := s.bucket.IsAccessible(ctx)
	if err == nil && !there {
		err = errors.New("it does not exist: correct LETTERHEAD_ASSETS")
	}
	return err
}

// Object is an asset in a listing.
type Object struct {
	ID, Ext  string
	Size     int64 // bytes
	StoredAt time.Time
}

// List iterates over all assets in the order of their ids. It ends with the first error:
// ErrUnavailable or the context's. Assets put in the meantime may or may not be included.
func (s *Store) List(ctx context.Context) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		for o, err := range s.objects(ctx) {
			if err != nil {
				yield(Object{}, err)
				return
			}
			if asset, ok := parseKey(o.Key); ok {
				asset.Size, asset.StoredAt = o.Size, o.ModTime
				if !yield(asset, nil) {
					return
				}
			}
		}
	}
}

// RemoveStranded deletes temporary files that are older than before, which killed processes left behind, and
// returns their number. A bucket has none, because uploads are atomic. Errors: as List.
func (s *Store) RemoveStranded(ctx context.Context, before time.Time) (int, error) {
	if s.folder == "" {
		return 0, nil
	}
	removed := 0
	for o, err := range s.objects(ctx) {
		if err != nil {
			return removed, err
		}
		if !strings.HasSuffix(o.Key, ".tmp") || !o.ModTime.Before(before) {
			continue
		}
		if err := s.bucket.Delete(ctx, o.Key); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
			return removed, s.failed(ctx, "delete", o.Key, err)
		}
		removed++
	}
	return removed, nil
}

// objects lists all objects. In a folder it lists each of the 256 top-level folders separately, because the
// driver walks all files with the prefix again for each page of 1,000.
func (s *Store) objects(ctx context.Context) iter.Seq2[*blob.ListObject, error] {
	return func(yield func(*blob.ListObject, error) bool) {
		if s.folder == "" {
			s.below(ctx, "", yield)
			return
		}
		if !s.present(ctx, nil) {
			yield(nil, fmt.Errorf("list assets: %w", ErrUnavailable))
			return
		}
		for first := range 256 {
			if !s.below(ctx, fmt.Sprintf("%02x/", first), yield) {
				return
			}
		}
	}
}

// below lists the objects with a prefix, and reports whether to continue.
func (s *Store) below(ctx context.Context, prefix string, yield func(*blob.ListObject, error) bool) bool {
	list := s.bucket.List(&blob.ListOptions{Prefix: prefix})
	next := func() (*blob.ListObject, error) {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		o, err := list.Next(call)
		if err != nil && err != io.EOF {
			return nil, s.failed(call, "list", "assets", err)
		}
		return o, err
	}
	for {
		if err := ctx.Err(); err != nil {
			yield(nil, s.failed(ctx, "list", "assets", err))
			return false
		}
		o, err := next()
		if err == io.EOF {
			return true
		}
		if err != nil {
			yield(nil, err)
			return false
		}
		if !yield(o, nil) {
			return false
		}
	}
}

// parseKey is the inverse of key.
func parseKey(k string) (Object, bool) {
	name := k[strings.LastIndexByte(k, '/')+1:]
	id, ext, _ := strings.Cut(name, ".")
	if want, ok := key(id, ext); !ok || want != k {
		return Object{}, false
	}
	return Object{ID: id, Ext: ext}, true
}

// contentTypes lists the formats that can be stored, with their media types. The extension of an asset
// is the format's name in a record.
var contentTypes = map[string]string{
	"svg":  "image/svg+xml",
	"png":  "image/png",
	"webp": "image/webp",
	"jpeg": "image/jpeg",
}

// ContentType returns the media type of an extension, and reports whether assets may have that extension.
func ContentType(ext string) (string, bool) {
	t, ok := contentTypes[ext]
	return t, ok
}

const idBytes = 64 // SHA-256 in hex

// ValidID reports whether id has the form of an asset id.
func ValidID(id string) bool {
	if len(id) != idBytes {
		return false
	}
	for i := range len(id) {
		if c := id[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// key returns the key of an asset, or false if id or ext is not valid. The bucket only sees keys from this
// function, so a caller cannot inject a path.
func key(id, ext string) (string, bool) {
	if _, known := contentTypes[ext]; !known || !ValidID(id) {
		return "", false
	}
	return id[:2] + "/" + id[2:4] + "/" + id + "." + ext, true
}
