package proof_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"letterhead/domain/proof"
	"letterhead/internal/testmust"
)

// keptFile returns a kept checkpoint of as many accounts.
func keptFile(t testing.TB, accounts int) []byte {
	t.Helper()
	k := &proof.Kept{Checkpoint: proof.Checkpoint{Time: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), Position: 9, Accounts: uint64(accounts)}}
	for i := range accounts {
		k.Leaves = append(k.Leaves, proof.Account{ID: fmt.Sprintf("%08d", i), Revision: uint64(i), Head: proof.Hash{byte(i)}})
	}
	_, root, err := proof.AccountsTree(k.Leaves)
	testmust.Succeed(t, err)
	k.Root = root
	signer := testmust.Get(note.NewSigner(testmust.Get(proof.NewKey("brands.example.com/ledger"))(t)))(t)
	k.Note = testmust.Get(proof.ParseNote(testmust.Get(proof.Sign(signer, 1, proof.LeafHash(testmust.Get(k.Leaf())(t))))(t)))(t)
	var file bytes.Buffer
	testmust.Succeed(t, k.Write(&file))
	return file.Bytes()
}

// edited returns the file with another text.
func edited(t testing.TB, file []byte, edit func(string) string) []byte {
	t.Helper()
	text := testmust.Get(io.ReadAll(testmust.Get(gzip.NewReader(bytes.NewReader(file)))(t)))(t)
	var changed bytes.Buffer
	zip := gzip.NewWriter(&changed)
	testmust.Succeed(t, errors.Join(testmust.Err(io.WriteString(zip, edit(string(text)))), zip.Close()))
	return changed.Bytes()
}

func TestReadKept_FileIsWhole_HasTheAccounts(t *testing.T) {
	file := keptFile(t, 3000)
	k := testmust.Get(proof.ReadKept(bytes.NewReader(file[:min(len(file), 64<<10)]), ""))(t)
	k = testmust.Get(proof.ReadKept(bytes.NewReader(file), k.Note.Text))(t)
	if len(k.Leaves) != 3000 || len(k.Hashes) != 3000 || k.Leaves[2999].Revision != 2999 {
		t.Errorf("%d leaves and %d hashes, want 3000", len(k.Leaves), len(k.Hashes))
	}
}

func TestReadKept_FileIsWrong_IsDamaged(t *testing.T) {
	last := func(text string) string { return text[strings.LastIndex(text[:len(text)-1], "\n")+1:] }
	for name, edit := range map[string]func(string) string{
		"empty line":        func(text string) string { return text + "\n" },
		"one more account":  func(text string) string { return text + strings.ReplaceAll(last(text), "00000003", "00000004") },
		"one account twice": func(text string) string { return text + last(text) },
		"one account less":  func(text string) string { return strings.TrimSuffix(text, last(text)) },
		"another revision":  func(text string) string { return strings.Replace(text, `"revision":1,`, `"revision":2,`, 1) },
	} {
		file := keptFile(t, 4)
		k := testmust.Get(proof.ReadKept(bytes.NewReader(file), ""))(t)
		if _, err := proof.ReadKept(bytes.NewReader(edited(t, file, edit)), k.Note.Text); !errors.Is(err, proof.ErrDamaged) {
			t.Errorf("%s: %v, want ErrDamaged", name, err)
		}
	}
}

// A small file can have many lines.
func TestReadKept_ManyLines_StopsAtTheFirstWrongOne(t *testing.T) {
	file := keptFile(t, 2)
	k := testmust.Get(proof.ReadKept(bytes.NewReader(file), ""))(t)
	for name, line := range map[string]string{"empty": "", "valid": fmt.Sprintf(`{"account":"a","revision":0,"head":"%064d"}`, 0)} {
		bomb := edited(t, file, func(text string) string { return text + strings.Repeat(line+"\n", 1<<18) })
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := proof.ReadKept(bytes.NewReader(bomb), k.Note.Text)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, proof.ErrDamaged) || took > 1<<20 {
			t.Errorf("%s lines: %v after %d bytes of memory, want ErrDamaged and at most 1 MiB", name, err, took)
		}
	}
}

func FuzzReadKept(f *testing.F) {
	f.Add(keptFile(f, 3))
	f.Fuzz(func(t *testing.T, file []byte) {
		k, err := proof.ReadKept(bytes.NewReader(file), "")
		if err != nil {
			return
		}
		if k, err = proof.ReadKept(bytes.NewReader(file), k.Note.Text); err == nil && uint64(len(k.Leaves)) > k.Accounts {
			t.Errorf("%d accounts, more than %d", len(k.Leaves), k.Accounts)
		}
	})
}
