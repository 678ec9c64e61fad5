package assets_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"letterhead/internal/assets"
	"letterhead/internal/assets/assetstest"
	"letterhead/internal/testmust"
)

const secretKey = "dont-tell-anybody"

// s3 starts an S3 server with one bucket of the given name.
func s3(t *testing.T, bucket string) *httptest.Server {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "somebody")
	t.Setenv("AWS_SECRET_ACCESS_KEY", secretKey)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	backend := s3mem.New()
	testmust.Succeed(t, backend.CreateBucket(bucket))
	server := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(server.Close)
	return server
}

func bucketURL(server, bucket, more string) string {
	return "s3://" + bucket + "?use_path_style=true&endpoint=" + url.QueryEscape(server) + more
}

func openURL(t *testing.T, at string) *assets.Store {
	t.Helper()
	s := testmust.Get(assets.Open(t.Context(), at))(t)
	return s
}

func TestBucket(t *testing.T) {
	for _, more := range []string{"", "&prefix=some/where/", "&region=eu-central-1"} {
		t.Run(more, func(t *testing.T) {
			assetstest.Run(t, func(t *testing.T) *assets.Store {
				return openURL(t, bucketURL(s3(t, "logos").URL, "logos", more))
			})
		})
	}
}

func TestPrefix_SeparatesStoresInBucket(t *testing.T) {
	server := s3(t, "shared")
	one := openURL(t, bucketURL(server.URL, "shared", "&prefix=one/"))
	two := openURL(t, bucketURL(server.URL, "shared", "&prefix=two/"))
	id := testmust.Get(one.Put(t.Context(), []byte("picture"), "png"))(t)
	if there, err := one.Has(t.Context(), id, "png"); !there || err != nil {
		t.Errorf("Has below the prefix of the asset = %v, %v, want true", there, err)
	}
	if there, err := two.Has(t.Context(), id, "png"); there || err != nil {
		t.Errorf("Has below the other prefix = %v, %v, want false", there, err)
	}
}

// Crawlers on several nodes find the same logo at the same time.
func TestPut_ConcurrentNodes_SameContent(t *testing.T) {
	server := s3(t, "logos")
	at := bucketURL(server.URL, "logos", "")
	data := []byte(strings.Repeat("a logo", 20_000))
	var nodes sync.WaitGroup
	for range 6 {
		node := openURL(t, at)
		nodes.Go(func() {
			for range 5 {
				id, err := node.Put(t.Context(), data, "png")
				if err != nil {
					t.Errorf("put: %v", err)
					return
				}
				if got, err := node.Read(t.Context(), id, "png"); err != nil || assets.Verify(id, got) != nil {
					t.Errorf("read %d bytes: %v", len(got), err)
				}
			}
		})
	}
	nodes.Wait()
	objects := 0
	for o, err := range openURL(t, at).List(t.Context()) {
		if err != nil || o.Size != int64(len(data)) {
			t.Errorf("listed %+v, %v", o, err)
		}
		objects++
	}
	if objects != 1 {
		t.Errorf("%d objects, want 1", objects)
	}
}

// everyCall calls each operation and checks its error.
func everyCall(t *testing.T, s *assets.Store, within time.Duration, check func(what string, err error)) {
	t.Helper()
	id := strings.Repeat("ab", 32)
	for _, c := range []struct {
		name string
		call func(ctx context.Context) error
	}{
		{"put", func(ctx context.Context) error { _, err := s.Put(ctx, []byte("picture"), "png"); return err }},
		{"open", func(ctx context.Context) error { _, err := s.Open(ctx, id, "png"); return err }},
		{"read", func(ctx context.Context) error { _, err := s.Read(ctx, id, "png"); return err }},
		{"has", func(ctx context.Context) error { _, err := s.Has(ctx, id, "png"); return err }},

		{"list", func(ctx context.Context) error {
			for _, err := range s.List(ctx) {
				return err
			}
			return nil
		}},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		check(c.name, c.call(ctx))
		cancel()
	}
}

