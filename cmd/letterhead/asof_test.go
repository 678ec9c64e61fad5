package main

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"letterhead/adminapi"
	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
)

func TestAsOf_GeneratedHistory_AgreesWithTheLedger(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "generated")
	output(t, folder, "dev", "generate", "--accounts", "12", "--events", "2000", "--until", "2026-06", "--months", "6")
	const moment = "2026-03"
	type line struct {
		Account struct{ ID, Plan, Status string }
		Credits struct{ Balance int64 }
	}
	count := 0
	for text := range strings.Lines(output(t, folder, "account", "list", "--as-of", moment, "--sort", "balance", "--json")) {
		var listed, shown line
		testmust.Succeed(t, json.Unmarshal([]byte(text), &listed))
		count++
		id := listed.Account.ID
		var more struct {
			AsOf              time.Time `json:"as_of"`
			Lots              []struct{ Unspent int64 }
			Lookups, Searches *struct {
				Month string
				Count int64
			}
			Deficit int64
		}
		text := output(t, folder, "account", "show", id, "--as-of", moment, "--json")
		if err := json.Unmarshal([]byte(text), &shown); err != nil || shown != listed {
			t.Errorf("account show prints %s (%v), account list %+v", text, err, listed)
		}
		if err := json.Unmarshal([]byte(text), &more); err != nil || !more.AsOf.Equal(time.Date(2026, 4, 1, 0, 0, 0, -1000, time.UTC)) {
			t.Errorf("account show is as of %s, %v", more.AsOf, err)
		}
		if more.Lookups == nil || more.Lookups.Month != moment || more.Searches == nil || more.Searches.Month != moment {
			t.Errorf("account show prints %s, without the usage of the month", text)
		}
		if text := output(t, folder, "account", "show", id, "--as-of", "2026-03-31T23:59:59Z", "--json"); strings.Contains(text, "searches") || strings.Contains(text, "logos") {
			t.Errorf("within a month, account show prints %s", text)
		}
		open := -more.Deficit
		for _, l := range more.Lots {
			open += l.Unspent
		}
		var last struct {
			Balance int64
			At      time.Time
		}
		testmust.Succeed(t, json.Unmarshal([]byte(output(t, folder, "ledger", "show", "--account", id, "--as-of", moment, "--last", "1", "--json")), &last))
		if last.Balance != listed.Credits.Balance || open != last.Balance || last.At.After(more.AsOf) {
			t.Errorf("account %s: balance %d, open lots %d, want %d of %s", id, listed.Credits.Balance, open, last.Balance, last.At)
		}
	}
	if now := strings.Count(output(t, folder, "account", "list", "--json"), "\n"); count == 0 || count >= now {
		t.Errorf("%d accounts as of %s, and %d now", count, moment, now)
	}
	if past := output(t, folder, "account", "list", "--as-of", "2025-11", "--json"); past != "" {
		t.Errorf("accounts before the history: %s", past)
	}
}

func TestAsOf_NamesErasedSince_AreNotShown(t *testing.T) {
	folder, id := openAccount(t)
	var issued struct{ ID string }
	testmust.Succeed(t, json.Unmarshal([]byte(output(t, folder, "key", "issue", "--account", id, "--name", "my key", "--json")), &issued))
	moment := time.Now().UTC().Format(time.RFC3339Nano)
	shown := func() string {
		return output(t, folder, "account", "show", id, "--as-of", moment) + output(t, folder, "account", "list", "--as-of", moment) +
			output(t, folder, "key", "list", "--account", id, "--as-of", moment)
	}
	if text := shown(); !strings.Contains(text, "Acme") || !strings.Contains(text, "my key") {
		t.Errorf("before the account is closed: %s", text)
	}
	output(t, folder, "key", "revoke", issued.ID)
	output(t, folder, "account", "close", id)
	text := shown()
	if strings.Contains(text, "Acme") || strings.Contains(text, "my key") {
		t.Errorf("erased names are shown: %s", text)
	}
	if !strings.Contains(text, "status   active") || strings.Contains(text, "revoked") || strings.Count(text, issued.ID) != 1 {
		t.Errorf("before it was closed, the account was %s", text)
	}
	if keys := output(t, folder, "key", "list", "--account", id, "--as-of", time.Now().UTC().Format(time.DateOnly), "--state", "revoked"); !strings.Contains(keys, issued.ID) {
		t.Errorf("revoked keys at the end of the day: %s", keys)
	}
	if keys := output(t, folder, "key", "list", "--account", id, "--as-of", "2020-01", "--json"); keys != "" {
		t.Errorf("keys before the account: %s", keys)
	}
}

