package variants_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"letterhead/internal/variants"
)

// onlyDisk configures a store whose memory holds nothing.
func onlyDisk(folder string) variants.Config { return variants.Config{MemoryBytes: 1, Folder: folder} }

func fileOf(folder string, i int) string {
	k := key(i)
	name := hex.EncodeToString(k[:])
	return filepath.Join(folder, name[:2], name)
}

// block is the size of a small image on disk.
const block = 4096

// onDisk returns the size of the files of a folder, in whole blocks.
func onDisk(t testing.TB, folder string) (files int, total int64) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			files++
			total += (info.Size() + block - 1) / block * block
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files, total
}

// used sets the time of last use of a file.
func used(t testing.TB, path string, at time.Time) {
	t.Helper()
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}

func TestImages_SurviveRestart(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "data", "logos")
	s := open(t, variants.Config{Folder: folder})
	const images = 40
	for i := range images {
		s.wants(i, 100*i+1)
	}
	s.Close()
	if files, _ := onDisk(t, folder); files != images {
		t.Errorf("%d files, want %d", files, images)
	}
	info, err := os.Stat(folder)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder mode %v, error %v; want mode 0700", info.Mode(), err)
	}
	// Files that only slow the scan down: no caller waits for it.
	for i := range 500 {
		path := fileOf(folder, 1000+i)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s = open(t, variants.Config{Folder: folder})
	for range 2 {
		for i := range images {
			if s.wants(i, 100*i+1) {
				t.Errorf("image %d was made again", i)
			}
		}
	}
	if disk, memory := s.number("asked_total", "disk"), s.number("asked_total", "memory"); disk != images || memory != images {
		t.Errorf("%v images from disk, %v from memory; want %d each", disk, memory, images)
	}
	if n := s.number("disk_errors_total"); n != 0 {
		t.Errorf("%v disk errors counted, want 0", n)
	}
}

func TestGetUnwritten_StaysInMemory(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	s := open(t, variants.Config{Folder: folder})
	made := 0
	for range 2 {
		p, err := s.GetUnwritten(t.Context(), key(1), func(context.Context) ([]byte, error) {
			made++
			return []byte("image"), nil
		})
		if err != nil || string(p.Body) != "image" {
			t.Fatalf("GetUnwritten() = %q, %v", p.Body, err)
		}
	}
	s.Close()
	if files, _ := onDisk(t, folder); made != 1 || files != 0 {
		t.Errorf("made %d times, %d files; want 1 and 0", made, files)
	}
}

func TestRestart_EvictsLeastRecentlyUsed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		folder := t.TempDir()
		s := open(t, onlyDisk(folder))
		const images = 20
		for i := range images {
			s.wants(i, 10)
		}
		s.Close()
		day := time.Now().Add(-24 * time.Hour)
		for i := range images {
			used(t, fileOf(folder, i), day.Add(-time.Duration(i*7%images)*time.Minute))
		}
		less := onlyDisk(folder)
		less.DiskBytes = 10 * block
		s = open(t, less)
		synctest.Wait()
		if files, _ := onDisk(t, folder); files != 10 || s.number("entries", "disk") != 10 || s.number("bytes", "disk") != 10*block {
			t.Errorf("%d files, %v counted; want 10", files, s.number("entries", "disk"))
		}
		for i := range images {
			if made, old := s.wants(i, 10), i*7%images >= 10; made != old {
				t.Errorf("image %d, unused for %d minutes: made again %t", i, i*7%images, made)
			}
			if i*7%images >= 10 { // the file was evicted by this one
				break
			}
		}
	})
}

func TestEvict_LeastRecentlyUsed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := onlyDisk(t.TempDir())
		cfg.DiskBytes = 3 * block
		s := open(t, cfg)
		for _, i := range []int{0, 1, 2, 0, 3} {
			s.wants(i, 10)
			synctest.Wait()
		}
		var left []int
		for i := range 4 {
			if _, err := os.Stat(fileOf(cfg.Folder, i)); err == nil {
				left = append(left, i)
			}
		}
		if fmt.Sprint(left) != "[0 2 3]" {
			t.Errorf("images on disk = %v, want [0 2 3]", left)
		}
	})
}

