package accountnames_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"letterhead/internal/accountnames"
	"letterhead/internal/sqlstore"
	"letterhead/internal/sqlstore/sqlstoretest"
	"letterhead/internal/testmust"
)

func open(t *testing.T, cfg sqlstore.Config) (*accountnames.Table, *sqlstore.Store) {
	t.Helper()
	store := sqlstoretest.Open(t, cfg)
	h := testmust.Get(accountnames.New(t.Context(), store))(t)
	return h, store
}

func put(t *testing.T, h *accountnames.Table, id, name string) {
	t.Helper()
	testmust.Succeed(t, h.Put(t.Context(), id, name))
}

func wantNames(t *testing.T, h *accountnames.Table, want map[string]string, ids ...string) {
	t.Helper()
	got, err := h.Names(t.Context(), ids...)
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("names of %v: %v, %v, want %v", ids, got, err, want)
	}
}

func TestNames_SurviveRestart(t *testing.T) {
	sqlstoretest.Each(t, func(t *testing.T, cfg sqlstore.Config) {
		h, store := open(t, cfg)
		put(t, h, "1", "Acme")
		put(t, h, "2", "Zoë 🦊 GmbH")
		put(t, h, "1", "Acme Ltd")
		testmust.Succeed(t, store.Close())
		h, _ = open(t, cfg)
		wantNames(t, h, map[string]string{"1": "Acme Ltd", "2": "Zoë 🦊 GmbH"}, "1", "2", "3")
		wantNames(t, h, map[string]string{})
	})
}

func TestNames_ManyIDs_ReturnsKnownOnes(t *testing.T) {
	sqlstoretest.Each(t, func(t *testing.T, cfg sqlstore.Config) {
		h, _ := open(t, cfg)
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
	})
}

func TestPage_ReturnsEveryHolderOnce(t *testing.T) {
	sqlstoretest.Each(t, func(t *testing.T, cfg sqlstore.Config) {
		h, _ := open(t, cfg)
		if page, err := h.Page(t.Context(), "", 1); err != nil || len(page) > 0 {
			t.Errorf("page of an empty table: %v, %v", page, err)
		}
		want := map[string]string{}
		var all []accountnames.Entry
		for i := range accountnames.MaxPage {
			// Capitals, signs and letters that databases sort differently.
			one := accountnames.Entry{ID: fmt.Sprintf("%s%d", []string{"a", "B", "å", "-", "z:", "Z"}[i%6], i*7), Name: fmt.Sprint("Näme ", i)}
			all = append(all, one)
			want[one.ID] = one.Name
		}
		testmust.Succeed(t, h.PutAll(t.Context(), all))
		testmust.Succeed(t, h.PutAll(t.Context(), []accountnames.Entry{{ID: "a0", Name: "changed"}, {ID: "new", Name: "New"}}))
		want["a0"], want["new"] = "changed", "New"
		for _, limit := range []int{13, accountnames.MaxPage} {
			got := map[string]string{}
			for after := ""; ; {
				page, err := h.Page(t.Context(), after, limit)
				if err != nil || len(page) > limit {
					t.Fatalf("Page(%q, %d): %d holders, %v", after, limit, len(page), err)
				}
				if len(page) == 0 {
					break
				}
				for _, one := range page {
					if _, twice := got[one.ID]; twice {
						t.Errorf("%s was returned twice", one.ID)
					}
					got[one.ID] = one.Name
				}
				after = page[len(page)-1].ID
			}
			if !maps.Equal(got, want) {
				t.Errorf("pages of %d contain %d holders, want %d", limit, len(got), len(want))
			}
		}
	})
}

func TestPutAll_InvalidEntry_WritesNothing(t *testing.T) {
	sqlstoretest.Each(t, func(t *testing.T, cfg sqlstore.Config) {
		h, _ := open(t, cfg)
		good := accountnames.Entry{ID: "1", Name: "Acme"}
		for what, all := range map[string][]accountnames.Entry{
			"an empty name": {good, {ID: "2"}},
			"an empty id":   {good, {Name: "x"}},
			"NUL":           {good, {ID: "2", Name: "a\x00"}},
			"an id twice":   {good, {ID: "1", Name: "Other"}},
			"too many":      make([]accountnames.Entry, accountnames.MaxPage+1),
		} {
			if err := h.PutAll(t.Context(), all); !errors.Is(err, accountnames.ErrInvalid) {
				t.Errorf("%s: %v, want ErrInvalid", what, err)
			}
		}
		for _, limit := range []int{0, -1, accountnames.MaxPage + 1} {
			if _, err := h.Page(t.Context(), "", limit); !errors.Is(err, accountnames.ErrInvalid) {
				t.Errorf("a page of %d: %v, want ErrInvalid", limit, err)
			}
		}
		if err := h.PutAll(t.Context(), nil); err != nil {
			t.Errorf("PutAll of no entries: %v", err)
		}
		wantNames(t, h, map[string]string{}, "1", "2")
	})
}

