package node

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"letterhead/internal/testmust"
	"letterhead/node/datafolder"
)

func TestAwaitFolder_NeverReleased_LogsAndFails(t *testing.T) {
	folder := t.TempDir()
	held, err := datafolder.Acquire(folder, datafolder.MayBeNew, release)
	testmust.Succeed(t, err)
	defer held.Release()
	var said strings.Builder
	_, err = awaitFolder(t.Context(), folder, release, 2*folderPoll, slog.New(slog.NewTextHandler(&said, nil)))
	if !errors.Is(err, datafolder.ErrInUse) {
		t.Errorf("the wait ended with %v, want ErrInUse", err)
	}
	if !strings.Contains(said.String(), "waiting for it to end") {
		t.Errorf("the log says %q, want text that contains %q", said.String(), "waiting for it to end")
	}
}

func TestAwaitFolder_Released_LocksIt(t *testing.T) {
	folder := t.TempDir()
	held := testmust.Get(datafolder.Acquire(folder, datafolder.MayBeNew, release))(t)
	waiting := make(chan struct{})
	go func() {
		<-waiting
		held.Release()
	}()
	lock := testmust.Get(awaitFolder(t.Context(), folder, release, time.Minute, slog.New(slog.NewTextHandler(firstWrite(waiting), nil))))(t)
	if err := lock.Release(); err != nil {
		t.Error(err)
	}
}

// firstWrite closes a channel at the first write.
type firstWrite chan struct{}

func (written firstWrite) Write(p []byte) (int, error) {
	close(written)
	return len(p), nil
}
