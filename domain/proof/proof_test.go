package proof_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"golang.org/x/mod/sumdb/note"
	"pgregory.net/rapid"

	. "letterhead/domain/proof"
	"letterhead/domain/statement"
	"letterhead/eventschemas"
	"letterhead/internal/testmust"
)

func TestCheck_Proof_ReportsWhatItShows(t *testing.T) {
	w := story(t)
	file := w.proof(november, nil)
	r := testmust.Get(w.check(file, nil))(t)
	if r.AccountID != account || !r.Month.Equal(november) || r.Provisional || r.Events != 8 || r.Note.Size != 3 || r.Checkpoint != w.last {
		t.Errorf("report %+v, want one of 8 events at checkpoint 3", r)
	}
	for _, e := range w.events {
		if n := strings.Count(file, string(e.Data)); n != 1 {
			t.Errorf("the proof has the stored event %s %d times, want once", e.Data, n)
		}
	}
	_, text, _ := strings.Cut(file, "\nstatement\n")
	var got statement.Statement
	testmust.Succeed(t, json.Unmarshal([]byte(text), &got))
	if got.OpeningBalance != 50 || got.Granted != 1000 || got.Used != 3 || got.Reversed != 1 || got.Refunded != 0 || got.ClosingBalance != 1048 || got.Chain.Revision != 6 {
		t.Errorf("statement %+v, want that of November", got)
	}
}

func TestCheck_RunningMonth_IsProvisional(t *testing.T) {
	w := story(t)
	december := november.AddDate(0, 1, 0)
	file := w.proof(december, nil)
	if r, err := w.check(file, nil); err != nil || !r.Provisional {
		t.Errorf("report %+v, %v, want a provisional one", r, err)
	}
	// The tree is from before the month's end, whatever the file says.
	final := strings.Replace(file, "month 2026-12 provisional", "month 2026-12", 1)
	wantLine(t, w, final, lineOf(final, `{"time"`), "before the end of 2026-12")
	november := w.proof(november, nil)
	wantLine(t, w, strings.Replace(november, "month 2026-11", "month 2026-11 provisional", 1), 3, "not provisional")
}

// wantLine fails unless the check names a line with a text.
func wantLine(t *testing.T, w *world, file string, line int, text string) {
	t.Helper()
	_, err := w.check(file, nil)
	var bad *LineError
	if !errors.As(err, &bad) || bad.Line != line || !strings.Contains(bad.Problem, text) {
		t.Errorf("check: %v, want line %d with %q", err, line, text)
	}
}

// lineOf returns the number of the first line with a prefix.
func lineOf(file, prefix string) int {
	for i, line := range strings.Split(file, "\n") {
		if strings.HasPrefix(line, prefix) {
			return i + 1
		}
	}
	return 0
}