func TestParsePast_RunningMonthOrDay_IsNow(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 1234, time.UTC)
	for text, want := range map[string]adminapi.Moment{
		"":                     {},
		"2026-10":              {Time: time.Date(2026, 11, 1, 0, 0, 0, -1000, time.UTC)},
		"2026-11-29":           {Time: time.Date(2026, 11, 30, 0, 0, 0, -1000, time.UTC)},
		"2026-11-30T11:00:00Z": {Time: time.Date(2026, 11, 30, 11, 0, 0, 0, time.UTC)},
		"2026-11":              {Time: now.Truncate(time.Microsecond), Provisional: true},
		"2026-11-30":           {Time: now.Truncate(time.Microsecond), Provisional: true},
	} {
		if got, err := parsePast(text, now); err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"2026-12", "2026-12-01", "2026-11-30T12:00:01Z"} {
		if got, err := parsePast(text, now); !errors.As(err, &usageError{}) {
			t.Errorf("%s: %v, %v; want a usage error", text, got, err)
		}
	}
}

func TestAsOf_RunningMonth_IsProvisional(t *testing.T) {
	folder, id := openAccount(t)
	imported, err := eventschemas.Encode(eventschemas.BrandImported{BrandID: brand.ID("acme.com").String(), Domain: "acme.com", Source: "test 1", Record: eventschemas.Record{Company: eventschemas.EmptyCompany()}})
	testmust.Succeed(t, err)
	n := openFolder(t, folder)
	_, err = n.Stores.Log.Append(t.Context(), brand.Stream("acme.com"), eventlog.NoStream(), []eventlog.Proposed{
		{ID: uuid.New(), Type: imported.Type, SchemaVersion: imported.SchemaVersion, OccurredAt: time.Unix(1, 0).UTC(), Data: imported.Data}})
	testmust.Succeed(t, errors.Join(err, n.Close()))
	month := time.Now().UTC().Format("2006-01")
	for _, command := range []string{"account show " + id, "account list", "key list --account " + id} {
		args := append(strings.Fields(command), "--as-of", month)
		text, object := output(t, folder, args...), output(t, folder, append(args, "--json")...)
		if !strings.Contains(text, "provisional") || strings.Count(object, `"provisional":true`) != strings.Count(object, "\n") || strings.Contains(text+object, "searches") {
			t.Errorf("%s prints %s%s", command, text, object)
		}
	}
	var got struct{ Provisional bool }
	if text := output(t, folder, "brand", "get", "acme.com", "--as-of", month); json.Unmarshal([]byte(text), &got) != nil || !got.Provisional {
		t.Errorf("brand get prints %s", text)
	}
}

func TestJournalExport_RunningMonth_PrintsNote(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "generated")
	output(t, folder, "dev", "generate", "--accounts", "2", "--events", "50", "--until", "2020-06", "--months", "2")
	for _, c := range []struct {
		args string
		note bool
	}{
		{"", true},
		{"--to 2999-12", true},
		{"--from 2020-05 --to 2020-06", false},
		{"--to 2020-06-15", false},
	} {
		for _, file := range []string{"-", filepath.Join(t.TempDir(), "journal.csv")} {
			args := append(strings.Fields("journal export --data "+folder+" "+c.args), "-o", file)
			code, stdout, stderr := commandLine(t.Context(), args...)
			if code != exitOK || strings.Contains(stdout, "note:") {
				t.Fatalf("%v ended with %d: %s%s", args, code, stdout, stderr)
			}
			if strings.Contains(stderr, "has not ended; the transactions of this month are provisional\n") != c.note {
				t.Errorf("%v prints %q, want a note: %t", args, stderr, c.note)
			}
		}
	}
}

