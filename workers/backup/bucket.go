package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"time"

	"gocloud.dev/blob"
	_ "gocloud.dev/blob/s3blob" // registers s3://
	"gocloud.dev/gcerrors"

	"letterhead/internal/assets"
)

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
		var parse *url.Error
		if errors.As(err, &parse) {
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
