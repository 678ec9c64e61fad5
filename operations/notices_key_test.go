package operations

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"testing"

	"letterhead/internal/testmust"
)

func TestNoticesKey_FileIsLost_IsNotReplacedBySending(t *testing.T) {
	n := &Notices{Config: keeper(t).Keys.Config, Logger: slog.New(slog.DiscardHandler)}
	made := testmust.Get(n.Key())(t)
	if key, err := n.SigningKey(); err != nil || key.Public() != made.Public() {
		t.Errorf("webhooks are signed with %v, %v, want the key that was made", key, err)
	}
	testmust.Succeed(t, os.Remove(n.Config.NoticesKeyPath()))
	if _, err := n.SigningKey(); !errors.Is(err, errLostNoticesKey) {
		t.Errorf("the key of webhooks without its file: %v, want %v", err, errLostNoticesKey)
	}
	if _, err := os.Stat(n.Config.NoticesKeyPath()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file of the key: %v, want none", err)
	}
	if again, err := n.Key(); err != nil || again.Public() == made.Public() {
		t.Errorf("a key that is asked for after the loss: %v, %v, want a new one", again, err)
	}
}