func TestJournalExport_Summary_PrintsALineForEachPostingOfAMonth(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "generated")
	output(t, folder, "dev", "generate", "--accounts", "5", "--events", "500", "--until", "2020-06", "--months", "2")
	detail := output(t, folder, "journal", "export", "-o", "-")
	months := output(t, folder, "journal", "export", "--summary", "month", "-o", "-")
	days := output(t, folder, "journal", "export", "--summary", "day", "-o", "-")
	lines := func(text string) int { return strings.Count(text, "\n") }
	if lines(months) < 3 || lines(months) >= lines(days) || lines(days) >= lines(detail) {
		t.Errorf("%d lines by month, %d by day and %d in the detail", lines(months), lines(days), lines(detail))
	}
	if !strings.Contains(months, "\n2020-05/CREDIT/") {
		t.Errorf("the summary by month is\n%s\nwant transactions of May 2020", months)
	}
}

func TestKeyList_UnknownUse_IsLast(t *testing.T) {
	at := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	keys := []adminapi.Key{{ID: "later", LastUsedAt: at.Add(1)}, {ID: "used", LastUsedAt: at.Add(-1)}, {ID: "never"}}
	rows := make([]row[listedKey], len(keys))
	for i := range rows {
		rows[i].value.Key = keys[i]
		rows[i].value.setUsed(at)
	}
	unknownLast(rows)
	if rows[0].value.ID != "used" || rows[1].value.used != "never" || rows[2].value.ID != "later" {
		t.Errorf("the keys are %v", rows)
	}
}

func TestAsOf_Mistakes_AreExplained(t *testing.T) {
	folder, id := openAccount(t)
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"account show " + id + " --as-of yesterday", exitUsage, "--as-of"},
		{"account show " + id + " --as-of 2020-01", exitFailure, "was opened later"},
		{"account show none --as-of 2020-01", exitFailure, "there is no account none"},
		{"account list --as-of 2020-01-32", exitUsage, "--as-of"},
		{"account show " + id + " --as-of 9999-12", exitUsage, "in the future"},
		{"account list --as-of 9999-12-31", exitUsage, "in the future"},
		{"key list --account " + id + " --as-of 9999-12-31T00:00:00Z", exitUsage, "in the future"},
		{"brand get acme.com --as-of 9999-12", exitUsage, "in the future"},
		{"key list --account " + id + " --as-of 2020-13", exitUsage, "--as-of"},
		{"ledger show --account " + id + " --as-of 9999-12", exitUsage, "in the future"},
		{"books trial-balance --at 9999-12", exitUsage, "in the future"},
		{"books deferred --at 9999-12-31", exitUsage, "in the future"},
		{"journal export --from 9999-12 -o -", exitUsage, "in the future"},
		{"journal export --summary year -o -", exitUsage, "--summary is day or month, not \"year\""},
		{"brand get acme.com --as-of 2020-01", exitFailure, "there was no brand acme.com"},
		{"brand get b9c8bc0a-0b38-5c5c-9f6d-3c1f4f3e0a01 --as-of 2020-01", exitFailure, "there was no brand"},
	} {
		code, stdout, stderr := commandLine(t.Context(), append(strings.Fields(c.args), "--data", folder)...)
		if code != c.code || stdout != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("%s ended with %d: %s%s; want %d and %q", c.args, code, stdout, stderr, c.code, c.want)
		}
	}
}

func TestAccountShow_LotWithoutMoney_HasZeros(t *testing.T) {
	folder, id := openAccount(t)
	text := output(t, folder, "account", "show", id, "--as-of", time.Now().UTC().Format(time.RFC3339Nano), "--json")
	var shown struct{ Lots []map[string]any }
	if err := json.Unmarshal([]byte(text), &shown); err != nil || len(shown.Lots) != 1 {
		t.Fatalf("%v: %s", err, text)
	}
	for _, amount := range []string{"broken", "money", "tax", "returned", "recognized", "breakage", "deferred"} {
		if got := shown.Lots[0][amount]; got != 0.0 {
			t.Errorf("%s is %v, want 0", amount, got)
		}
	}
}
