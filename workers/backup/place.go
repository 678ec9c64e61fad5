package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"gocloud.dev/blob"
	_ "gocloud.dev/blob/s3blob" // registers s3://
	"gocloud.dev/gcerrors"

	"letterhead/internal/assets"
	"letterhead/internal/disk"
)

// place is the storage of a backup. Names look like assets/ab/cd/x.png. Objects are written atomically.
type place interface {
	// lock prevents other processes from writing, until close. Errors: ErrBusy.
	lock() error
	// put writes an object, replacing an existing one. It is durable after flush.
	put(ctx context.Context, name string, data []byte) error
	flush(ctx context.Context) error
	// get returns an object of at most limit bytes. Errors: fs.ErrNotExist.
	get(ctx context.Context, name string, limit int64) ([]byte, error)
	has(ctx context.Context, name string) (bool, error)
	// list returns the names directly below a prefix that ends in / or is empty.
	list(ctx context.Context, prefix string) ([]string, error)
	// remove deletes an object; a missing one is not an error.
	remove(ctx context.Context, name string) error
	close() error
	String() string // without secrets
}

// openPlace opens a folder, or a bucket if the name is a URL. With create it creates a missing folder.
func openPlace(ctx context.Context, at string, create bool) (place, error) {
	if scheme, _, isURL := strings.Cut(at, "://"); isURL && scheme != "file" {
		return openBucket(ctx, at)
	}
	path := strings.TrimPrefix(at, "file://")
	if path == "" {
		return nil, errors.New("the name of the backup's folder is empty")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open the backup: %w", err)
	}
	if create {
		if err := os.MkdirAll(path, 0o700); err != nil {
			return nil, fmt.Errorf("make the folder of the backup: %w", err)
		}
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s: %w: there is no such folder", path, ErrNotBackup)
	case err != nil:
		return nil, fmt.Errorf("open the backup: %w", err)
	case !info.IsDir():
		return nil, fmt.Errorf("%s: %w: it is a file", path, ErrNotBackup)
	}
	return &folder{path: path, dirty: map[string]struct{}{}}, nil
}

const (
	lockName = "lock"
	// halfName is the folder of incomplete files, which are moved when they are complete.
	halfName = "half"
)

// folder is the place of a backup on a disk. It contains names and hashes of keys, so only its owner may read it.
type folder struct {
	path  string
	flock *flock.Flock

	mu    sync.Mutex
	dirty map[string]struct{} // folders whose entries are not durable yet
}

func (f *folder) String() string { return f.path }

func (f *folder) lock() error {
	f.flock = flock.New(filepath.Join(f.path, lockName), flock.SetPermissions(0o600))
	ok, err := f.flock.TryLock()
	if err != nil {
		return fmt.Errorf("lock %s: %w", f.path, err)
	}
	if !ok {
		return fmt.Errorf("%s: %w", f.path, ErrBusy)
	}
	// Incomplete files of a killed process.
	if err := os.RemoveAll(filepath.Join(f.path, halfName)); err != nil {
		return fmt.Errorf("tidy up %s: %w", f.path, err)
	}
	return os.Mkdir(filepath.Join(f.path, halfName), 0o700)
}

func (f *folder) put(ctx context.Context, name string, data []byte) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	to := filepath.Join(f.path, filepath.FromSlash(name))
	if err := f.makeParents(filepath.Dir(to)); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	half, err := os.CreateTemp(filepath.Join(f.path, halfName), "*") // mode 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	_, err = half.Write(data)
	err = errors.Join(err, half.Sync(), half.Close())
	if err == nil {
		err = os.Rename(half.Name(), to)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", name, err), os.Remove(half.Name()))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dirty[filepath.Dir(to)] = struct{}{}
	return nil
}

// makeParents creates the parent folders, and records those that got a new entry.
func (f *folder) makeParents(dir string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var missing []string
	for at := dir; at != f.path; at = filepath.Dir(at) {
		if _, err := os.Stat(at); err == nil {
			break
		}
		missing = append(missing, at)
	}
	for _, m := range slices.Backward(missing) {
		if err := os.Mkdir(m, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		f.dirty[filepath.Dir(m)] = struct{}{}
	}
	return nil
}

func (f *folder) flush(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for dir := range f.dirty {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := disk.SyncFolder(dir); err != nil {
			return err
		}
		delete(f.dirty, dir)
	}
	return nil
}

func (f *folder) get(ctx context.Context, name string, limit int64) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	file, err := os.Open(filepath.Join(f.path, filepath.FromSlash(name)))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	defer file.Close()
	return readAtMost(file, name, limit)
}

