package node

import (
	"bytes"
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"letterhead/internal/config"
	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
	"letterhead/node/admin"
	"letterhead/node/datafolder"
	"letterhead/operations"
	"letterhead/projections/accounts"
)

// A server that answers and then ends leaves a folder that the next one may write to at any time.
func TestDoReadOnly_ServerEndsMeanwhile_LocksTheFolder(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "data")
	testmust.Succeed(t, openStores(t, folder).Close())
	listener := testmust.Get(net.Listen("unix", admin.Socket(folder)))(t)
	defer listener.Close()
	ran := false
	command := Command{
		Settings: settingsOf(t, folder), Options: Options{Release: release, Logs: testLog{t}}, Open: OpenStores,
		Run: func(n *Node) error {
			ran = true
			if n.reading {
				t.Error("the stores were opened without the folder's lock")
			}
			if _, err := datafolder.Acquire(folder, datafolder.MustExist, release); !errors.Is(err, datafolder.ErrInUse) {
				t.Errorf("Acquire during the command = %v, want ErrInUse", err)
			}
			return nil
		},
	}
	if err := command.DoReadOnly(t.Context(), config.Config.Shared); err != nil || !ran {
		t.Errorf("DoReadOnly() = %v, and the command ran: %t; want nil and true", err, ran)
	}

	// Files that another process has open are read without the lock.
	held := openStores(t, folder)
	defer func() {
		if err := held.Close(); err != nil {
			t.Error(err)
		}
	}()
	command.Run = func(n *Node) error {
		if !n.reading {
			t.Error("the stores of a served folder were not opened for reading")
		}
		return nil
	}
	if err := command.DoReadOnly(t.Context(), config.Config.Shared); err != nil {
		t.Error(err)
	}
}

// aheadLog is a log whose last events no process folds.
type aheadLog struct {
	eventlog.Log
	ahead *atomic.Bool
}

func (l aheadLog) Head(ctx context.Context) (eventlog.Position, error) {
	if l.ahead.Load() {
		return 1 << 40, nil
	}
	return l.Log.Head(ctx)
}

// behindLog is a log whose events are not folded in time.
type behindLog struct{ eventlog.Log }

func (behindLog) Head(context.Context) (eventlog.Position, error) { return 0, operations.ErrBehind }

func TestCatchUp_NoProcessFolds_OnlyReadersGoOn(t *testing.T) {
	for _, use := range []Use{ToRead, ToWrite} {
		var ahead atomic.Bool
		n := openNodeOf(t, Parts{Log: func(log eventlog.Log) eventlog.Log { return aheadLog{log, &ahead} }})
		var logs bytes.Buffer
		n.options.Use, n.options.Logs = use, &logs
		reads := n.Operations.Reads
		log := reads.Log
		reads.Log = behindLog{log}
		testmust.Succeed(t, n.catchUp(t.Context()))
		goesOn := reads.AsTheyAre != nil
		if !strings.Contains(logs.String(), "warning: the read models are behind") || goesOn != (use == ToRead) {
			t.Errorf("use %d: the command goes on: %t; it printed %s", use, goesOn, &logs)
		}
		if use == ToRead {
			reads.Log, reads.Apart = log, true
			ahead.Store(true)
			err := reads.Folded(t.Context(), accounts.Name)
			if !strings.Contains(logs.String(), "warning: the read model accounts is shown as it is") || err != nil {
				t.Errorf("a command that reads printed %s: %v", &logs, err)
			}
			ahead.Store(false)
		}
	}
}
