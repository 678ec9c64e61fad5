package assets_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"letterhead/internal/assets"
	"letterhead/internal/assets/assetstest"
	"letterhead/internal/testmust"
)

func open(t *testing.T, folder string) *assets.Store {
	t.Helper()
	u := "file://" + folder
	s := testmust.Get(assets.Open(t.Context(), u))(t)
	return s
}

func TestFolder(t *testing.T) {
	assetstest.Run(t, func(t *testing.T) *assets.Store {
		return open(t, filepath.Join(t.TempDir(), "data folder", "assets%41"))
	})
}

func TestFolder_ContainsOnlyAssets(t *testing.T) {
	folder := t.TempDir()
	s := open(t, folder)
	id, err := s.Put(t.Context(), []byte("picture"), "png")
	testmust.Succeed(t, err)
	var files []string
	err = filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(folder, path)
			files = append(files, filepath.ToSlash(rel))
		}
		return err
	})
	if want := id[:2] + "/" + id[2:4] + "/" + id + ".png"; err != nil || len(files) != 1 || files[0] != want {
		t.Errorf("files %v (%v), want %s", files, err, want)
	}
}

func TestPut_TruncatedFile_IsReplaced(t *testing.T) {
	folder := t.TempDir()
	s := open(t, folder)
	id := testmust.Get(s.Put(t.Context(), []byte("a whole picture"), "png"))(t)
	path := filepath.Join(folder, id[:2], id[2:4], id+".png")
	testmust.Succeed(t, os.Truncate(path, 3))
	testmust.Succeed(t, testmust.Err(s.Put(t.Context(), []byte("a whole picture"), "png")))
	if got, err := s.Read(t.Context(), id, "png"); err != nil || string(got) != "a whole picture" {
		t.Errorf("read %q, %v", got, err)
	}
}

func TestRemoveStranded_RemovesTemporaryFiles(t *testing.T) {
	folder := t.TempDir()
	s := open(t, folder)
	id := testmust.Get(s.Put(t.Context(), []byte("picture"), "png"))(t)
	stranded := filepath.Join(folder, id[:2], id[2:4], id+".png.123.tmp")
	testmust.Succeed(t, os.WriteFile(stranded, []byte("pic"), 0o600))
	for o, err := range s.List(t.Context()) {
		if err != nil || o.ID != id || o.Size != int64(len("picture")) {
			t.Errorf("listed %+v, %v", o, err)
		}
	}
	if n, err := s.RemoveStranded(t.Context(), time.Now().Add(-time.Hour)); n != 0 || err != nil {
		t.Errorf("removed %d recent files, %v; want 0", n, err)
	}
	if n, err := s.RemoveStranded(t.Context(), time.Now().Add(time.Hour)); n != 1 || err != nil {
		t.Errorf("removed %d files, %v; want 1", n, err)
	}
	if _, err := s.Read(t.Context(), id, "png"); err != nil {
		t.Errorf("read the asset: %v", err)
	}
}

func TestLostFolder_IsUnavailable(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "assets")
	s := open(t, folder)
	id := testmust.Get(s.Put(t.Context(), []byte("picture"), "png"))(t)
	testmust.Succeed(t, os.RemoveAll(folder))
	testmust.Succeed(t, os.WriteFile(folder, []byte("a file where the folder was"), 0o600))
	if _, err := s.Open(t.Context(), id, "png"); !errors.Is(err, assets.ErrUnavailable) {
		t.Errorf("open: %v, want ErrUnavailable", err)
	}
	if _, err := s.Put(t.Context(), []byte("picture"), "png"); !errors.Is(err, assets.ErrUnavailable) {
		t.Errorf("put: %v, want ErrUnavailable", err)
	}

	for _, err := range s.List(t.Context()) {
		if !errors.Is(err, assets.ErrUnavailable) {
			t.Errorf("list: %v, want ErrUnavailable", err)
		}
	}
}

func TestOpen_InvalidURL_Fails(t *testing.T) {
	for _, u := range []string{"", "::", "file://", "nosuchscheme://x", "/only/a/path"} {
		if s, err := assets.Open(t.Context(), u); err == nil {
			t.Errorf("opened %q: %v", u, s)
		}
	}
}

func TestContentType_ByFormat(t *testing.T) {
	for ext, want := range map[string]string{"svg": "image/svg+xml", "png": "image/png", "webp": "image/webp", "jpeg": "image/jpeg"} {
		if got, ok := assets.ContentType(ext); got != want || !ok {
			t.Errorf("%s: %s, %v", ext, got, ok)
		}
	}
	for _, ext := range []string{"ico", "gif", "html", ""} {
		if got, ok := assets.ContentType(ext); ok {
			t.Errorf("%q has type %s", ext, got)
		}
	}
}

func FuzzNames(f *testing.F) {
	u := "file://" + f.TempDir()
	s := testmust.Get(assets.Open(f.Context(), u))(f)
	id := testmust.Get(s.Put(f.Context(), []byte("picture"), "png"))(f)
	f.Add(id, "png")
	f.Add("../../../../etc/passwd", "")
	f.Add(strings.Repeat("/", 64), "svg")
	f.Add(id[:60]+"/../", "png")
	f.Fuzz(func(t *testing.T, name, ext string) {
		r, err := s.Open(t.Context(), name, ext)
		if err == nil {
			r.Close()
		}
		if found := err == nil; found != (name == id && ext == "png") || err != nil && !errors.Is(err, assets.ErrNotFound) {
			t.Errorf("open %q %q: %v", name, ext, err)
		}
	})
}

func BenchmarkPut(b *testing.B) {
	u := "file://" + b.TempDir()
	s := testmust.Get(assets.Open(b.Context(), u))(b)
	data := make([]byte, 4096)
	n := 0
	for b.Loop() {
		n++
		data[0], data[1], data[2] = byte(n), byte(n>>8), byte(n>>16)
		testmust.Succeed(b, testmust.Err(s.Put(b.Context(), data, "png")))
	}
}