// TestCheck_AnyByteChanged_NamesALine changes each byte of a proof in two of six ways. The named line is the changed one
// wherever the lines above it determine it.
func TestCheck_AnyByteChanged_NamesALine(t *testing.T) {
	w := story(t)
	w.rotate(origin)
	w.append(november.AddDate(0, 1, 3), eventschemas.KeyRevoked{KeyID: "k1"})
	w.checkpoint(november.AddDate(0, 1, 4))
	old := w.current
	w.checkpoint(november.AddDate(0, 1, 5))
	file := w.proof(november, old)
	testmust.Succeed(t, testmust.Err(w.check(file, old)))
	number, exact, section := 1, false, ""
	for i := range len(file) {
		if i == 0 || file[i-1] == '\n' {
			line, _, _ := strings.Cut(file[i:], "\n")
			switch line {
			case "since", "log", "accounts, leaf 3", "events", "statement":
				section = line
				exact = section != "accounts, leaf 3" // its number is found to be wrong below
			default:
				exact = section != "" && section != "since"
			}
		}
		variants := [...]string{
			file[:i] + string([]byte{file[i] ^ 1}) + file[i+1:],
			file[:i] + string([]byte{file[i] ^ 0x20}) + file[i+1:],
			file[:i] + string([]byte{file[i] ^ 0x80}) + file[i+1:],
			file[:i] + file[i+1:],
			file[:i] + " " + file[i:],
			file[:i] + "\n" + file[i:],
		}
		for _, changed := range []string{variants[i%6], variants[(i+i/6+1)%6]} { // all six take 10 s
			if changed == file { // a newline before or after a newline is the same
				continue
			}
			_, err := w.check(changed, nil)
			var bad *LineError
			if !errors.As(err, &bad) {
				t.Fatalf("byte %d in line %d (%q) changed: %v, want the line", i, number, file[max(0, i-20):i+1], err)
			}
			if lines := strings.Count(changed, "\n") + 1; bad.Line < 1 || bad.Line > lines || exact && file[i] != '\n' && changed[i] != '\n' && bad.Line != number {
				t.Errorf("byte %d in line %d changed: %v", i, number, err)
			}
		}
		if file[i] == '\n' {
			number++
		}
	}
	if _, err := w.check(file+"\n", nil); !errors.As(err, new(*LineError)) {
		t.Errorf("a line at the end: %v, want a LineError", err)
	}
	for i := 0; i < len(file); i += 5 {
		if _, err := w.check(file[:i], nil); !errors.As(err, new(*LineError)) {
			t.Fatalf("the first %d bytes: %v, want a LineError", i, err)
		}
	}
}

func TestCheck_EventLeftOut_IsNamed(t *testing.T) {
	w := story(t)
	lines := strings.SplitAfter(w.proof(november, nil), "\n")
	first := lineOf(strings.Join(lines, ""), "events")
	for i := range w.events {
		without := append(append([]string{}, lines[:first+i]...), lines[first+i+1:]...)
		text := "should have"
		if i == len(w.events)-1 {
			text = "from revision 7 to 7 are missing"
		}
		wantLine(t, w, strings.Join(without, ""), first+1+i, text)
	}
}

// TestCheck_EventsOfAnotherHistory_AreNotThoseOfTheCheckpoint gives a file whose own hashes are all right.
func TestCheck_EventsOfAnotherHistory_AreNotThoseOfTheCheckpoint(t *testing.T) {
	w, other := story(t), story(t)
	file := w.proof(november, nil)
	other.events = other.events[:len(other.events)-1]
	other.append(november.AddDate(0, 1, 1), eventschemas.PaymentRefunded{RefundID: "re_1", PaymentID: "pi_1", Credits: 101, Money: &eventschemas.Money{Minor: 490, Currency: "EUR"}})
	other.checkpoint(november.AddDate(0, 1, 2))
	_, events, _ := strings.Cut(other.proof(november, nil), "\nevents\n")
	above, _, _ := strings.Cut(file, "\nevents\n")
	forged := above + "\nevents\n" + events
	wantLine(t, w, forged, lineOf(forged, `{"revision":7`), "not those of the checkpoint")
	// An account's own proof is not one of another account.
	wantLine(t, w, strings.Replace(file, "account "+account, "account 9f0c4a52-6f0e-4c35-9a55-1d1c2d3e4f52", 1), 2, account)
}