// After Erase no file of the SQLite database contains the name.
func TestErase_SQLite_LeavesNoTrace(t *testing.T) {
	cfg := sqlstoretest.SQLite(t)
	dir := filepath.Dir(cfg.Path)
	h, _ := open(t, cfg)
	const name = "Erika Mustermann-Unverwechselbar"
	put(t, h, "keep", "Somebody else")
	put(t, h, "1", name)
	if !traces(t, dir, name) {
		t.Fatal("no file contains the name before it is erased")
	}
	testmust.Succeed(t, h.Erase(t.Context(), "1"))
	if traces(t, dir, name) {
		t.Error("a file still contains the name")
	}
	wantNames(t, h, map[string]string{"keep": "Somebody else"}, "1", "keep")
	if err := h.Erase(t.Context(), "1"); err != nil {
		t.Errorf("erasing a missing name: %v", err)
	}
}

// With PostgreSQL the test cannot read the files, so it checks only the queries.
func TestErase_Postgres_NoSessionFindsName(t *testing.T) {
	h, _ := open(t, sqlstoretest.Postgres(t))
	put(t, h, "keep", "Somebody else")
	put(t, h, "1", "Erika Mustermann")
	for range 2 {
		testmust.Succeed(t, h.Erase(t.Context(), "1"))
	}
	wantNames(t, h, map[string]string{"keep": "Somebody else"}, "1", "keep")
}

func traces(t *testing.T, dir, name string) bool {
	t.Helper()
	files := testmust.Get(filepath.Glob(filepath.Join(dir, "*")))(t)
	for _, file := range files {
		data := testmust.Get(os.ReadFile(file))(t)
		if bytes.Contains(data, []byte(name)) {
			return true
		}
	}
	return false
}

func TestPut_InvalidEntry_Fails(t *testing.T) {
	sqlstoretest.Each(t, func(t *testing.T, cfg sqlstore.Config) {
		h, _ := open(t, cfg)
		for _, in := range []struct{ id, name string }{
			{"", "a"}, {"1", ""}, {"1", " \t"}, {strings.Repeat("i", accountnames.MaxIDBytes+1), "a"},
			{"1", strings.Repeat("n", accountnames.MaxNameBytes+1)}, {"1", "\xff"}, {"1", "a\x00"}, {"\x00", "a"},
		} {
			if err := h.Put(t.Context(), in.id, in.name); !errors.Is(err, accountnames.ErrInvalid) {
				t.Errorf("%.20q %.20q: %v", in.id, in.name, err)
			}
		}
		wantNames(t, h, map[string]string{}, "1", "")
	})
}

func TestWithName_ReturnsIDsOfExactlyThatNameAndPrefix(t *testing.T) {
	sqlstoretest.Each(t, func(t *testing.T, cfg sqlstore.Config) {
		h, _ := open(t, cfg)
		for id, name := range map[string]string{"mail:b": "ann@example.com", "mail:a": "ann@example.com", "mail:c": "ann@example.org", "mail:d": "Ann@example.com", "mail:e": "ann@example.com%"} {
			put(t, h, id, name)
		}
		var others []accountnames.Entry // names that customers choose
		for i := range accountnames.MaxPage {
			others = append(others, accountnames.Entry{ID: fmt.Sprint("key-", i), Name: "ann@example.com"})
		}
		testmust.Succeed(t, h.PutAll(t.Context(), others))
		if ids, err := h.WithName(t.Context(), "ann@example.com", "mail:"); err != nil || !slices.Equal(ids, []string{"mail:a", "mail:b"}) {
			t.Errorf("WithName = %v, %v; want a and b", ids, err)
		}
		if ids, err := h.WithName(t.Context(), "stranger@example.com", "mail:"); err != nil || len(ids) > 0 {
			t.Errorf("WithName of an unknown name = %v, %v", ids, err)
		}
	})
}

func TestEmails_OfAnAccount_AreThoseOfItsPeople(t *testing.T) {
	sqlstoretest.Each(t, func(t *testing.T, cfg sqlstore.Config) {
		h, _ := open(t, cfg)
		const id, other = "5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11", "5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c12"
		for id, name := range map[string]string{
			id: "Acme", accountnames.EmailPrefix + id + "/p2": "bob@example.com", accountnames.EmailPrefix + id: "ann@example.com",
			accountnames.EmailPrefix + other: "ann@example.com", "sign-in-emails" + id: "x",
		} {
			put(t, h, id, name)
		}
		want := []accountnames.Entry{{ID: accountnames.EmailPrefix + id, Name: "ann@example.com"}, {ID: accountnames.EmailPrefix + id + "/p2", Name: "bob@example.com"}}
		if found, err := h.Emails(t.Context(), id); err != nil || !slices.Equal(found, want) {
			t.Errorf("Emails = %v, %v; want %v", found, err, want)
		}
		if found, err := h.Emails(t.Context(), "5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c13"); err != nil || len(found) > 0 {
			t.Errorf("Emails of another account = %v, %v", found, err)
		}
	})
}
