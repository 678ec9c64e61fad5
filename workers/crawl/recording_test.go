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
	f, err := data.Open(name)
	testmust.Succeed(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	testmust.Succeed(t, err)
	text, err := io.ReadAll(z)
	testmust.Succeed(t, err)
	return text
}
