//go:build unix

package variants_test

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"letterhead/internal/testwait"
	"letterhead/internal/variants"
)

// childFolder is the environment variable that makes the test binary a process to kill.
const childFolder = "LETTERHEAD_TEST_VARIANTS_FOLDER"

func TestMain(m *testing.M) {
	if folder := os.Getenv(childFolder); folder != "" {
		write(folder)
	}
	os.Exit(m.Run())
}

// write makes images forever. It prints "busy" once images are on disk; a slow disk stores only some.
func write(folder string) {
	s, err := variants.New(variants.Config{MemoryBytes: 1, Folder: folder, DiskBytes: 1 << 20})
	if err != nil {
		panic(err)
	}
	busy := false
	for n := 0; ; n++ {
		i := n % 500
		_, err := s.Get(context.Background(), key(i), func(context.Context) ([]byte, error) { return body(i, 50*i+1), nil })
		if err != nil {
			panic(err)
		}
		if !busy && n >= 300 && written(folder) > 0 {
			busy = true
			os.Stdout.WriteString("busy\n")
		}
	}
}

// written returns the number of complete images in a folder.
func written(folder string) (n int) {
	err := filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // removed meanwhile
			return nil
		}
		if err == nil && !e.IsDir() && !strings.HasPrefix(e.Name(), "unfinished-") {
			n++
		}
		return err
	})
	if err != nil {
		panic(err)
	}
	return n
}

func TestKillDuringWrites_CorruptsNothing(t *testing.T) {
	t.Parallel()
	cfg := variants.Config{MemoryBytes: 1, Folder: t.TempDir(), DiskBytes: 1 << 20}
	for range 4 {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), childFolder+"="+cfg.Folder)
		out, err := child.StdoutPipe()
		noError(t, err)
		noError(t, child.Start())
		line, err := bufio.NewReader(out).ReadString('\n')
		noError(t, errors.Join(err, child.Process.Kill()))
		var killed *exec.ExitError
		if err := child.Wait(); line != "busy\n" || !errors.As(err, &killed) || killed.ExitCode() != -1 {
			t.Fatalf("the process wrote %q and ended with %v", line, err)
		}
	}
	left, err := filepath.Glob(filepath.Join(cfg.Folder, "unfinished-*"))
	noError(t, err)
	t.Logf("the kills left %d unfinished files", len(left))
	for _, path := range left {
		used(t, path, time.Now().Add(-time.Hour))
	}
	s := open(t, cfg)
	var order []int // images of the killed processes come first, because later ones evict them
	for i := range 500 {
		k := key(i)
		name := hex.EncodeToString(k[:])
		if _, err := os.Stat(filepath.Join(cfg.Folder, name[:2], name)); err == nil {
			order = slices.Insert(order, 0, i)
		} else {
			order = append(order, i)
		}
	}
	for _, i := range order {
		s.wants(i, 50*i+1)
	}
	s.Close()
	if disk, damaged := s.number("asked_total", "disk"), s.number("disk_errors_total", "check"); disk == 0 || damaged != 0 {
		t.Errorf("%v images of the killed processes were read, want some; %v were damaged, want 0", disk, damaged)
	}
	files, total := onDisk(t, cfg.Folder)
	if total > cfg.DiskBytes || float64(files) != s.number("entries", "disk") {
		t.Errorf("%d files take %d bytes, limit %d; %v files are counted", files, total, cfg.DiskBytes, s.number("entries", "disk"))
	}
	for _, path := range left {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s was not removed", path)
		}
	}
}

// A named pipe in place of a folder acts as a disk that does not respond.
func TestGet_SlowDisk_DelaysNoAnswer(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "pipe")
	noError(t, syscall.Mkfifo(folder, 0o600))
	s := open(t, onlyDisk(folder))
	defer func() { // before the store is closed, which waits for its disk
		f, err := os.OpenFile(folder, os.O_WRONLY, 0)
		noError(t, err)
		noError(t, f.Close())
		s.Close()
	}()
	const size = 1 << 20
	for i := range 20 { // more than fit into the write queue
		s.wants(i, size)
	}
	if n := s.number("unwritten_total"); n != 4 {
		t.Errorf("%v writes were dropped, want 4", n)
	}
}

