package resvg

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tetratelabs/wazero"
	"golang.org/x/sync/semaphore"

	"letterhead/internal/metering/meteringtest"
	"letterhead/internal/testmust"
)

func TestNew_OtherModule_Fails(t *testing.T) {
	changed := unpack()
	changed[len(changed)/2] ^= 1
	if _, err := newRenderer(t.Context(), Config{}, changed); !errors.Is(err, ErrModule) {
		t.Errorf("error = %v, want ErrModule", err)
	}
}

// cached returns the path of the one file in a cache.
func cached(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*", "*", "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v %v", files, err)
	}
	return files[0]
}

// works compiles a small module with a cache, like the real one, and starts it.
func works(t *testing.T, dir string) {
	t.Helper()
	e := testmust.Get(compile(t.Context(), meteringtest.Spinning, dir))(t)
	defer e.close(context.Background())
	m := testmust.Get(e.runtime.InstantiateModule(t.Context(), e.compiled, wazero.NewModuleConfig()))(t)
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), hostKey{}, &host{quanta: 1}))
	cancel()
	if _, err := m.ExportedFunction("spin").Call(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("the cached module does not work: %v, want Canceled", err)
	}
}

func TestCache(t *testing.T) {
	dir := t.TempDir()
	works(t, dir)
	file := cached(t, dir)
	whole := testmust.Get(os.ReadFile(file))(t)
	works(t, dir)
	if again, err := os.ReadFile(cached(t, dir)); err != nil || !bytes.Equal(again, whole) {
		t.Errorf("a second start changed the cache: %v", err)
	}
	const step = 13 // so that the header, each length in it, the code and the rest are damaged
	for at := 0; at < len(whole); at += step {
		flipped := slices.Clone(whole)
		flipped[at] ^= 0xff
		repairs(t, dir, flipped, whole)
		repairs(t, dir, whole[:at], whole)
	}
}

// A cache without a checksum cannot be verified, so it must be compiled again.
func TestCache_WithoutChecksum(t *testing.T) {
	dir := t.TempDir()
	works(t, dir)
	seal := filepath.Join(dir, "resvg-"+moduleSum[:16]+".sha256")
	for name, change := range map[string]func() error{
		"gone":      func() error { return os.Remove(seal) },
		"damaged":   func() error { return os.WriteFile(seal, []byte("x"), 0o600) },
		"of others": func() error { return os.WriteFile(filepath.Join(filepath.Dir(cached(t, dir)), "more"), nil, 0o600) },
		"a link":    func() error { return os.Symlink(seal, filepath.Join(filepath.Dir(cached(t, dir)), "link")) },
	} {
		if err := change(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		works(t, dir)
		if cached(t, dir); !intact(filepath.Dir(filepath.Dir(cached(t, dir)))) {
			t.Errorf("%s: the checksum was not written", name)
		}
	}
}

// repairs starts with a damaged cache and checks that it is intact afterwards.
func repairs(t *testing.T, dir string, damaged, whole []byte) {
	t.Helper()
	testmust.Succeed(t, os.WriteFile(cached(t, dir), damaged, 0o600))
	works(t, dir)
	if repaired, err := os.ReadFile(cached(t, dir)); err != nil || !bytes.Equal(repaired, whole) {
		t.Errorf("the cache was not repaired: %d bytes of %d, %v", len(repaired), len(whole), err)
	}
}

func TestCache_UnusableDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	testmust.Succeed(t, os.WriteFile(file, nil, 0o600))
	works(t, filepath.Join(file, "below"))
}

// TestRender_WaitEndsWithContext takes all turns, so that the image must wait.
func TestRender_WaitEndsWithContext(t *testing.T) {
	r := &Renderer{turns: semaphore.NewWeighted(1)}
	r.turns.TryAcquire(1)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := r.Render(ctx, []byte("<svg/>"), 16)
		done <- err
	}()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v, want Canceled", err)
	}
}

func TestMemory_ZeroedForNextImage(t *testing.T) {
	r := &Renderer{cfg: Config{Memory: 1 << 20}}
	m := r.takeMemory(nil)
	for i := range m.Reallocate(1 << 16) {
		m.bytes[i] = 1
	}
	if m.Reallocate(1<<20+1) != nil || !m.refused {
		t.Error("the memory grew beyond its limit")
	}
	r.keepMemory(m)
	again := r.takeMemory(nil)
	if again != m || again.refused || bytes.IndexByte(again.Reallocate(1<<17), 1) >= 0 {
		t.Error("the memory contains data of the previous image")
	}
}
