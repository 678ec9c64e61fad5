//go:build unix

package variants_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const (
	// sharedFolder is the environment variable that makes a test's process one of two on a folder.
	sharedFolder = "LETTERHEAD_TEST_VARIANTS_SHARED"
	// sharerBytes is the limit of each of the two: less than half of its images.
	sharerBytes  = 100 * block
	sharerImages = 200
)

// Commands to a sharer, one per line.
const (
	orderRound = "round" // open a store, get all images, close it, and write a tally
	orderKeep  = "keep"  // get a new image, get it again from another store, and write a tally
	orderFull  = "full"  // limit files to 1,000 bytes from here on, as on a disk that becomes full during a write
	orderSpace = "space" // remove the limit
)

// tally is the result of a round.
type tally struct{ FromDisk, Unkept, Damaged int }

func (y tally) String() string {
	return fmt.Sprintf("%d images from disk, %d not written, %d damaged", y.FromDisk, y.Unkept, y.Damaged)
}

const tallied = "tally "

// TestSharedFolderChild is one of two processes on a folder. Both use the same images.
func TestSharedFolderChild(t *testing.T) {
	folder := os.Getenv(sharedFolder)
	if folder == "" {
		t.Skip("runs only as a child process of the tests of two processes on one folder")
	}
	cfg := onlyDisk(folder)
	cfg.DiskBytes = sharerBytes
	var unlimited syscall.Rlimit
	noError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &unlimited))
	said := func(s opened, y tally) {
		y.Unkept, y.Damaged = int(s.number("disk_errors_total", "write")), int(s.number("disk_errors_total", "check"))
		line, err := json.Marshal(y)
		noError(t, err)
		fmt.Printf("%s%s\n", tallied, line)
	}
	fresh := sharerImages
	for orders := bufio.NewScanner(os.Stdin); orders.Scan(); {
		switch orders.Text() {
		case orderFull:
			noError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1000, Max: unlimited.Max}))
		case orderSpace:
			noError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &unlimited))
		case orderRound:
			s := open(t, cfg)
			var y tally
			for n := range 3 * sharerImages {
				i := n * 7 % sharerImages
				if !s.wants(i, 300*(i%40)+1) { // also checks the returned image
					y.FromDisk++
				}
			}
			s.Close()
			said(s, y)
		case orderKeep:
			fresh++
			s := open(t, cfg)
			s.wants(fresh, 300)
			s.Close()
			s = open(t, cfg)
			var y tally
			if !s.wants(fresh, 300) {
				y.FromDisk++
			}
			s.Close()
			said(s, y)
		}
	}
}

// sharer is such a process.
type sharer struct {
	orders io.WriteCloser
	lines  *bufio.Scanner
	wait   func() error
}

func startSharer(t *testing.T, folder string) *sharer {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run", "^TestSharedFolderChild$", "-test.v")
	child.Env = append(os.Environ(), sharedFolder+"="+folder)
	orders, err := child.StdinPipe()
	noError(t, err)
	out, err := child.StdoutPipe()
	noError(t, err)
	noError(t, child.Start())
	return &sharer{orders, bufio.NewScanner(out), child.Wait}
}

func (s *sharer) order(t *testing.T, what string) {
	t.Helper()
	_, err := fmt.Fprintln(s.orders, what)
	noError(t, err)
}

// tally reads the result of a round.
func (s *sharer) tally(t *testing.T) (y tally) {
	t.Helper()
	var said []string
	for s.lines.Scan() {
		if line, ok := strings.CutPrefix(s.lines.Text(), tallied); ok {
			noError(t, json.Unmarshal([]byte(line), &y))
			return y
		}
		said = append(said, s.lines.Text())
	}
	t.Fatalf("the process ended: %s", strings.Join(said, "\n"))
	return y
}

// onAFullDisk lets two processes serve from one folder while its disk is full, and afterwards. Each
// checks all images that it serves.
func onAFullDisk(t *testing.T, folder string, full, space func(both []*sharer)) {
	both := []*sharer{startSharer(t, folder), startSharer(t, folder)}
	round := func(what string) []tally {
		t.Helper()
		for _, s := range both {
			s.order(t, orderRound)
		}
		all := []tally{both[0].tally(t), both[1].tally(t)}
		t.Logf("%s: %s; %s", what, all[0], all[1])
		left, err := filepath.Glob(filepath.Join(folder, "unfinished-*"))
		noError(t, err)
		_, total := onDisk(t, folder)
		if all[0].Damaged+all[1].Damaged > 0 || len(left) > 0 || total > 2*sharerBytes {
			t.Errorf("%s: %d and %d damaged files, %d unfinished ones, %d bytes", what, all[0].Damaged, all[1].Damaged, len(left), total)
		}
		return all
	}
	// keeps lets each process make and keep one image alone: in a round the files of one may be
	// removed before the other reads them.
	keeps := func(rounds []tally) {
		t.Helper()
		for i, s := range both {
			s.order(t, orderKeep)
			if y := s.tally(t); rounds[i].Unkept > 0 || y.Unkept > 0 || y.FromDisk != 1 {
				t.Errorf("figures changed after the disk was full: %s; %s", rounds[i], y)
			}
		}
	}
	full(both)
	for _, y := range round("full") {
		if y.Unkept == 0 {
			t.Error("the disk is not full")
		}
	}
	space(both)
	round("with space again")
	keeps(round("once more"))
	full(both)
	round("full again")
	space(both)
	keeps(round("with space at last"))
	for _, s := range both {
		noError(t, s.orders.Close())
		for s.lines.Scan() { // read all its output, or it could not exit
		}
		noError(t, s.wait())
	}
	cfg := onlyDisk(folder)
	cfg.DiskBytes = sharerBytes
	open(t, cfg).Close()
	if _, total := onDisk(t, folder); total > sharerBytes {
		t.Errorf("files take %d bytes, limit %d", total, sharerBytes)
	}
}

func TestProcesses_FullDisk_AnswerCorrectly(t *testing.T) {
	t.Parallel()
	order := func(what string) func([]*sharer) {
		return func(both []*sharer) {
			for _, s := range both {
				s.order(t, what)
			}
		}
	}
	onAFullDisk(t, t.TempDir(), order(orderFull), order(orderSpace))
}