// A disk that never responds, again a pipe, does not delay the end of the process.
func TestClose_HangingDisk_EndsInTime(t *testing.T) {
	t.Parallel()
	answers := func(t *testing.T, pipe string) { // after the store stopped waiting for it
		f, err := os.OpenFile(pipe, os.O_WRONLY, 0)
		noError(t, err)
		noError(t, f.Close())
	}
	t.Run("while the folder is scanned", func(t *testing.T) {
		t.Parallel()
		folder := filepath.Join(t.TempDir(), "pipe")
		noError(t, syscall.Mkfifo(folder, 0o600))
		cfg := onlyDisk(folder)
		cfg.CloseTimeout = 20 * time.Millisecond
		s := open(t, cfg)
		s.wants(1, 100)
		s.Close()
		s.Close()
		answers(t, folder)
	})
	t.Run("while a file is read", func(t *testing.T) {
		t.Parallel()
		cfg := onlyDisk(t.TempDir())
		s := open(t, cfg)
		s.wants(1, 100)
		s.Close()
		cfg.CloseTimeout = 20 * time.Millisecond
		s = open(t, cfg)
		for deadline := time.Now().Add(time.Minute); s.number("entries", "disk") == 0 && time.Now().Before(deadline); {
			runtime.Gosched() // until the scan is done
		}
		pipe := fileOf(cfg.Folder, 1)
		noError(t, os.Remove(pipe))
		noError(t, syscall.Mkfifo(pipe, 0o600))
		left, leave := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer leave()
		if _, err := s.Get(left, key(1), nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Get from a hanging disk = %v, want DeadlineExceeded", err)
		}
		s.Close()
		answers(t, pipe)
	})
}

// If the disk hangs while a job requests a cached image, the job fails at its deadline, and its turn is
// released.
func TestGet_HangingDisk_ReleasesTurn(t *testing.T) {
	t.Parallel()
	cfg := variants.Config{MemoryBytes: 1, Folder: t.TempDir(), Concurrent: 1}
	s := open(t, cfg)
	s.wants(1, 100)
	s.Close()
	cfg.MakeTimeout = 200 * time.Millisecond
	s = open(t, cfg)
	for deadline := time.Now().Add(time.Minute); s.number("entries", "disk") == 0 && time.Now().Before(deadline); {
		runtime.Gosched() // until the scan is done
	}
	pipe := fileOf(cfg.Folder, 1)
	noError(t, os.Remove(pipe))
	noError(t, syscall.Mkfifo(pipe, 0o600))
	_, err := s.Get(t.Context(), key(2), func(ctx context.Context) ([]byte, error) {
		s.Kept(ctx, key(1))
		return nil, ctx.Err()
	})
	if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, variants.ErrBusy) { // ErrBusy if the machine is busy
		t.Error(err)
	}
	if _, ok := testwait.Until(testwait.Timeout, func() bool {
		_, err = s.Get(t.Context(), key(3), func(context.Context) ([]byte, error) { return body(3, 100), nil })
		return err == nil
	}); !ok {
		t.Error(err)
	}
	f, err := os.OpenFile(pipe, os.O_RDWR, 0) // lets the disk respond, whether it was read or not
	noError(t, err)
	noError(t, f.Close())
}

// The disk becomes full during a write, here because of a limit of the process.
func TestWrite_FullDisk_LeavesNoPartialFile(t *testing.T) {
	folder := t.TempDir()
	child := exec.Command(os.Args[0], "-test.run", "^TestLimitedFileSizeChild$", "-test.v")
	child.Env = append(os.Environ(), "LETTERHEAD_TEST_VARIANTS_LIMITED="+folder)
	out, err := child.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestLimitedFileSizeChild") {
		t.Fatalf("%v\n%s", err, out)
	}
}

func TestLimitedFileSizeChild(t *testing.T) {
	folder := os.Getenv("LETTERHEAD_TEST_VARIANTS_LIMITED")
	if folder == "" {
		t.Skip("runs only as a child process of TestWrite_FullDisk_LeavesNoPartialFile")
	}
	noError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 2000, Max: 2000})) // Go ignores SIGXFSZ
	s := open(t, onlyDisk(folder))
	s.wants(1, 3000)
	s.wants(2, 1000)
	s.Close()
	if n := s.number("disk_errors_total", "write"); n != 1 {
		t.Errorf("%v writes failed, want 1", n)
	}
	if files, _ := onDisk(t, folder); files != 1 || s.number("entries", "disk") != 1 {
		t.Errorf("%d files on disk, %v counted; want 1 and 1", files, s.number("entries", "disk"))
	}
}