// readAtMost reads everything, and fails if it is too long.
func readAtMost(from io.Reader, name string, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(from, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%w: %s is longer than %d bytes", ErrDamaged, name, limit)
	}
	return data, nil
}

func (f *folder) has(ctx context.Context, name string) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	info, err := os.Stat(filepath.Join(f.path, filepath.FromSlash(name)))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for %s: %w", name, err)
	}
	return info.Mode().IsRegular(), nil
}

func (f *folder) list(ctx context.Context, prefix string) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(filepath.Join(f.path, filepath.FromSlash(prefix)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", f.path, err)
	}
	var names []string
	for _, e := range entries {
		if prefix == "" && (e.Name() == lockName || e.Name() == halfName) {
			continue
		}
		names = append(names, prefix+e.Name())
	}
	return names, nil
}

func (f *folder) remove(_ context.Context, name string) error {
	err := os.Remove(filepath.Join(f.path, filepath.FromSlash(name)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return nil
}

func (f *folder) close() error {
	if f.flock == nil {
		return nil
	}
	return f.flock.Unlock()
}

// bucketTimeout bounds one request: an object has a few MiB, and the S3 client would wait for a response forever.
const bucketTimeout = 2 * time.Minute

// bucket is the place of a backup in an object store. It has no lock: the caller must ensure that only one backup runs.
type bucket struct {
	bucket *blob.Bucket
	name   string
}

func openBucket(ctx context.Context, at string) (place, error) {
	u, err := url.Parse(at)
	if err != nil {
		if parse, ok := errors.AsType[*url.Error](err); ok {
			err = parse.Err // without the URL, which may contain a password
		}
		return nil, fmt.Errorf("open the backup: the URL cannot be read: %w", err)
	}
	if u.Scheme == "s3" {
		if err := assets.PrepareS3(u); err != nil {
			return nil, fmt.Errorf("open the backup: %w", err)
		}
	}
	b, err := blob.OpenBucket(ctx, u.String())
	if err != nil {
		return nil, fmt.Errorf("open the backup at %s: %w", u.Redacted(), err)
	}
	return &bucket{bucket: b, name: u.Redacted()}, nil
}

func (b *bucket) String() string { return b.name }

func (b *bucket) lock() error { return nil }

func (b *bucket) put(ctx context.Context, name string, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, bucketTimeout)
	defer cancel()
	err := b.bucket.Upload(ctx, name, bytes.NewReader(data),
		&blob.WriterOptions{ContentType: "application/octet-stream"})
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

func (b *bucket) flush(context.Context) error { return nil }

func (b *bucket) get(ctx context.Context, name string, limit int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, bucketTimeout)
	defer cancel()
	r, err := b.bucket.NewReader(ctx, name, nil)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return nil, fmt.Errorf("read %s: %w: %w", name, fs.ErrNotExist, err)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	defer r.Close()
	return readAtMost(r, name, limit)
}

func (b *bucket) has(ctx context.Context, name string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, bucketTimeout)
	defer cancel()
	there, err := b.bucket.Exists(ctx, name)
	if err != nil {
		return false, fmt.Errorf("look for %s: %w", name, err)
	}
	return there, nil
}

func (b *bucket) list(ctx context.Context, prefix string) ([]string, error) {
	var names []string
	list := b.bucket.List(&blob.ListOptions{Prefix: prefix, Delimiter: "/"})
	for {
		call, cancel := context.WithTimeout(ctx, bucketTimeout)
		o, err := list.Next(call)
		cancel()
		if errors.Is(err, io.EOF) {
			return names, nil
		}
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", b.name, err)
		}
		names = append(names, o.Key)
	}
}

func (b *bucket) remove(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, bucketTimeout)
	defer cancel()
	if err := b.bucket.Delete(ctx, name); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return nil
}

func (b *bucket) close() error { return b.bucket.Close() }