// An image that is served from memory, and so never read from disk, must survive the next restart.
func TestEvict_KeepsImagesInMemory(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := variants.Config{Folder: t.TempDir(), DiskBytes: 10 * block, MemoryBytes: 1500}
		s := open(t, cfg)
		s.wants(0, 10)
		for i := 1; i < 50; i++ {
			for range 3 {
				s.wants(0, 10)
			}
			s.wants(i, 10)
			synctest.Wait()
		}
		if _, err := os.Stat(fileOf(cfg.Folder, 0)); err != nil {
			t.Error(err)
		}
		if memory, files := s.number("asked_total", "memory"), s.number("entries", "disk"); memory != 3*49 || files != 10 {
			t.Fatalf("%v reads from memory, %v files on disk; want %d and 10", memory, files, 3*49)
		}
	})
}

func TestFiles_TouchedPeriodically(t *testing.T) {
	bubble(t, func(t *testing.T) {
		folder := t.TempDir()
		s := open(t, onlyDisk(folder))
		for _, c := range []struct {
			unused time.Duration
			marked bool
		}{{30 * time.Minute, false}, {2 * time.Hour, true}} {
			s.wants(1, 10)
			synctest.Wait()
			used(t, fileOf(folder, 1), time.Now().Add(-c.unused))
			if s.wants(1, 10) {
				t.Error("an image on disk was made again")
			}
			info, err := os.Stat(fileOf(folder, 1))
			if err != nil {
				t.Fatal(err)
			}
			if marked := info.ModTime().Equal(time.Now()); marked != c.marked {
				t.Errorf("file unused for %s: touched = %t, want %t", c.unused, marked, c.marked)
			}
		}
	})
}

func TestGet_DamagedFile_IsReplaced(t *testing.T) {
	edit := func(change func([]byte) []byte) func(*testing.T, string, string) {
		return func(t *testing.T, path, _ string) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, change(data), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	damages := map[string]func(t *testing.T, path, other string){
		"cut":              edit(func(b []byte) []byte { return b[:len(b)-1] }),
		"header only":      edit(func(b []byte) []byte { return b[:72] }),
		"half a header":    edit(func(b []byte) []byte { return b[:20] }),
		"empty":            edit(func([]byte) []byte { return nil }),
		"longer":           edit(func(b []byte) []byte { return append(b, 0) }),
		"another version":  edit(func(b []byte) []byte { b[7]++; return b }),
		"a bit of the key": edit(func(b []byte) []byte { b[9] ^= 1; return b }),
		"a bit of the sum": edit(func(b []byte) []byte { b[41] ^= 1; return b }),
		"a bit of it":      edit(func(b []byte) []byte { b[len(b)-1] ^= 1; return b }),
		"a power failure":  edit(func(b []byte) []byte { return make([]byte, len(b)) }),
		"far too large":    func(t *testing.T, path, _ string) { noError(t, os.Truncate(path, 1<<40)) },
		"a folder":         func(t *testing.T, path, _ string) { noError(t, os.Remove(path)); noError(t, os.Mkdir(path, 0o700)) },
		"another's file": func(t *testing.T, path, other string) {
			data, err := os.ReadFile(other)
			noError(t, err)
			noError(t, os.WriteFile(path, data, 0o600))
		},
	}
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				folder := t.TempDir()
				s := open(t, onlyDisk(folder))
				s.wants(1, 3000)
				s.wants(2, 3000)
				synctest.Wait()
				damage(t, fileOf(folder, 1), fileOf(folder, 2))
				if !s.wants(1, 3000) {
					t.Error("a damaged file was served")
				}
				synctest.Wait()
				if s.wants(1, 3000) {
					t.Error("the image that was made again is not on disk")
				}
				if n, files := s.number("disk_errors_total", "check"), s.number("entries", "disk"); n != 1 || files != 2 {
					t.Errorf("%v damaged files counted, %v files; want 1 and 2", n, files)
				}
			})
		})
	}
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Whatever a file contains, the answer is the right image.
func FuzzFile(f *testing.F) {
	folder := f.TempDir()
	s := open(f, onlyDisk(folder))
	s.wants(1, 300)
	s.Close()
	whole, err := os.ReadFile(fileOf(folder, 1))
	noError(f, err)
	f.Add(whole)
	f.Add(whole[:len(whole)-1])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, content []byte) {
		noError(t, os.WriteFile(fileOf(folder, 1), content, 0o600))
		s := open(t, onlyDisk(folder))
		if made := s.wants(1, 300); made == bytes.Equal(content, whole) {
			t.Errorf("made again = %t, want %t", made, !made)
		}
	})
}

