package crawl_test

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"

	recorded "letterhead/workers/crawl/accuracy/internet"
)

// play puts every host of a recording on the net.
func (n *internet) play(name string) {
	n.t.Helper()
	sites, err := recorded.Recorded(unzip(n.t, filepath.Join("testdata", "recordings", name+".vcr.gz")))
	if err != nil {
		n.t.Fatalf("%s: %v", name, err)
	}
	for host, s := range sites {
		n.serve(host, s)
	}
}

func unzip(t testing.TB, file string) []byte {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
