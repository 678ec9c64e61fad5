package node

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"testing"
)

func TestNoticesKey_FileIsLost_IsNotReplacedBySending(t *testing.T) {
	n := keeper(t)
	n.logger = slog.New(slog.DiscardHandler)
	made, err := n.NoticesKey()
	if err != nil {
		t.Fatal(err)
	}
	if key, err := n.keyOfWebhooks(); err != nil || key.Public() != made.Public() {
		t.Errorf("webhooks are signed with %v, %v, want the key that was made", key, err)
	}
	if err := os.Remove(n.Config.NoticesKeyPath()); err != nil {
		t.Fatal(err)
	}
	if _, err := n.keyOfWebhooks(); !errors.Is(err, errLostNoticesKey) {
		t.Errorf("the key of webhooks without its file: %v, want %v", err, errLostNoticesKey)
	}
	if _, err := os.Stat(n.Config.NoticesKeyPath()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file of the key: %v, want none", err)
	}
	if again, err := n.NoticesKey(); err != nil || again.Public() == made.Public() {
		t.Errorf("a key that is asked for after the loss: %v, %v, want a new one", again, err)
	}
}
