package node

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
)

func TestRemoveStranded_KilledProcess_RemovesUnfinishedFiles(t *testing.T) {
	n := openNode(t)
	id := testmust.Get(n.Stores.Assets.Put(t.Context(), []byte("picture"), "png"))(t)
	folder := filepath.Join(n.Config.Data, "assets", id[:2], id[2:4])
	old, young := filepath.Join(folder, id+".png.1.tmp"), filepath.Join(folder, id+".png.2.tmp")
	for path, age := range map[string]time.Duration{old: 25 * time.Hour, young: time.Hour, filepath.Join(folder, id+".png"): 25 * time.Hour} {
		if path == old || path == young {
			testmust.Succeed(t, os.WriteFile(path, []byte("pic"), 0o600))
		}
		then := time.Now().Add(-age)
		testmust.Succeed(t, os.Chtimes(path, then, then))
	}
	testmust.Succeed(t, n.startRoles(t.Context()))
	if _, gone := testwait.Until(time.Minute, func() bool {
		_, err := os.Stat(old)
		return errors.Is(err, fs.ErrNotExist)
	}); !gone {
		t.Error("the old file is still there")
	}
	if _, err := os.Stat(young); err != nil {
		t.Errorf("the one that may still be written: %v", err)
	}
	if _, err := n.Stores.Assets.Read(t.Context(), id, "png"); err != nil {
		t.Errorf("the asset: %v", err)
	}
}