func unavailable(t *testing.T) func(string, error) {
	return func(what string, err error) {
		t.Helper()
		if !errors.Is(err, assets.ErrUnavailable) || errors.Is(err, assets.ErrNotFound) {
			t.Errorf("%s: %v, want ErrUnavailable", what, err)
			return
		}
		if strings.Contains(err.Error(), secretKey) {
			t.Errorf("%s: the error contains the secret key: %v", what, err)
		}
	}
}

func TestStore_BucketDown_IsUnavailable(t *testing.T) {
	server := s3(t, "logos")
	s := openURL(t, bucketURL(server.URL, "logos", ""))
	server.Close()
	everyCall(t, s, 300*time.Millisecond, unavailable(t)) // the client would retry for some seconds
}

func TestStore_MissingBucket_IsUnavailable(t *testing.T) {
	s := openURL(t, bucketURL(s3(t, "logos").URL, "others", ""))
	everyCall(t, s, 5*time.Second, unavailable(t))
}

// An operator learns which settings are wrong.
func TestStore_CredentialsRefused_NamesSettings(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `<Error><Code>InvalidAccessKeyId</Code><Message>unknown key</Message></Error>`)
	}))
	defer server.Close()
	s3(t, "logos") // sets credentials
	s := openURL(t, bucketURL(server.URL, "logos", ""))
	named := func(what string, err error) {
		t.Helper()
		unavailable(t)(what, err)
		if err == nil || !strings.Contains(err.Error(), "AWS_SECRET_ACCESS_KEY") ||
			!strings.Contains(err.Error(), "LETTERHEAD_ASSETS") {
			t.Errorf("%s: %v, want the names of the settings", what, err)
		}
	}
	everyCall(t, s, 30*time.Second, named)
	named("reach", s.Reachable(t.Context()))
}

// A store that accepts connections and never responds.
func TestStore_HangingBucket_IsUnavailableInTime(t *testing.T) {
	s3(t, "unused") // sets the environment
	listener := testmust.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
		}
	}()
	s := openURL(t, bucketURL("http://"+listener.Addr().String(), "logos", ""))
	everyCall(t, s, 50*time.Millisecond, unavailable(t))
}

// The body of a response stops in the middle.
func TestRead_HangingBody_IsUnavailableInTime(t *testing.T) {
	s3(t, "unused")
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1000")
		fmt.Fprint(w, "the first bytes")
		w.(http.Flusher).Flush()
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	defer close(release)
	s := openURL(t, bucketURL(server.URL, "logos", ""))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := s.Read(ctx, strings.Repeat("ab", 32), "png")
	unavailable(t)("read", err)
}

func TestRequest_ServerError_IsRetried(t *testing.T) {
	var calls atomic.Int64
	inner := s3(t, "logos")
	target := testmust.Get(url.Parse(inner.URL))(t)
	forward := httputil.NewSingleHostReverseProxy(target)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) == 1 {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	defer server.Close()
	s := openURL(t, bucketURL(server.URL, "logos", ""))
	if _, err := s.Put(t.Context(), []byte("picture"), "png"); err != nil {
		t.Errorf("put after one server error: %v", err)
	}
	if calls.Load() < 2 {
		t.Errorf("%d calls, want a retry after the server error", calls.Load())
	}
}

// Rule 13.
func TestOpen_CredentialsInURL_ErrorOmitsThem(t *testing.T) {
	for _, at := range []string{
		"s3://somebody:" + secretKey + "@logos?region=eu-central-1",
		"s3://somebody:" + secretKey + "@logos:port%zz",
		"s3://somebody:" + secretKey + "@logos?nosuch=1",
		"s3:///logos", "s3://logos/folder",
	} {
		s, err := assets.Open(t.Context(), at)
		if err == nil {
			t.Errorf("opened %q: %v", at, s)
		} else if strings.Contains(err.Error(), secretKey) {
			t.Errorf("the error contains the key: %v", err)
		}
	}
}
