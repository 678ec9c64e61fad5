package main

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestAwaitFolder_NeverReleased_SaysSoAndRefuses(t *testing.T) {
	folder := t.TempDir()
	held, err := lockFolder(folder, folderMayBeNew)
	if err != nil {
		t.Fatal(err)
	}
	defer held.release()
	var said strings.Builder
	_, err = awaitFolder(t.Context(), folder, 2*folderPoll, slog.New(slog.NewTextHandler(&said, nil)))
	if !errors.Is(err, errFolderInUse) {
		t.Errorf("the wait ended with %v", err)
	}
	if !strings.Contains(said.String(), "waiting for it to end") {
		t.Errorf("the log says %q", said.String())
	}
}

func TestAwaitFolder_Released_TakesIt(t *testing.T) {
	folder := t.TempDir()
	held, err := lockFolder(folder, folderMayBeNew)
	if err != nil {
		t.Fatal(err)
	}
	waiting := make(chan struct{})
	go func() {
		<-waiting
		held.release()
	}()
	lock, err := awaitFolder(t.Context(), folder, time.Minute, slog.New(slog.NewTextHandler(firstWrite(waiting), nil)))
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.release(); err != nil {
		t.Error(err)
	}
}

// firstWrite closes the channel with the first write.
func firstWrite(written chan struct{}) writerFunc {
	return func(p []byte) (int, error) {
		close(written)
		return len(p), nil
	}
}