func TestScan_RemovesOnlyUnfinishedFiles(t *testing.T) {
	bubble(t, func(t *testing.T) {
		folder := t.TempDir()
		s := open(t, onlyDisk(folder))
		s.wants(1, 10)
		s.Close()
		old := time.Now().Add(-time.Hour)
		shard := filepath.Dir(fileOf(folder, 1))
		for name, stays := range map[string]bool{
			filepath.Join(folder, "unfinished-123"): false,
			filepath.Join(folder, "notes.txt"):      true,
			filepath.Join(shard, "notes.txt"):       true,
			filepath.Join(shard, "unfinished-1"):    true, // not ours: unfinished files are in the parent folder
		} {
			noError(t, os.WriteFile(name, []byte("half"), 0o600))
			used(t, name, old)
			defer func() {
				if _, err := os.Stat(name); (err == nil) != stays {
					t.Errorf("%s: stat = %v, want the file to exist: %t", name, err, stays)
				}
			}()
		}
		young := filepath.Join(folder, "unfinished-456")
		noError(t, os.WriteFile(young, []byte("half"), 0o600))
		used(t, young, time.Now())
		s = open(t, onlyDisk(folder))
		synctest.Wait()
		if _, err := os.Stat(young); err != nil {
			t.Errorf("a young unfinished file was removed: %v", err)
		}
		if n := s.number("entries", "disk"); n != 1 {
			t.Errorf("%v files are counted, want 1", n)
		}
	})
}

func TestGet_RemovedFolder_IsRecreated(t *testing.T) {
	bubble(t, func(t *testing.T) {
		folder := filepath.Join(t.TempDir(), "cache", "logos")
		s := open(t, onlyDisk(folder))
		for i := range 10 {
			s.wants(i, 10)
		}
		synctest.Wait()
		noError(t, os.RemoveAll(filepath.Dir(folder)))
		for i := range 10 {
			if !s.wants(i, 10) {
				t.Errorf("image %d came from neither memory nor disk", i)
			}
		}
		synctest.Wait()
		for i := range 10 {
			if s.wants(i, 10) {
				t.Errorf("image %d is not on disk again", i)
			}
		}
		if n := s.number("bytes", "disk"); n != 10*block {
			t.Errorf("%v bytes counted, want %d", n, 10*block)
		}
	})
}

func TestGet_UnusableFolder_StillAnswers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		noError(t, os.WriteFile(file, nil, 0o600))
		var log bytes.Buffer // one goroutine at a time writes: the test waits for the others
		cfg := onlyDisk(filepath.Join(file, "logos"))
		cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		s := open(t, cfg)
		lines := func() int { synctest.Wait(); return strings.Count(log.String(), "\n") }
		for i := range 10 {
			if !s.wants(i, 10) {
				t.Errorf("image %d was not made", i)
			}
		}
		if n := lines(); n != 1 {
			t.Errorf("%d lines in the log, want 1:\n%s", n, &log)
		}
		time.Sleep(time.Minute)
		s.wants(1, 10)
		if n := lines(); n != 2 || strings.Count(log.String(), "suppressed=0") != 1 {
			t.Errorf("%d lines in the log a minute later, want 2:\n%s", n, &log)
		}
		if n := s.number("disk_errors_total", "write"); n != 11 {
			t.Errorf("%v writes failed, want 11", n)
		}
	})
}

