package bleveindex_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"letterhead/internal/searchindex"
	"letterhead/internal/searchindex/bleveindex"
	"letterhead/internal/testmust"
)

// filled creates an index from a few batches, so that it has several segments, and returns its folder.
func filled(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "search")
	x := open(t, dir)
	fill(t, x)
	testmust.Succeed(t, x.Close())
	return dir
}

func fill(t *testing.T, x *bleveindex.Index) {
	t.Helper()
	testmust.Succeed(t, fillIndex(x))
}

func fillIndex(x *bleveindex.Index) error {
	for i := range uint64(3) {
		var docs []searchindex.Document
		for j := range uint64(50) {
			n := i*50 + j + 1
			docs = append(docs, searchindex.Document{Domain: fmt.Sprintf("site%d.com", n), Name: fmt.Sprintf("Site %d", n), Version: n})
		}
		if err := x.Apply(context.Background(), docs, (i+1)*50); err != nil {
			return err
		}
	}
	return nil
}

// filesOf returns all files below a folder except the lock.
func filesOf(t *testing.T, dir string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && d.Name() != "LOCK" {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) < 4 {
		t.Fatalf("files %v, %v", files, err)
	}
	return files
}

// works opens a folder and uses the index; it returns the checkpoint after opening.
func works(t *testing.T, dir string) uint64 {
	t.Helper()
	ctx := context.Background()
	x := open(t, dir)
	defer func() {
		if err := x.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	at, _, err := x.Checkpoint(ctx)
	testmust.Succeed(t, err)
	hits, err := x.Search(ctx, "site 7", 5)
	if err != nil || (len(hits) > 0) != (at > 0) {
		t.Errorf("at %d the index finds %v, %v", at, hits, err)
	}
	fill(t, x)
	if hits, err := x.Search(ctx, "site 7", 1); err != nil || len(hits) != 1 {
		t.Errorf("after new documents the index finds %v, %v", hits, err)
	}
	return at
}

// damages are ways to damage a file.
var damages = map[string]func(path string) error{
	"emptied":   func(path string) error { return os.Truncate(path, 0) },
	"cut":       func(path string) error { return edit(path, func(b []byte) []byte { return b[:len(b)/2] }) },
	"removed":   os.Remove,
	"scrambled": func(path string) error { return edit(path, scramble) },
	"grown":     func(path string) error { return edit(path, func(b []byte) []byte { return append(b, b...) }) },
}

func scramble(b []byte) []byte {
	for i := len(b) / 3; i < len(b); i += 7 {
		b[i] ^= 0x5a
	}
	return b
}

func edit(path string, change func([]byte) []byte) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, change(data), 0o600)
}

// counterpart returns the file of that name in another index. The numbers of segments depend on the time of merges,
// so if the name does not exist, counterpart returns another file of its kind.
func counterpart(t *testing.T, dir, base string) string {
	t.Helper()
	kin := ""
	for _, f := range filesOf(t, dir) {
		if filepath.Base(f) == base {
			return f
		}
		if filepath.Ext(f) == filepath.Ext(base) {
			kin = f
		}
	}
	if kin == "" {
		t.Fatalf("the index has no file like %s", base)
	}
	return kin
}

func TestOpen_DamagedFolder_StartsEmpty(t *testing.T) {
	for _, file := range filesOf(t, filled(t)) {
		base := filepath.Base(file)
		for name, damage := range damages {
			t.Run(base+" "+name, func(t *testing.T) {
				dir := filled(t)
				testmust.Succeed(t, damage(counterpart(t, dir, base)))
				// Files outside the index itself may be missing: the index is then verified without the list.
				spare := strings.HasSuffix(base, ".sums") && name == "removed"
				if at := works(t, dir); at != 0 && !spare {
					t.Errorf("the index continues at %d", at)
				}
			})
		}
	}
}

// childFolder is the environment variable that makes the test binary a process to kill.
const childFolder = "LETTERHEAD_TEST_SEARCH_FOLDER"

