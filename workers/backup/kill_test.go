package backup_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/testmust"
	"letterhead/workers/backup"
)

// The test binary starts itself again as the restore to be killed.
const (
	killFromEnv = "BACKUP_TEST_KILL_FROM" // the backup
	killIntoEnv = "BACKUP_TEST_KILL_INTO" // the folder of the log
)

func TestMain(m *testing.M) {
	from := os.Getenv(killFromEnv)
	if from == "" {
		os.Exit(m.Run())
	}
	if err := restoreChild(from, os.Getenv(killIntoEnv)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// restoreChild restores and prints its progress, with one write system call per line.
func restoreChild(from, into string) error {
	ctx := context.Background()
	log, err := sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(into, "events.db")})
	if err != nil {
		return err
	}
	cfg := tiny()
	cfg.Progress = func(p backup.Progress) {
		if p.Stage == backup.StageEvents {
			fmt.Println(p.Done)
		}
	}
	_, err = backup.Restore(ctx, backup.RestoreConfig{Config: cfg}, from, opened(backup.Target{Log: log}))
	return errors.Join(err, log.Close())
}

func TestRestore_Killed_Continues(t *testing.T) {
	const kills = 12
	from, folder, into := embedded(t), t.TempDir(), t.TempDir()
	fill(t, from, 240)
	run(t, tiny(), from, folder)
	binary := testmust.Get(os.Executable())(t)
	killed := 0
	for range kills {
		cmd := exec.CommandContext(t.Context(), binary)
		cmd.Env = append(os.Environ(), killFromEnv+"="+folder, killIntoEnv+"="+into)
		cmd.Stderr = os.Stderr
		out := testmust.Get(cmd.StdoutPipe())(t)
		testmust.Succeed(t, cmd.Start())
		kill := sync.OnceFunc(func() { _ = cmd.Process.Kill() }) // it may have finished
		last := rand.IntN(8)
		if last == 0 {
			kill()
		}
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if last--; last <= 0 {
				kill()
			}
		}
		if err := cmd.Wait(); err != nil && cmd.ProcessState.Exited() {
			t.Fatalf("the restore ended before it was killed: %v", err)
		} else if err != nil {
			killed++
		}
	}
	to := embeddedIn(t, into)
	present := uint64(len(all(t, to.log)))
	t.Logf("%d of %d restores were killed; there are %d events", killed, kills, present)
	if killed == 0 {
		t.Error("no restore was killed")
	}
	if out := restore(t, folder, to); out.Present != present {
		t.Errorf("%d events existed, but the restore reports %d", present, out.Present)
	}
	same(t, to, from)
}