// TestCheck_ForgedAmounts_AreNamed gives events that no decision has made. Their hashes are right, and each is found before
// it is known that they are not those of the checkpoint.
func TestCheck_ForgedAmounts_AreNamed(t *testing.T) {
	euros := func(minor int64) *eventschemas.Money { return &eventschemas.Money{Minor: minor, Currency: "EUR"} }
	grant := eventschemas.CreditsGranted{GrantID: "g", Kind: "topup", PaymentID: "p", Money: euros(100)}
	w := story(t)
	above, _, _ := strings.Cut(w.proof(november, nil), "\nevents\n")
	for _, c := range []struct {
		events []eventschemas.Event // the last one is named
		want   string
	}{
		{[]eventschemas.Event{grant, eventschemas.PaymentRefunded{RefundID: "r", PaymentID: "p", Credits: -1}}, "-1 credits"},
		{[]eventschemas.Event{grant, eventschemas.PaymentRefunded{RefundID: "r", PaymentID: "p", Money: euros(-1)}}, "-1 minor units of money"},
		{[]eventschemas.Event{eventschemas.CreditsGranted{GrantID: "g", Credits: 1 << 53}}, "credits"},
		{[]eventschemas.Event{eventschemas.CreditsGranted{GrantID: "g", Credits: 1, Money: euros(1 << 53)}}, "of money"},
		{[]eventschemas.Event{eventschemas.CreditsGranted{GrantID: "g", Credits: 1, Money: euros(1), Tax: 2}}, "2 minor units of tax"},
		{[]eventschemas.Event{eventschemas.CreditsGranted{GrantID: "g", Credits: 1, Tax: -1}}, "-1 minor units of tax"},
		{[]eventschemas.Event{eventschemas.CreditsCharged{ChargeID: "c", Credits: -1}}, "-1 credits"},
		{[]eventschemas.Event{eventschemas.ChargeReversed{ChargeID: "c", Credits: -1}}, "-1 credits"},
		{[]eventschemas.Event{eventschemas.BreakageRecognized{Credits: -1, Policy: "p"}}, "-1 credits"},
		{[]eventschemas.Event{grant, eventschemas.PaymentRefunded{RefundID: "r", PaymentID: "p"}, eventschemas.PaymentRefunded{RefundID: "s", PaymentID: "p", Credits: 1},
			eventschemas.KeyRevoked{KeyID: "k"}, eventschemas.KeyRevoked{KeyID: "k"}, eventschemas.KeyRevoked{KeyID: "k"}, eventschemas.KeyRevoked{KeyID: "k"}, eventschemas.KeyRevoked{KeyID: "k"}},
			"not those of the checkpoint"},
	} {
		other := newWorld(t)
		other.append(november, c.events...)
		forged := above + "\nevents\n" + other.lines()
		wantLine(t, w, forged, strings.Count(forged, "\n"), c.want)
		if err := Write(&bytes.Buffer{}, &Proof{Month: november, Note: w.current, Checkpoint: w.last, Account: w.leaves[3]}, other.stored(uint64(len(other.events)-1))); (err == nil) != strings.HasPrefix(c.want, "not") {
			t.Errorf("Write of %v: %v", c.events, err)
		}
	}
}

func TestCheck_OtherKey_IsUnknown(t *testing.T) {
	w := story(t)
	file := w.proof(november, nil)
	w.public = nil
	w.rotate(origin)
	wantLine(t, w, file, 10, ErrUnknownKey.Error())
}

func TestCheck_RotatedKey_OldKeysCheckOldProofs(t *testing.T) {
	w := story(t)
	before, old := w.proof(november, nil), w.current
	w.rotate(origin)
	w.checkpoint(november.AddDate(0, 1, 3))
	after := w.proof(november, old)
	for name, file := range map[string]string{"before": before, "after": after} {
		if _, err := w.check(file, old); err != nil {
			t.Errorf("the proof from %s the rotation: %v", name, err)
		}
	}
	w.public = w.public[:1]
	if _, err := w.check(after, nil); err == nil || !strings.Contains(err.Error(), ErrUnknownKey.Error()) {
		t.Errorf("check without the old key: %v, want that it is unknown", err)
	}
}

