package main

import (
	"errors"
	"net"
	"testing"

	"letterhead/internal/config"
)

// A server that answers and then ends leaves a folder that the next one may write to at any time.
func TestOnStores_ServerEndsMeanwhile_TakesTheFolder(t *testing.T) {
	folder := oneCrawl(t)
	listener, err := net.Listen("unix", servedSocket(folder))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	e := &environment{data: folder, stderr: testLog{t}, stdout: testLog{t}}
	open := func(cfg config.Config, lock *folderLock) (*service, error) {
		return storageOnly(t.Context(), cfg, lock, e.stderr, (*service).openStorage)
	}
	ran := false
	err = e.onStores(t.Context(), nil, config.Config.Shared, open, func(s *service) error {
		ran = true
		if s.reading {
			t.Error("the stores were opened without the folder's lock")
		}
		if _, err := lockFolder(folder, folderMustExist); !errors.Is(err, errFolderInUse) {
			t.Errorf("a server could start beside it: %v", err)
		}
		return nil
	})
	if err != nil || !ran {
		t.Errorf("it ran: %t (%v)", ran, err)
	}

	// Where another process has the files open, they are read beside it.
	held := openFolder(t, folder)
	defer func() {
		if err := held.close(); err != nil {
			t.Error(err)
		}
	}()
	err = e.onStores(t.Context(), nil, config.Config.Shared, open, func(s *service) error {
		if !s.reading {
			t.Error("the folder of a server was taken")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
