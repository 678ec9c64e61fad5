package crawl_test

import (
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"testing"

	"letterhead/internal/testmust"
	"letterhead/internal/testnet"
)

// play serves every host of a recording. It skips the test if the recordings are missing.
func (n *internet) play(name string) {
	n.t.Helper()
	if err := n.Play(unzip(n.t, testData(n.t), "recordings/"+name+".vcr.gz")); err != nil {
		n.t.Fatalf("%s: %v", name, err)
	}
}

// testData returns the folder of saved pages and recordings. It skips the test if it is missing.
func testData(t testing.TB) fs.FS {
	t.Helper()
	data, err := testnet.Data(filepath.Join("..", ".."))
	if errors.Is(err, testnet.ErrNoData) {
		t.Skip(err)
	}
	testmust.Succeed(t, err)
	return data
}

func unzip(t testing.TB, data fs.FS, name string) []byte {
	t.Helper()
	f := testmust.Get(data.Open(name))(t)
	defer f.Close()
	z := testmust.Get(gzip.NewReader(f))(t)
	text := testmust.Get(io.ReadAll(z))(t)
	return text
}