func TestCheck_SinceProof_AccountStillHasItsEvents(t *testing.T) {
	opened := eventschemas.AccountOpened{AccountID: account, Holder: "h", Plan: "free"}
	free := eventschemas.CreditsGranted{GrantID: "g1", Kind: "free", Credits: 50}
	charge := func(id string, credits int64) eventschemas.Event {
		return eventschemas.CreditsCharged{ChargeID: id, Credits: credits, RequestID: id, BrandID: "b", Domain: "acme.com", RecordRevision: 1, KeyID: "k1"}
	}
	before := []eventschemas.Event{opened, free, charge("c1", 1), charge("c2", 1)}
	for name, c := range map[string]struct {
		after []eventschemas.Event
		want  string // a part of the error, empty if there is none
	}{
		"the same":                {before, ""},
		"more":                    {append(slices.Clone(before), charge("c3", 1)), ""},
		"fewer":                   {before[:3], "events were removed"},
		"another event":           {[]eventschemas.Event{opened, free, charge("c1", 40), charge("c2", 1)}, "history was rewritten"},
		"another event, and more": {[]eventschemas.Event{opened, free, charge("c1", 40), charge("c2", 1), charge("c3", 1)}, "history was rewritten"},
		"another, and one fewer":  {[]eventschemas.Event{opened, free, charge("c1", 40)}, "events were removed"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.append(november, before...)
			old := w.checkpoint(november.AddDate(0, 1, 0))
			kept := w.proof(november, nil)
			w.events = nil
			w.append(november, c.after...)
			w.checkpoint(november.AddDate(0, 1, 1))
			earlier, err := ReadEarlier(strings.NewReader(kept), w.keys())
			w.ok(err)
			report, err := Check(strings.NewReader(w.proof(november, old)), w.keys(), earlier)
			switch bad := (*LineError)(nil); {
			case c.want == "" && (err != nil || report.Events != uint64(len(c.after)) || report.Unchanged != uint64(len(before))):
				t.Errorf("%+v, %v, want that the proof continues the earlier one", report, err)
			case c.want != "" && (!errors.As(err, &bad) || !strings.Contains(bad.Problem, c.want)):
				t.Errorf("%v, want %q", err, c.want)
			}
			// Neither the proof of another account nor a checkpoint alone shows what the account had.
			if c.want != "" {
				ofAnother := *earlier.Proof
				ofAnother.AccountID = "7c5d0b3e-0000-4000-8000-000000000000"
				if report, err := Check(strings.NewReader(w.proof(november, old)), w.keys(), &Earlier{Note: old, Proof: &ofAnother}); err != nil || report.Unchanged != 0 {
					t.Errorf("since the proof of another account: %+v, %v", report, err)
				}
			}
			if earlier, err = ReadEarlier(strings.NewReader(old.Text), w.keys()); err != nil || earlier.Proof != nil {
				t.Errorf("the kept checkpoint: %+v, %v", earlier, err)
			} else if _, err := Check(strings.NewReader(w.proof(november, old)), w.keys(), earlier); err != nil {
				t.Errorf("since the checkpoint alone: %v", err)
			}
		})
	}
}

func TestReadEarlier_ChangedFile_Fails(t *testing.T) {
	w := story(t)
	file := w.proof(november, nil)
	for name, text := range map[string]string{
		"a proof with another event": strings.Replace(file, `"credits":1000`, `"credits":1001`, 1),
		"a shortened proof":          file[:len(file)/2],
		"another signature":          strings.Replace(w.current.Text, "\n\n", "x\n\n", 1),
		"another text":               "hello\n",
		"nothing":                    "",
	} {
		if earlier, err := ReadEarlier(strings.NewReader(text), w.keys()); err == nil {
			t.Errorf("%s was read as %+v", name, earlier)
		}
	}
}

