package holders_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"letterhead/internal/holders"
	"letterhead/internal/sqlstore"
)

func open(t *testing.T, dir string) (*holders.Holders, *sqlstore.Store) {
	t.Helper()
	store, err := sqlstore.Open(t.Context(), sqlstore.Config{Path: filepath.Join(dir, "letterhead.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	h, err := holders.New(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	return h, store
}

func put(t *testing.T, h *holders.Holders, id, name string) {
	t.Helper()
	if err := h.Put(t.Context(), id, name); err != nil {
		t.Fatal(err)
	}
}

func wantNames(t *testing.T, h *holders.Holders, want map[string]string, ids ...string) {
	t.Helper()
	got, err := h.Names(t.Context(), ids...)
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("names of %v: %v, %v, want %v", ids, got, err, want)
	}
}

func TestNamesStayOverARestart(t *testing.T) {
	dir := t.TempDir()
	h, store := open(t, dir)
	put(t, h, "1", "Acme")
	put(t, h, "2", "Zoë 🦊 GmbH")
	put(t, h, "1", "Acme Ltd")
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	h, _ = open(t, dir)
	wantNames(t, h, map[string]string{"1": "Acme Ltd", "2": "Zoë 🦊 GmbH"}, "1", "2", "3")
	wantNames(t, h, map[string]string{})
}

func TestManyNamesAtOnce(t *testing.T) {
	h, _ := open(t, t.TempDir())
	want := map[string]string{}
	var ids []string
	for i := range 1203 {
		id := fmt.Sprint("id", i)
		ids = append(ids, id)
		if i%100 == 0 {
			want[id] = "name of " + id
			put(t, h, id, want[id])
		}
	}
	wantNames(t, h, want, ids...)
}

// Erased means that no file of the database holds the name any more, not only that no query finds it.
func TestEraseLeavesNoTrace(t *testing.T) {
	dir := t.TempDir()
	h, _ := open(t, dir)
	const name = "Erika Mustermann-Unverwechselbar"
	put(t, h, "keep", "Somebody else")
	put(t, h, "1", name)
	if !traces(t, dir, name) {
		t.Fatal("the name is in no file: the test cannot see it go")
	}
	if err := h.Erase(t.Context(), "1"); err != nil {
		t.Fatal(err)
	}
	if traces(t, dir, name) {
		t.Error("a file still holds the name")
	}
	wantNames(t, h, map[string]string{"keep": "Somebody else"}, "1", "keep")
	if err := h.Erase(t.Context(), "1"); err != nil {
		t.Errorf("erasing what is gone: %v", err)
	}
}

func traces(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(data, []byte(name)) {
			return true
		}
	}
	return false
}

func TestInvalidHoldersAreRefused(t *testing.T) {
	h, _ := open(t, t.TempDir())
	for _, in := range []struct{ id, name string }{
		{"", "a"}, {"1", ""}, {"1", " \t"}, {strings.Repeat("i", holders.MaxIDBytes+1), "a"},
		{"1", strings.Repeat("n", holders.MaxNameBytes+1)}, {"1", "\xff"},
	} {
		if err := h.Put(t.Context(), in.id, in.name); !errors.Is(err, holders.ErrInvalid) {
			t.Errorf("%.20q %.20q: %v", in.id, in.name, err)
		}
	}
	wantNames(t, h, map[string]string{}, "1", "")
}