func TestGet_LargeImages_AreNotCached(t *testing.T) {
	bubble(t, func(t *testing.T) {
		folder := t.TempDir()
		s := open(t, variants.Config{Folder: folder, DiskBytes: 64 << 20})
		for range 2 {
			if !s.wants(1, 5<<20) {
				t.Error("an image larger than maxKept was cached")
			}
		}
		synctest.Wait()
		if files, _ := onDisk(t, folder); files != 0 || s.number("entries", "memory") != 0 {
			t.Errorf("%d files and %v images in memory, want none", files, s.number("entries", "memory"))
		}
		// An image larger than one level is kept in the other.
		small := open(t, variants.Config{Folder: t.TempDir(), MemoryBytes: 20_000, DiskBytes: 2 * block})
		small.wants(1, 10_000)
		small.wants(2, 10)
		small.wants(3, 20_000)
		if n := small.number("entries", "memory"); n != 2 {
			t.Errorf("%v images in memory, want 2", n)
		}
		synctest.Wait()
		if small.wants(1, 10_000) || small.number("entries", "disk") != 1 {
			t.Errorf("image 1 is not on disk, or %v files are counted, want 1", small.number("entries", "disk"))
		}
	})
}

// After any sequence of operations, answers are correct and both levels stay within their limits.
func TestStore_RandomOperations_StayWithinLimits(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	run := 0
	rapid.Check(t, func(r *rapid.T) {
		run++
		cfg := variants.Config{
			Folder:      filepath.Join(base, fmt.Sprint(run)),
			MemoryBytes: rapid.Int64Range(1, 60_000).Draw(r, "memory"),
			DiskBytes:   rapid.Int64Range(1, 25*block).Draw(r, "disk"),
		}
		s := open(t, cfg)
		check := func() {
			if held := s.number("bytes", "memory"); held > float64(cfg.MemoryBytes) {
				r.Fatalf("memory holds %v of %d bytes", held, cfg.MemoryBytes)
			}
			s.Close()
			if _, err := os.Stat(cfg.Folder); err != nil {
				return // nothing was written
			}
			files, total := onDisk(t, cfg.Folder)
			if total > cfg.DiskBytes || float64(total) != s.number("bytes", "disk") || float64(files) != s.number("entries", "disk") {
				r.Fatalf("%d files take %d of %d bytes; %v files, %v bytes are counted",
					files, total, cfg.DiskBytes, s.number("entries", "disk"), s.number("bytes", "disk"))
			}
		}
		images := rapid.IntRange(0, 30)
		size := func(i int) int { return 1 + i*i*25 } // up to 22,501
		r.Repeat(map[string]func(*rapid.T){
			"ask":  func(r *rapid.T) { i := images.Draw(r, "image"); s.wants(i, size(i)) },
			"ask ": func(r *rapid.T) { i := images.Draw(r, "image"); s.wants(i, size(i)) }, // twice as often
			"restart": func(r *rapid.T) {
				check()
				cfg.DiskBytes = rapid.Int64Range(1, 25*block).Draw(r, "disk")
				s = open(t, cfg)
			},
			"damage": func(r *rapid.T) {
				path := fileOf(cfg.Folder, images.Draw(r, "image"))
				if data, err := os.ReadFile(path); err == nil { // not while it is being written
					s.Close()
					noError(t, os.WriteFile(path, data[:len(data)-1], 0o600))
					s = open(t, cfg)
				}
			},
		})
		check()
	})
}

// Two processes that use one folder by mistake may undo each other's work, but never corrupt it.
func TestStore_SharedFolder_AnswersCorrectly(t *testing.T) {
	t.Parallel()
	cfg := onlyDisk(t.TempDir())
	cfg.DiskBytes = 12 * block
	one, other := open(t, cfg), open(t, cfg)
	done := make(chan struct{})
	ask := func(s opened, step int) {
		for i := range 600 {
			p, err := s.Get(context.Background(), key(i*step%37), func(context.Context) ([]byte, error) { return body(i*step%37, 3000), nil })
			if err != nil || !bytes.Equal(p.Body, body(i*step%37, 3000)) {
				t.Errorf("image %d: %v", i*step%37, err)
			}
		}
	}
	go func() { defer close(done); ask(other, 5) }()
	ask(one, 3)
	<-done
	for _, s := range []opened{one, other} {
		s.Close()
		if n := s.number("disk_errors_total", "check"); n != 0 {
			t.Errorf("%v files were damaged, want 0", n)
		}
	}
}