func TestCheck_Since_ShowsGrowth(t *testing.T) {
	w := story(t)
	var notes []*Note
	for day := range 6 {
		notes = append(notes, w.checkpoint(november.AddDate(0, 2, day)))
	}
	for i, old := range notes {
		file := w.proof(november, old)
		r, err := w.check(file, old)
		if err != nil || r.Since.Size != old.Size {
			t.Errorf("since %d: %+v, %v", i, r, err)
		}
		if read, err := ReadNote([]byte(file)); err != nil || *read != *w.current {
			t.Errorf("ReadNote of the proof: %+v, %v, want %+v", read, err, w.current)
		}
	}
	file := w.proof(november, notes[2])
	sinceFails := func(since *Note, text string) {
		t.Helper()
		_, err := w.check(file, since)
		var bad *LineError
		if !errors.As(err, &bad) || bad.Line != 7 || !strings.Contains(bad.Problem, text) {
			t.Errorf("since %+v: %v, want line 7 with %q", since, err, text)
		}
	}
	sinceFails(notes[1], "make it with --since")
	rewritten := *notes[2]
	rewritten.Root[0]++
	sinceFails(&rewritten, "rewritten")
	last := *w.current
	last.Root[0]++
	sinceFails(&last, "rewritten")
	longer := *w.current
	longer.Size++
	sinceFails(&longer, "shortened")
	other := *notes[2]
	other.Origin = "other.example.com/ledger"
	sinceFails(&other, "other.example.com")
	if _, err := w.check(w.proof(november, nil), w.current); err != nil {
		t.Errorf("since the same checkpoint: %v", err)
	}
}

// TestCheck_LogRewritten_IsFound makes another log of the same length behind an old checkpoint.
func TestCheck_LogRewritten_IsFound(t *testing.T) {
	w := story(t)
	old := w.current
	w.log[0][0]++
	w.checkpoint(november.AddDate(0, 2, 0))
	_, err := w.check(w.proof(november, old), old)
	if err == nil || !strings.Contains(err.Error(), "do not show that the log continues") {
		t.Errorf("check of a rewritten log: %v", err)
	}
}

func TestPathAndConsistency_AnyTree_AgreeWithTheLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		leaves := make([]Hash, rapid.IntRange(1, 70).Draw(t, "leaves"))
		for i := range leaves {
			leaves[i] = LeafHash(fmt.Append(nil, i))
		}
		root := testmust.Get(Root(leaves))(t)
		index := uint64(rapid.IntRange(0, len(leaves)-1).Draw(t, "index"))
		path := testmust.Get(Path(leaves, index))(t)
		// The library's proof has the siblings from the leaf up.
		var siblings [][]byte
		size, at := uint64(len(leaves)), index
		for _, c := range path {
			k := uint64(1)
			for k*2 < size {
				k *= 2
			}
			sibling := c.Right
			if at < k {
				size = k
			} else {
				sibling, at, size = c.Left, at-k, size-k
			}
			siblings = append([][]byte{sibling[:]}, siblings...)
		}
		testmust.Succeed(t, proof.VerifyInclusion(rfc6962.DefaultHasher, index, uint64(len(leaves)), leaves[index][:], siblings, root[:]))
		first := rapid.IntRange(1, len(leaves)).Draw(t, "first")
		hashes := testmust.Get(Consistency(leaves, uint64(first)))(t)
		var list [][]byte
		for i := range hashes {
			list = append(list, hashes[i][:])
		}
		before := testmust.Get(Root(leaves[:first]))(t)
		testmust.Succeed(t, proof.VerifyConsistency(rfc6962.DefaultHasher, uint64(first), uint64(len(leaves)), list, before[:], root[:]))
	})
}

func TestWrite_EventThatIsNoLine_Fails(t *testing.T) {
	w := story(t)
	w.events[3].Data = append([]byte("\n"), w.events[3].Data...)
	err := Write(&bytes.Buffer{}, &Proof{Month: november, Note: w.current, Checkpoint: w.last, Account: w.leaves[3]}, w.stored(7))
	if err == nil || !strings.Contains(err.Error(), "revision 3") {
		t.Errorf("Write: %v, want an error about revision 3", err)
	}
}

