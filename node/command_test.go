package node

import (
	"errors"
	"net"
	"path/filepath"
	"testing"

	"letterhead/internal/config"
	"letterhead/internal/testmust"
	"letterhead/node/admin"
	"letterhead/node/datafolder"
)

// A server that answers and then ends leaves a folder that the next one may write to at any time.
func TestDoReadOnly_ServerEndsMeanwhile_LocksTheFolder(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "data")
	testmust.Succeed(t, openStores(t, folder).Close())
	listener, err := net.Listen("unix", admin.Socket(folder))
	testmust.Succeed(t, err)
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
