package download_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"testing"

	"letterhead/internal/download"
	"letterhead/internal/testmust"
)

func leftFiles(t *testing.T) int {
	t.Helper()
	entries := testmust.Get(os.ReadDir(os.TempDir()))(t)
	return len(entries)
}

func TestMake_WriteFails_LeavesNoFile(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	fails := errors.New("no such account")
	_, err := download.Make(func(out io.Writer) error {
		_, err := out.Write(make([]byte, 100_000))
		return errors.Join(err, fails)
	})
	if !errors.Is(err, fails) || leftFiles(t) != 0 {
		t.Errorf("error %v, and %d files are left; want the error and none", err, leftFiles(t))
	}
}

func TestSend_File_HasItsNameAndLength(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for _, size := range []int{0, 5, 200_000} {
		want := bytes.Repeat([]byte("x"), size)
		f, err := download.Make(func(out io.Writer) error {
			_, err := out.Write(want)
			return err
		})
		testmust.Succeed(t, err)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { f.Send(w, "text/plain; charset=utf-8", "a.txt") }))
		resp := testmust.Get(http.Get(server.URL))(t)
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		server.Close()
		h := resp.Header
		if err != nil || !bytes.Equal(got, want) || h.Get("Content-Type") != "text/plain; charset=utf-8" || h.Get("Content-Disposition") != `attachment; filename="a.txt"` || h.Get("Content-Length") != strconv.Itoa(size) {
			t.Errorf("%d bytes: %v, received %d with %v", size, err, len(got), h)
		}
		if err := f.Close(); err != nil || leftFiles(t) != 0 {
			t.Errorf("after Close: %v, and %d files are left", err, leftFiles(t))
		}
	}
}
