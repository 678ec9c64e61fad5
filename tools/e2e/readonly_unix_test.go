//go:build unix

package e2e

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"letterhead/internal/testmust"
)

// nobodyID is the id of the user "nobody", who owns no files.
const nobodyID = 65534

// unprivileged makes a command run as a user who cannot write the test's files.
func unprivileged(cmd *exec.Cmd) {
	if os.Getuid() == 0 { // root ignores permissions
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobodyID, Gid: nobodyID}}
	}
}

// makeReadOnly makes a folder and its contents readable for all users and read-only.
func makeReadOnly(t *testing.T, folder string) {
	t.Helper()
	var folders []string
	t.Cleanup(func() {
		for _, f := range folders {
			os.Chmod(f, 0o755) // allows the cleanup to delete it
		}
	})
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			folders = append(folders, path)
			return os.Chmod(path, 0o555)
		}
		return os.Chmod(path, 0o444)
	})
	testmust.Succeed(t, err)
}

// listing returns the names and modification times of all files of a folder.
func listing(t *testing.T, folder string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && !d.IsDir() {
			b.WriteString(path + " " + info.ModTime().Format(time.RFC3339Nano) + "\n")
		}
		return err
	})
	testmust.Succeed(t, err)
	return b.String()
}

// On a read-only folder, serve, account list and credits grant fail with the reason; the verifications and doctor work.
func TestReadOnlyFolder_Commands_RejectChangesAndVerify(t *testing.T) {
	for _, killed := range []bool{false, true} { // a kill leaves write-ahead logs
		data := folderWithoutStarter(t)
		n := start(t, data, "LETTERHEAD_STARTER=off")
		acc, _ := account(t, data, "free")
		if killed {
			n.kill()
			os.Remove(filepath.Join(data, "admin.sock"))
		} else {
			n.stop()
		}
		makeReadOnly(t, data)
		temporary := t.TempDir()
		testmust.Succeed(t, os.Chmod(temporary, 0o777))
		for _, folder := range []string{filepath.Dir(data), filepath.Dir(temporary), filepath.Dir(binary)} {
			testmust.Succeed(t, os.Chmod(folder, 0o755))
		}
		before := listing(t, data)
		run := func(args ...string) (string, int) {
			cmd := exec.Command(binary, append(args, "--data", data)...)
			cmd.Env = environ("TMPDIR=" + temporary)
			unprivileged(cmd)
			out, err := cmd.CombinedOutput()
			if _, isExit := err.(*exec.ExitError); err != nil && !isExit {
				t.Fatal(err)
			}
			return string(out), cmd.ProcessState.ExitCode()
		}
		for _, args := range [][]string{{"serve", "--listen", "127.0.0.1:0"}, {"account", "list"}, {"credits", "grant", "--account", acc.Account.ID, "--amount", "1", "--kind", "adjustment", "--reason", "test"}} {
			if printed, code := run(args...); code != 1 || !strings.Contains(printed, data+" cannot be written") {
				t.Errorf("killed %t: %s ended with %d: %s", killed, args[0], code, printed)
			}
		}
		for want, args := range map[string][]string{
			"ledger    agrees":  {"projections", "verify"},
			"every chain holds": {"ledger", "verify"},
			"cannot be written": {"doctor"},
			"every checksum":    {"doctor"},
		} {
			if printed, code := run(args...); code != 0 || !strings.Contains(printed, want) {
				t.Errorf("killed %t: %s ended with %d: %s", killed, strings.Join(args, " "), code, printed)
			}
		}
		if after := listing(t, data); after != before {
			t.Errorf("killed %t: the commands changed the folder from\n%sto\n%s", killed, before, after)
		}
	}
}
