package testnet

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// DataVariable is the environment variable with the folder of saved pages (pages/*.html.gz) and recorded sessions
// (recordings/*.vcr.gz). The default is the folder shared/data next to the checkout.
const DataVariable = "LETTERHEAD_TEST_DATA"

// ErrNoData means that this machine does not have the saved pages and
// recordings. They are third-party content, so they are not in the repository.
var ErrNoData = errors.New("no saved pages and recordings here")

// Data returns the folder of saved pages and recordings for a checkout with the given root folder.
//
// Errors: ErrNoData if there is no such folder.
func Data(root string) (fs.FS, error) {
	folder := cmp.Or(os.Getenv(DataVariable), filepath.Join(root, "..", "shared", "data"))
	for _, part := range []string{"pages", "recordings"} {
		if info, err := os.Stat(filepath.Join(folder, part)); err != nil || !info.IsDir() {
			return nil, fmt.Errorf("%w: %s has no folder %s; %s can name another one", ErrNoData, folder, part, DataVariable)
		}
	}
	return os.DirFS(folder), nil
}
