package accountnames_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"letterhead/internal/accountnames"
	"letterhead/internal/sqlstore"
	"letterhead/internal/sqlstore/sqlstoretest"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
)

func wantFound(t *testing.T, h *accountnames.Table, text string, want ...string) {
	t.Helper()
	rows, more, err := h.Search(t.Context(), text, false, 10)
	got := make([]string, len(rows))
	for i := range rows {
		got[i] = rows[i].ID
	}
	if err != nil || more || !slices.Equal(got, want) {
		t.Errorf("Search(%.40q) = %q, more %v, %v; want %q", text, got, more, err, want)
	}
}

func wantAddresses(t *testing.T, h *accountnames.Table, text string, want ...string) {
	t.Helper()
	rows, more, err := h.Search(t.Context(), text, true, 10)
	got := make([]string, len(rows))
	for i := range rows {
		got[i] = rows[i].ID
	}
	if err != nil || more || !slices.Equal(got, want) {
		t.Errorf("addresses with %.40q = %q, more %v, %v; want %q", text, got, more, err, want)
	}
}

func TestSearch_BeginningsOfWords_FindNames(t *testing.T) {
	sqlstoretest.Each(t, func(t *testing.T, cfg sqlstore.Config) {
		h, _ := open(t, cfg)
		for id, name := range map[string]string{
			"1": "Acme GmbH", "2": "Zoë's Bäckerei ＡＣＭＥＸ", "3": "Booking.com", "4": "東京ガス", "5": "100 % _ Co",
			owner: "Ann.Smith@acme.example", "notices-email:1": "acme@example.com", "notices-webhook:1": "https://acme.example/",
			"6": strings.Repeat("Acmelong", 100),
		} {
			put(t, h, id, name)
		}
		wantFound(t, h, "acme", "1", "6", "2") // the whole word first
		wantFound(t, h, "ACME gm", "1")
		wantFound(t, h, "gmbh acme acme", "1")
		wantFound(t, h, "zoes back", "2")
		wantFound(t, h, "a%_", "1", "6", "2")
		wantFound(t, h, "cme")
		wantFound(t, h, "booking.com", "3")
		wantFound(t, h, "東京", "4")
		wantFound(t, h, "100% co", "5")
		wantFound(t, h, strings.Repeat("acmelong", 63), "6")
		for _, none := range []string{"", " ", "%", "_", "ac%e", "ac_e", "\x00", "\x01\n", "\xff", "ann smith", "https", strings.Repeat("x ", 250), strings.Repeat("x", 5000)} {
			wantFound(t, h, none)
		}
		wantAddresses(t, h, "acme", owner)
		wantAddresses(t, h, "ann.smith@acme.example", owner)
		wantAddresses(t, h, " ANN.Smith@acme.example", owner)
		for _, other := range []string{"ann.smith@acme.exam", "smith@acme.example", "ann@smith.acme.example", "@acme"} {
			wantAddresses(t, h, other)
		}
		wantAddresses(t, h, "SMITH", owner)
		wantAddresses(t, h, "gmbh")
	})
}

func TestSearch_MoreThanTheLimit_SaysSo(t *testing.T) {
	sqlstoretest.Each(t, func(t *testing.T, cfg sqlstore.Config) {
		h, _ := open(t, cfg)
		for i := range 11 {
			put(t, h, fmt.Sprintf("%02d", i), "Acme Acmeland "+strconv.Itoa(i))
		}
		put(t, h, "whole", "ACMELAND")
		if rows, more, err := h.Search(t.Context(), "Acmeland", false, 1); err != nil || !more || rows[0].ID != "whole" {
			t.Errorf("the first with a name is %v, more %v, %v", rows, more, err)
		}
		rows, more, err := h.Search(t.Context(), "acme", false, 10)
		if err != nil || !more || len(rows) != 10 || rows[9].ID != "09" {
			t.Errorf("11 names: %v, more %v, %v", rows, more, err)
		}
		wantFound(t, h, "acme 10", "10")
	})
}

func TestSearch_ChangedAndErasedNames_AreNotFound(t *testing.T) {
	sqlstoretest.Each(t, func(t *testing.T, cfg sqlstore.Config) {
		h, store := open(t, cfg)
		put(t, h, "1", "Erika Mustermann")
		put(t, h, "2", "Erika Beispiel")
		put(t, h, owner, "erika@example.com")
		put(t, h, "2", "Otto Beispiel")
		wantFound(t, h, "erika", "1")
		testmust.Succeed(t, h.Erase(t.Context(), "1"))
		testmust.Succeed(t, h.Erase(t.Context(), owner))
		wantFound(t, h, "erika")
		wantAddresses(t, h, "erika")
		var words int
		testmust.Succeed(t, store.Read().QueryRowContext(t.Context(), `SELECT count(*) FROM holder_words`).Scan(&words))
		if words != 3 {
			t.Errorf("%d words are left, want otto, beispiel and both", words)
		}
		put(t, h, "3", "Erika Damaged")
		execute(t, store, `UPDATE holders SET name = 'Erika' WHERE id = '3'`)
		wantFound(t, h, "erika") // it fails its checksum
	})
}

func TestErase_SQLite_LeavesNoWord(t *testing.T) {
	cfg := sqlstoretest.SQLite(t)
	h, _ := open(t, cfg)
	put(t, h, "1", "Erika Unverwechselbar")
	if dir := filepath.Dir(cfg.Path); !traces(t, dir, "unverwechselbar") {
		t.Fatal("no file contains the word before it is erased")
	}
	testmust.Succeed(t, h.Erase(t.Context(), "1"))
	if traces(t, filepath.Dir(cfg.Path), "unverwechselbar") {
		t.Error("a file still contains the word")
	}
}