func TestKeys_ThatAreNone_AreRejected(t *testing.T) {
	for _, text := range []string{"", "\n", "x", "PRIVATE+KEY+a+b+c", "a+00000000+AA=="} {
		if _, err := ParseKeys(text); err == nil {
			t.Errorf("ParseKeys(%q) succeeds", text)
		}
		if _, err := PublicKey(text); err == nil {
			t.Errorf("PublicKey(%q) succeeds", text)
		}
	}
	for _, name := range []string{"", "a b", "a+b"} {
		if _, err := NewKey(name); err == nil {
			t.Errorf("NewKey(%q) succeeds", name)
		}
	}
}

func TestParseKeys_ErrorsKeepTheLineSecret(t *testing.T) {
	w := newWorld(t)
	for text, want := range map[string]error{w.key: ErrPrivateKey, w.public[0] + "\n\n  " + w.key: ErrPrivateKey, "secret": nil} {
		_, err := ParseKeys(text)
		if err == nil || want != nil && !errors.Is(err, want) || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), w.key[len("PRIVATE+KEY+"):]) {
			t.Errorf("ParseKeys: %v, want an error without the line", err)
		} else if line := fmt.Sprintf("line %d", 1+strings.Count(text, "\n")); !strings.Contains(err.Error(), line) {
			t.Errorf("ParseKeys: %v, want %s", err, line)
		}
	}
}

func TestParseNote_EmptyLog_IsRejected(t *testing.T) {
	w := newWorld(t)
	signer, err := note.NewSigner(w.key)
	w.ok(err)
	root, err := Root(nil)
	w.ok(err)
	text, err := Sign(signer, 0, root)
	w.ok(err)
	if _, err := Open(text, w.keys()); !errors.Is(err, ErrNote) {
		t.Errorf("a checkpoint of an empty log: %v, want ErrNote", err)
	}
}

// FuzzCheck: no input panics, and nothing but a proof that was written is accepted.
func FuzzCheck(f *testing.F) {
	w := story(f)
	old := w.current
	valid := map[string]bool{w.proof(november, nil): true, w.proof(november.AddDate(0, -1, 0), nil): true}
	w.checkpoint(november.AddDate(0, 1, 10))
	for _, since := range []*Note{nil, old} {
		valid[w.proof(november, since)] = true
	}
	for file := range valid {
		f.Add([]byte(file))
	}
	keys := w.keys()
	f.Fuzz(func(t *testing.T, file []byte) {
		_, err := Check(bytes.NewReader(file), keys, nil)
		if err == nil != valid[string(file)] {
			t.Errorf("check: %v, want that it succeeds: %t", err, valid[string(file)])
		}
		if err != nil && !errors.As(err, new(*LineError)) {
			t.Errorf("check: %v, want a LineError", err)
		}
		if n, err := ReadNote(file); err != nil && n != nil {
			t.Errorf("ReadNote: %+v and %v", n, err)
		}
	})
}

// BenchmarkCheck_100000Events: the check should take less than a second.
func BenchmarkCheck_100000Events(b *testing.B) {
	w := newWorld(b)
	w.append(november, eventschemas.AccountOpened{AccountID: account, Holder: "h", Plan: "growth"}, eventschemas.CreditsGranted{GrantID: "g", Kind: "topup", Credits: 1_000_000})
	for i := len(w.events); i < 100_000; i++ {
		id := fmt.Sprintf("5f0c6a1e-6f0b-4f6e-9d51-%012x", i)
		w.append(november.Add(time.Duration(i)*time.Second), eventschemas.CreditsCharged{ChargeID: id, Credits: 1, RequestID: id,
			BrandID: "0b7d2c9a-1c55-4b8e-8a3f-6d2f9b1e4a77", Domain: "example.com", RecordRevision: 3, KeyID: "0b7d2c9a-1c55-4b8e-8a3f-6d2f9b1e4a78"})
	}
	w.checkpoint(november.AddDate(0, 1, 0))
	file := w.proof(november, nil)
	b.SetBytes(int64(len(file)))
	for b.Loop() {
		testmust.Succeed(b, testmust.Err(w.check(file, nil)))
	}
}
