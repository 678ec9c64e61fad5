package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"unsafe"

	"letterhead/internal/testmust"
)

// Requests of ioctl(2) for pseudo-terminals, https://man7.org/linux/man-pages/man2/ioctl_tty.2.html
const (
	tiocsptlck = 0x40045431 // unlocks the terminal side
	tiocgptn   = 0x80045430 // number of the terminal side
)

// terminal returns both sides of a new pseudo-terminal.
func terminal(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("this machine has no pseudo-terminals: %v", err)
	}
	var unlocked, number int32
	for request, value := range map[uintptr]*int32{tiocsptlck: &unlocked, tiocgptn: &number} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, ours.Fd(), request, uintptr(unsafe.Pointer(value))); errno != 0 {
			t.Fatal(errno)
		}
	}
	theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	testmust.Succeed(t, err)
	t.Cleanup(func() { ours.Close() })
	return ours, theirs
}

// A first start at a terminal prints the keys and links there and writes no files of them.
// Rule 13.
func TestFirstStart_AtTerminal_PrintsKeysAndLinks(t *testing.T) {
	ours, theirs := terminal(t)
	data := filepath.Join(t.TempDir(), "data")
	n := &node{t: t, data: data, out: newOutput()}
	n.cmd = exec.Command(binary, "serve", "--data", data, "--listen", anyPort)
	n.cmd.Env = environ("LETTERHEAD_REFRESH=off", "LETTERHEAD_STARTER=off")
	n.cmd.Stdout = theirs
	n.cmd.Stderr = n.out
	n.run()
	theirs.Close()
	go func() {
		buf := make([]byte, 4096)
		for {
			read, err := ours.Read(buf)
			if err != nil {
				return
			}
			n.out.Write(buf[:read])
		}
	}()
	secret := n.out.waitFor(t, `(?m)^  secret       (lh_sk_[0-9A-Za-z]{38})`, n.done)[1]
	n.out.waitFor(t, `(?m)^  operators    http://\S+/sign-in\?token=[\w-]{43}`, n.done)
	n.out.waitFor(t, `ledger show`, n.done)
	n.ready()
	n.want(200, "/v1/me", secret)
	for _, file := range []string{"first-keys", "sign-in-link", "operator-sign-in-link"} {
		if _, err := os.Stat(filepath.Join(data, file)); !os.IsNotExist(err) {
			t.Errorf("the file %s exists or cannot be read: %v", file, err)
		}
	}
	n.stop()
}
