package crawl_test

import (
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"letterhead/internal/testnet"
)

// play serves every host of a recording. It skips the test if the recordings
// are missing.
func (n *internet) play(name string) {
	n.t.Helper()
	sites, err := testnet.Recorded(unzip(n.t, testData(n.t), "recordings/"+name+".vcr.gz"))
	if err != nil {
		n.t.Fatalf("%s: %v", name, err)
	}
	for host, s := range sites {
		n.serve(host, s)
	}
}

// serveFolder serves a site of tools/accuracy under its host name.
func (n *internet) serveFolder(site, host string) {
	n.t.Helper()
	written, err := testnet.New(n.authority)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(written.Close)
	if err := written.ServeFolder(os.DirFS(filepath.Join("..", "..", "tools", "accuracy", "sites", site))); err != nil {
		n.t.Fatalf("%s: %v", site, err)
	}
	n.serve(host, written)
}

// testData returns the folder of saved pages and recordings. It skips the test
// if it is missing.
func testData(t testing.TB) fs.FS {
	t.Helper()
	data, err := testnet.Data(filepath.Join("..", ".."))
	if errors.Is(err, testnet.ErrNoData) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func unzip(t testing.TB, data fs.FS, name string) []byte {
	t.Helper()
	f, err := data.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
