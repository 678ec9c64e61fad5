// Package assetstest provides the contract suite for every kind of asset store.
package assetstest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"letterhead/internal/assets"
)

// Run tests a store. open returns a new, empty store for each call.
func Run(t *testing.T, open func(t *testing.T) *assets.Store) {
	for _, c := range []struct {
		name string
		run  func(t *testing.T, s *assets.Store)
	}{
		{"a stored asset can be read", readBack},
		{"the same content is stored once", idempotent},
		{"another extension is not found", otherExtension},
		{"malformed names are not found", malformedNames},
		{"invalid assets are rejected", rejected},
		{"a listing contains every asset once, in order", listed},
		{"calls end with their context", contextEnds},
		{"concurrent writers of the same content succeed", concurrent},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t)
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			})
			c.run(t, s)
		})
	}
}

func put(t *testing.T, s *assets.Store, data []byte, ext string) string {
	t.Helper()
	id, err := s.Put(t.Context(), data, ext)
	if err != nil {
		t.Fatalf("put: %v", err)
	}
	return id
}

func readBack(t *testing.T, s *assets.Store) {
	data := bytes.Repeat([]byte("a picture "), 10_000)
	sum := sha256.Sum256(data)
	id := put(t, s, data, "png")
	if want := hex.EncodeToString(sum[:]); id != want {
		t.Fatalf("id = %s, want %s", id, want)
	}
	r, err := s.Open(t.Context(), id, "png")
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, data) || r.Size != int64(len(data)) || r.ContentType != "image/png" {
		t.Errorf("read %d bytes, size %d, type %s; want %d bytes of image/png", len(got), r.Size, r.ContentType, len(data))
	}
	if got, err := s.Read(t.Context(), id, "png"); err != nil || !bytes.Equal(got, data) {
		t.Errorf("Read = %d bytes, %v", len(got), err)
	}
	for _, c := range []struct {
		id, ext string
		want    bool
	}{{id, "png", true}, {id, "svg", false}, {strings.Repeat("0", 64), "png", false}, {"../" + id, "png", false}} {
		if there, err := s.Has(t.Context(), c.id, c.ext); there != c.want || err != nil {
			t.Errorf("Has(%s, %s) = %t, %v", c.id, c.ext, there, err)
		}
	}
}

func idempotent(t *testing.T, s *assets.Store) {
	a := put(t, s, []byte("one"), "svg")
	stored := list(t, s)
	b := put(t, s, []byte("one"), "svg")
	if a != b {
		t.Errorf("the same content has the ids %s and %s", a, b)
	}
	again := list(t, s)
	if len(again) != 1 || !again[0].StoredAt.Equal(stored[0].StoredAt) {
		t.Errorf("the second put changed the object from %v to %v", stored, again)
	}
}

func otherExtension(t *testing.T, s *assets.Store) {
	id := put(t, s, []byte("one"), "webp")
	for _, ext := range []string{"png", "svg", "jpeg", "ico", "html", "", "WEBP", "webp/", "webp\x00"} {
		if _, err := s.Open(t.Context(), id, ext); !errors.Is(err, assets.ErrNotFound) {
			t.Errorf("open as %q: %v, want ErrNotFound", ext, err)
		}
	}
}

func malformedNames(t *testing.T, s *assets.Store) {
	id := put(t, s, []byte("one"), "png")
	unknown := strings.Repeat("0", 64)
	for _, name := range []string{
		unknown, "", id[:63], id + "0", strings.ToUpper(id), "../" + id[3:], "../../etc/passwd", "..%2f" + id[5:],
		"./" + id[2:], id[:62] + "/.", id[:63] + "\x00", id[:63] + "é", strings.Repeat("/", 64), strings.Repeat("a", 1<<20),
	} {
		if _, err := s.Open(t.Context(), name, "png"); !errors.Is(err, assets.ErrNotFound) {
			t.Errorf("open %.80q: %v, want ErrNotFound", name, err)
		}
	}
	if _, err := s.Read(t.Context(), id, "png"); err != nil {
		t.Errorf("open the stored asset: %v", err)
	}
}

func rejected(t *testing.T, s *assets.Store) {
	for _, c := range []struct {
		data []byte
		ext  string
	}{{nil, "png"}, {[]byte("x"), "html"}, {[]byte("x"), ""}, {[]byte("x"), "ico"}, {[]byte("x"), "../png"}, {make([]byte, assets.MaxBytes+1), "png"}} {
		if _, err := s.Put(t.Context(), c.data, c.ext); !errors.Is(err, assets.ErrInvalid) {
			t.Errorf("put %d bytes as %q: %v, want ErrInvalid", len(c.data), c.ext, err)
		}
	}
	if all := list(t, s); len(all) != 0 {
		t.Errorf("stored %v", all)
	}
}

func list(t *testing.T, s *assets.Store) []assets.Object {
	t.Helper()
	var all []assets.Object
	for o, err := range s.List(t.Context()) {
		if err != nil {
			t.Fatalf("list: %v", err)
		}
		all = append(all, o)
	}
	return all
}

func listed(t *testing.T, s *assets.Store) {
	want := map[string]int64{}
	for i := range 300 {
		data := fmt.Appendf(nil, "asset %d", i)
		want[put(t, s, data, "png")] = int64(len(data))
	}
	last := ""
	for _, o := range list(t, s) {
		size, known := want[o.ID]
		if !known || o.Size != size || o.Ext != "png" || o.StoredAt.IsZero() {
			t.Errorf("listed %+v, size known: %d", o, size)
		}
		if o.ID <= last {
			t.Errorf("%s was listed after %s", o.ID, last)
		}
		last = o.ID
		delete(want, o.ID)
	}
	if len(want) > 0 {
		t.Errorf("%d assets were not listed", len(want))
	}
}

func contextEnds(t *testing.T, s *assets.Store) {
	id := put(t, s, []byte("one"), "png")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Put(ctx, []byte("two"), "png"); !errors.Is(err, context.Canceled) {
		t.Errorf("put: %v, want context.Canceled", err)
	}
	if _, err := s.Read(ctx, id, "png"); !errors.Is(err, context.Canceled) {
		t.Errorf("read: %v, want context.Canceled", err)
	}
	for _, err := range s.List(ctx) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("list: %v, want context.Canceled", err)
		}
	}
}

func concurrent(t *testing.T, s *assets.Store) {
	data := bytes.Repeat([]byte("same"), 50_000)
	var writers sync.WaitGroup
	for range 8 {
		writers.Go(func() {
			id, err := s.Put(t.Context(), data, "png")
			if err != nil {
				t.Errorf("put: %v", err)
				return
			}
			if got, err := s.Read(t.Context(), id, "png"); err != nil || !bytes.Equal(got, data) {
				t.Errorf("read while others write: %d bytes, %v", len(got), err)
			}
		})
	}
	writers.Wait()
	if all := list(t, s); len(all) != 1 {
		t.Errorf("%d objects have the same content, want 1", len(all))
	}
}
