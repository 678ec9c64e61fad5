package readapi_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"letterhead/internal/assets"
	"letterhead/internal/testmust"
	"letterhead/readapi"
)

// storage is a slow asset store: it has one large file, of which it sends a part and then hangs, or it
// hangs before it answers.
type storage struct {
	opens atomic.Bool
	sends int64
	sent  atomic.Int64
}

const largeAsset = 16 << 20

func (s *storage) Open(ctx context.Context, _, _ string) (*assets.Reader, error) {
	if !s.opens.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &assets.Reader{ReadCloser: io.NopCloser(&storedFile{s, ctx}), Size: largeAsset, ContentType: "image/png"}, nil
}

type storedFile struct {
	s   *storage
	ctx context.Context
}

func (f *storedFile) Read(p []byte) (int, error) {
	left := f.s.sends - f.s.sent.Load()
	if left == 0 {
		<-f.ctx.Done()
	}
	if f.ctx.Err() != nil { // the file is readable as long as the context lives, like that of a bucket
		return 0, context.Cause(f.ctx)
	}
	n := min(int64(len(p)), left)
	clear(p[:n])
	f.s.sent.Add(n)
	return int(n), nil
}

func stored(s *storage) func(*setup) {
	return func(set *setup) { set.deps = func(d *readapi.Deps) { d.Assets = s } }
}

var largePath = "/cdn/" + strings.Repeat("ab", 32) + ".png"

// open requests the large file and returns once its headers have arrived.
func (s *service) open(ctx context.Context) *http.Response {
	s.t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+largePath, nil)
	s.must(err)
	resp, err := s.transport.RoundTrip(r)
	s.must(err)
	s.t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK || resp.ContentLength != largeAsset {
		s.t.Fatalf("status %d, %d bytes; want %d and %d", resp.StatusCode, resp.ContentLength, http.StatusOK, largeAsset)
	}
	return resp
}

func TestAsset_StorageHangs_Is503(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *service) {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			began := s.clock.now()
			a := s.send(request{method: method, path: largePath})
			if method == http.MethodGet {
				a.plainly(s.t, http.StatusServiceUnavailable)
			} else if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
				s.t.Errorf("HEAD: status %d, header %v", a.status, a.header)
			}
			if took := s.clock.now().Sub(began); took != 5*time.Second {
				s.t.Errorf("%s: answered after %s, want %v", method, took, 5*time.Second)
			}
		}
	}, stored(&storage{}))
}

func TestAsset_FileStalls_IsCutOff(t *testing.T) {
	t.Parallel()
	store := &storage{sends: 1 << 20}
	store.opens.Store(true)
	inBubble(t, func(s *service) {
		began := s.clock.now()
		n, err := io.Copy(io.Discard, s.open(s.t.Context()).Body)
		if !errors.Is(err, io.ErrUnexpectedEOF) || n > store.sends {
			s.t.Errorf("%d bytes, then %v; want at most %d and ErrUnexpectedEOF", n, err, store.sends)
		}
		if took := s.clock.now().Sub(began); took != 10*time.Second {
			s.t.Errorf("cut off after %s, want %v", took, 10*time.Second)
		}
	}, stored(store))
}

// A file is streamed in pieces: the client has the first ones before the storage is read for the
// next, and the client may read at its own pace.
func TestAsset_LargeFile_IsStreamed(t *testing.T) {
	t.Parallel()
	const ahead = 128 << 10 // bytes ahead of what the client has read
	store := &storage{sends: largeAsset}
	store.opens.Store(true)
	inBubble(t, func(s *service) {
		resp := s.open(s.t.Context())
		var read int64
		for range 4 {
			n, err := io.CopyN(io.Discard, resp.Body, 64<<10)
			s.must(err)
			read += n
			synctest.Wait()
			if taken := store.sent.Load(); taken > read+ahead {
				s.t.Errorf("%d bytes read from the storage, the client has read %d", taken, read)
			}
			s.clock.add(15 * time.Second)
		}
		n, err := io.Copy(io.Discard, resp.Body)
		if err != nil || read+n != largeAsset {
			s.t.Errorf("%d bytes, %v; want %d", read+n, err, largeAsset)
		}
	}, stored(store))
}

func TestAsset_ClientLeft_ReadsNothing(t *testing.T) {
	t.Parallel()
	store := &storage{sends: largeAsset / 2}
	store.opens.Store(true)
	inBubble(t, func(s *service) {
		ctx, leave := context.WithCancel(s.t.Context())
		_, err := io.CopyN(io.Discard, s.open(ctx).Body, 1<<10)
		s.must(err)
		leave()
		synctest.Wait()
		if s.pipes.open.Load() != 0 || store.sent.Load() > 256<<10 {
			s.t.Errorf("%d connections, %d bytes read", s.pipes.open.Load(), store.sent.Load())
		}
	}, stored(store))
}

func TestAsset_RangeRequest_GetsTheWholeFile(t *testing.T) {
	t.Parallel()
	s := start(t)
	id, err := s.assets.Put(t.Context(), []byte("bytes of the png"), "png")
	s.must(err)
	a := s.send(request{path: "/cdn/" + id + ".png", header: http.Header{"Range": {"bytes=0-3"}}})
	if string(a.body) != "bytes of the png" || a.ok(t).Get("Content-Range") != "" {
		t.Errorf("header %v, body %q", a.header, a.body)
	}
	if a := s.send(request{path: "/cdn/" + id + ".svg", header: http.Header{"If-None-Match": {`"` + id + `"`}}}); a.status != http.StatusNotFound {
		t.Errorf("with the tag of another format: status %d, want %d", a.status, http.StatusNotFound)
	}
}

// TestAsset_InBucket_IsServed covers a whole store that speaks S3: working, and accepting requests without answering.
func TestAsset_InBucket_IsServed(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "somebody")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "a secret")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	backend := s3mem.New()
	testmust.Succeed(t, backend.CreateBucket("logos"))
	serves := gofakes3.New(backend).Server()
	var silent atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if silent.Load() {
			<-r.Context().Done()
			return
		}
		serves.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	bucket := testmust.Get(assets.Open(t.Context(), "s3://logos?use_path_style=true&endpoint="+url.QueryEscape(server.URL)))(t)
	t.Cleanup(func() { bucket.Close() })
	fromBucket := func(set *setup) { set.deps = func(d *readapi.Deps) { d.Assets = bucket } }
	s := start(t, fromBucket)
	soon := start(t, fromBucket, func(set *setup) { set.requestTimeout = 400 * time.Millisecond }) // how long the test waits
	file := []byte(strings.Repeat("a large picture ", 64<<10))
	id, err := bucket.Put(t.Context(), file, "png")
	s.must(err)
	path := "/cdn/" + id + ".png"
	if a := s.send(request{path: path}); !bytes.Equal(a.body, file) || a.ok(t).Get("Content-Length") != strconv.Itoa(len(file)) {
		t.Errorf("%d bytes of %d, header %v", len(a.body), len(file), a.header)
	}
	s.send(request{path: "/cdn/" + id + ".svg"}).plainly(t, http.StatusNotFound)
	silent.Store(true)
	soon.send(request{path: path}).plainly(t, http.StatusServiceUnavailable)
	silent.Store(false)
	s.send(request{path: path}).ok(t)
}