// A release without the index wrote the rows.
func TestWatch_NamesOfAnEarlierRelease_AreIndexed(t *testing.T) {
	sqlstoretest.Each(t, func(t *testing.T, cfg sqlstore.Config) {
		h, store := open(t, cfg)
		var all []accountnames.Entry
		for i := range accountnames.MaxPage {
			all = append(all, accountnames.Entry{ID: fmt.Sprint("id", i), Name: fmt.Sprint("Acme ", i)})
		}
		testmust.Succeed(t, h.PutAll(t.Context(), all))
		put(t, h, "last", "Zebra")
		put(t, h, "damaged", "Zebra")
		execute(t, store, `DELETE FROM holder_words`)
		execute(t, store, `UPDATE holders SET indexed = NULL`)
		execute(t, store, `UPDATE holders SET name = 'Acme Zebra' WHERE id = 'damaged'`)
		put(t, h, "new", "Yak")
		// Nodes start at the same time, and answer what is indexed.
		nodes := make([]*accountnames.Table, 3)
		var starts, watches sync.WaitGroup
		for i := range nodes {
			starts.Go(func() {
				var err error
				if nodes[i], err = accountnames.New(t.Context(), store); err != nil {
					t.Error(err)
				}
			})
		}
		starts.Wait()
		if t.Failed() {
			return
		}
		for text, want := range map[string]int{"zebra": 0, "yak": 1} {
			rows, more, err := nodes[0].Search(t.Context(), text, false, 10)
			if err != nil || len(rows) != want || !more {
				t.Errorf("before the names are indexed, %s: %v, more %v, %v", text, rows, more, err)
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		for _, node := range nodes {
			watches.Go(func() { _ = node.Watch(ctx) })
		}
		_, ok := testwait.Until(testwait.Timeout, func() bool {
			_, more, err := h.Search(t.Context(), "zebra", false, 10)
			return err == nil && !more
		})
		if !ok {
			t.Error("the names were not indexed")
		}
		stop()
		watches.Wait()
		wantFound(t, h, "zebra", "last")
		wantFound(t, h, "acme 777", "id777")
		// Nodes of both releases run on PostgreSQL during an upgrade.
		if store.Shared() {
			execute(t, store, `DELETE FROM holders WHERE id = 'last'`)
			var words int
			testmust.Succeed(t, store.Read().QueryRowContext(t.Context(), `SELECT count(*) FROM holder_words WHERE word = 'zebra'`).Scan(&words))
			if words != 0 {
				t.Error("the words of a name that an earlier release has erased are left")
			}
		}
	})
}

func TestSearch_ReadOnlyFile_IsAnswered(t *testing.T) {
	cfg := sqlstoretest.SQLite(t)
	h, _ := open(t, cfg)
	put(t, h, "1", "Acme GmbH")
	cfg.ReadOnly = true
	reader, _ := open(t, cfg)
	wantFound(t, reader, "gmbh acme", "1")
	_, store := open(t, sqlstore.Config{Path: cfg.Path})
	execute(t, store, `DROP TABLE holder_words`) // release 0.1.0 has none
	if rows, more, err := reader.Search(t.Context(), "acme", false, 10); err != nil || len(rows) != 0 || !more {
		t.Errorf("without an index: %v, more %v, %v", rows, more, err)
	}
}

// LETTERHEAD_TEST_NAMES is the number of names, such as 1000000.
func BenchmarkSearch(b *testing.B) {
	names, _ := strconv.Atoi(os.Getenv("LETTERHEAD_TEST_NAMES"))
	names = max(names, 10_000)
	for _, cfg := range []sqlstore.Config{{Path: filepath.Join(b.TempDir(), "names.db")}, {URL: os.Getenv("LETTERHEAD_TEST_POSTGRES")}} {
		if cfg.Path == "" && cfg.URL == "" {
			b.Log("LETTERHEAD_TEST_POSTGRES is not set, so PostgreSQL is not measured")
			continue
		}
		store, err := sqlstore.Open(b.Context(), cfg)
		if err != nil {
			b.Fatal(err)
		}
		defer store.Close()
		h, err := accountnames.New(b.Context(), store)
		if err != nil {
			b.Fatal(err)
		}
		begun := time.Now()
		var all []accountnames.Entry
		for i := range names {
			all = append(all, accountnames.Entry{ID: fmt.Sprintf("%08x-0000-4000-8000-000000000000", i), Name: fmt.Sprintf("Company%d %s%d GmbH", i, []string{"Acme", "Berlin", "Foo"}[i%3], i%1000)})
			if len(all) == accountnames.MaxPage || i == names-1 {
				if err := h.PutAll(b.Context(), all); err != nil {
					b.Fatal(err)
				}
				all = all[:0]
			}
		}
		b.Logf("%d names are written in %s", names, time.Since(begun))
		for _, text := range []string{"company77", "g", "gmbh", "acme999 gmbh", "gmbh comp", "acme berlin gmbh", "none such"} {
			b.Run(fmt.Sprintf("shared=%v/%s", store.Shared(), text), func(b *testing.B) {
				for b.Loop() {
					if _, _, err := h.Search(b.Context(), text, false, 500); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