func TestMain(m *testing.M) {
	if folder := os.Getenv(childFolder); folder != "" {
		fmt.Fprintln(os.Stderr, fillAndWait(folder))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// fillAndWait fills an index, reports it on stdout, and keeps it open: its segments are merged in the
// background. It ends when the parent process has exited without killing it.
func fillAndWait(folder string) error {
	x, err := bleveindex.Open(context.Background(), bleveindex.Config{Path: folder})
	if err == nil {
		err = fillIndex(x)
	}
	if err != nil {
		return err
	}
	if _, err := fmt.Println("filled"); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return errors.Join(err, errors.New("this process should have been killed"))
}

// crashed returns the folder of a killed process. A copy of an open index would not be equivalent: its
// files change while they are copied.
func crashed(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "search")
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childFolder+"="+dir)
	child.Stderr = os.Stderr
	in := testmust.Get(child.StdinPipe())(t)
	defer in.Close()
	out := testmust.Get(child.StdoutPipe())(t)
	testmust.Succeed(t, child.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	err = errors.Join(err, child.Process.Kill())
	var killed *exec.ExitError
	if waited := child.Wait(); err != nil || line != "filled\n" || !errors.As(waited, &killed) || killed.ExitCode() != -1 {
		t.Fatalf("the process wrote %q and ended with %v, %v", line, waited, err)
	}
	return dir
}

func TestApply_SurvivesCrash(t *testing.T) {
	if at := works(t, crashed(t)); at != 150 {
		t.Errorf("the index continues at %d, want 150", at)
	}
}

func TestOpen_DamagedAfterCrash_StartsEmpty(t *testing.T) {
	for _, kind := range []string{".zap", "root.bolt", "index_meta.json", "CURRENT"} {
		for name, damage := range damages {
			if kind == "root.bolt" && name == "scrambled" {
				continue // Bolt checks only its own header; only the list of checksums covers the rest
			}
			t.Run(kind+" "+name, func(t *testing.T) {
				dir := crashed(t)
				hit := 0
				for _, f := range filesOf(t, dir) {
					if strings.HasSuffix(f, kind) {
						hit++
						testmust.Succeed(t, damage(f))
					}
				}
				if hit == 0 {
					t.Fatalf("no file of kind %s", kind)
				}
				works(t, dir)
			})
		}
	}
}

func TestOpen_UnfinishedSegment_IsNotDamage(t *testing.T) {
	dir := crashed(t)
	for _, f := range filesOf(t, dir) {
		if filepath.Ext(f) == ".zap" {
			testmust.Succeed(t, os.WriteFile(filepath.Join(filepath.Dir(f), "0000000fffff.zap"), []byte("half a segment"), 0o600))
			break
		}
	}
	if at := works(t, dir); at != 150 {
		t.Errorf("the index continues at %d, want 150", at)
	}
}

func TestOpen_RemovesOnlyOwnLeftovers(t *testing.T) {
	interrupted := fmt.Sprintf("v%d-000099", searchindex.Analysis)
	dir := filled(t)
	for _, name := range []string{interrupted, "v0-000001"} { // an interrupted rebuild, an older layout
		testmust.Succeed(t, os.MkdirAll(filepath.Join(dir, name, "store"), 0o700))
	}
	for _, name := range []string{"v0-000001.sums", "notes.txt", "v-x"} {
		testmust.Succeed(t, os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600))
	}
	if at := works(t, dir); at != 150 {
		t.Errorf("the index continues at %d, want 150", at)
	}
	for name, want := range map[string]bool{interrupted: false, "v0-000001": false, "v0-000001.sums": false, "notes.txt": true, "v-x": true} {
		if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != want {
			t.Errorf("%s: %v, want it to exist: %v", name, err, want)
		}
	}
}

func TestOpen_OtherLayout_StartsEmpty(t *testing.T) {
	dir := filled(t)
	testmust.Succeed(t, os.WriteFile(filepath.Join(dir, "CURRENT"), []byte("v0-000001\n"), 0o600))
	if at := works(t, dir); at != 0 {
		t.Errorf("the index continues at %d, want 0", at)
	}
}

func TestOpen_SecondProcess_IsRejected(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "search")
	x := open(t, dir)
	if _, err := bleveindex.Open(context.Background(), bleveindex.Config{Path: dir}); !errors.Is(err, searchindex.ErrUnavailable) {
		t.Errorf("second open: %v, want ErrUnavailable", err)
	}
	testmust.Succeed(t, x.Close())
	testmust.Succeed(t, open(t, dir).Close())
}

func TestOpen_FileInsteadOfFolder_Fails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	testmust.Succeed(t, os.WriteFile(file, nil, 0o600))
	if _, err := bleveindex.Open(context.Background(), bleveindex.Config{Path: file}); err == nil {
		t.Error("Open accepted a file instead of a folder")
	}
}
