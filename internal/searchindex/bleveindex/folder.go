package bleveindex

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/index/scorch"

	"letterhead/internal/disk"
	"letterhead/internal/searchindex"
)

// layout is the version of the index format; a generation of another layout is dropped and fed again.
var layout = fmt.Sprintf("v%d", searchindex.Analysis)

// Names of files in the folder.
const (
	currentName = "CURRENT"
	lockName    = "LOCK"
	sumsSuffix  = ".sums"
	maxCurrent  = 256 // bytes
)

type folder struct{ path string }

func (f folder) at(name string) string { return filepath.Join(f.path, name) }

// openCurrent opens the live generation. Other and damaged generations are removed.
func (f folder) openCurrent(ctx context.Context, log *slog.Logger) (*generation, error) {
	name := f.current()
	if err := f.removeOthers(name); err != nil {
		return nil, err
	}
	if name != "" {
		g, err := f.open(ctx, name)
		if err == nil {
			return g, nil
		}
		if ctx.Err() != nil {
			return nil, err
		}
		log.Warn("search index is damaged and will be built again", "generation", name, "error", err)
	}
	g, err := f.begin()
	if err != nil {
		return nil, err
	}
	if err := f.setCurrent(g.name); err != nil {
		return nil, errors.Join(err, g.close())
	}
	if name == "" {
		return g, nil
	}
	return g, f.remove(name)
}

// open opens a generation after verifying its files.
func (f folder) open(ctx context.Context, name string) (*generation, error) {
	if err := f.verify(ctx, name); err != nil {
		return nil, err
	}
	g, err := guarded(name, func() (bleve.Index, error) {
		return bleve.OpenUsing(f.at(name), map[string]any{"bolt_timeout": boltWait.String()})
	})
	if err != nil {
		return nil, err
	}
	// From now on the files change: the list would be wrong after a crash.
	if err := removeIfThere(f.at(name + sumsSuffix)); err != nil {
		return nil, errors.Join(err, g.close())
	}
	return g, nil
}

// current returns the name of the live generation, "" if there is none of this layout.
func (f folder) current() string {
	file, err := os.Open(f.at(currentName))
	if err != nil {
		return ""
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxCurrent))
	name := strings.TrimSpace(string(data))
	if err != nil || generationNumber(name) == 0 {
		return ""
	}
	return name
}

// generationNumber returns the number in a generation's name, 0 if the name is not valid.
func generationNumber(name string) uint64 {
	digits, ok := strings.CutPrefix(name, layout+"-")
	if !ok {
		return 0
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil {
		return 0
	}
	return n
}

// begin creates an empty generation under an unused name.
func (f folder) begin() (*generation, error) {
	entries, err := os.ReadDir(f.path)
	if err != nil {
		return nil, err
	}
	last := uint64(0)
	for _, e := range entries {
		last = max(last, generationNumber(e.Name()))
	}
	name := fmt.Sprintf("%s-%06d", layout, last+1)
	return guarded(name, func() (bleve.Index, error) {
		return bleve.NewUsing(f.at(name), indexMapping(), scorch.Name, scorch.Name, nil)
	})
}

// setCurrent replaces CURRENT atomically.
func (f folder) setCurrent(name string) error { return disk.WriteText(f.at(currentName), name+"\n") }

func (f folder) remove(name string) error {
	return errors.Join(os.RemoveAll(f.at(name)), removeIfThere(f.at(name+sumsSuffix)))
}

// removeOthers removes leftovers of a rebuild or another layout. It removes only names that a
// generation of some layout can have.
func (f folder) removeOthers(keep string) error {
	entries, err := os.ReadDir(f.path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), sumsSuffix)
		kind, digits, ok := strings.Cut(name, "-")
		_, err := strconv.ParseUint(digits, 10, 63)
		if name == keep || !ok || err != nil || !strings.HasPrefix(kind, "v") {
			continue
		}
		if err := os.RemoveAll(f.at(e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// seal closes a generation and writes the checksums of its files.
func (f folder) seal(g *generation) error {
	if err := g.close(); err != nil {
		return err
	}
	files, err := listFiles(f.at(g.name))
	if err != nil {
		return err
	}
	return disk.WriteFile(f.at(g.name+sumsSuffix), func(w io.Writer) error {
		for _, file := range files {
			sum, err := sumOf(f.at(filepath.Join(g.name, file)))
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(w, "%s %s\n", sum, file); err != nil {
				return err
			}
		}
		return nil
	})
}

// verify checks a generation against the list that seal wrote, or against Bleve's own checksums.
func (f folder) verify(ctx context.Context, name string) error {
	files, err := listFiles(f.at(name))
	if err != nil {
		return err
	}
	list, err := os.Open(f.at(name + sumsSuffix))
	if errors.Is(err, fs.ErrNotExist) {
		return f.verifySegments(ctx, name, files)
	}
	if err != nil {
		return err
	}
	defer list.Close()
	var listed []string
	for lines := bufio.NewScanner(list); lines.Scan(); {
		if err := ctx.Err(); err != nil {
			return err
		}
		want, file, ok := strings.Cut(lines.Text(), " ")
		if !ok || !filepath.IsLocal(file) {
			return errors.New("list of checksums is damaged")
		}
		sum, err := sumOf(f.at(filepath.Join(name, file)))
		if err != nil {
			return err
		}
		if sum != want {
			return fmt.Errorf("%s has changed since it was closed", file)
		}
		listed = append(listed, file)
	}
	if !slices.Equal(listed, files) {
		return errors.New("files were added or taken away since it was closed")
	}
	return nil
}

// verifySegments removes segment files whose own checksum is wrong. A crash leaves unfinished files,
// to which nothing refers; if something refers to a removed file, Bleve fails to open.
func (f folder) verifySegments(ctx context.Context, name string, files []string) error {
	for _, file := range files {
		if filepath.Ext(file) != ".zap" {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		path := f.at(filepath.Join(name, file))
		ok, err := segmentWhole(path)
		if err != nil {
			return err
		}
		if !ok {
			if err := os.Remove(path); err != nil {
				return err
			}
		}
	}
	return nil
}

// segmentWhole reports whether the last four bytes of a segment are the CRC-32 of the bytes before them.
func segmentWhole(path string) (bool, error) {
	file, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return false, err
	}
	if info.Size() < crc32.Size {
		return false, nil
	}
	sum := crc32.NewIEEE()
	if _, err := io.CopyN(sum, file, info.Size()-crc32.Size); err != nil {
		return false, err
	}
	var tail [crc32.Size]byte
	if _, err := io.ReadFull(file, tail[:]); err != nil {
		return false, err
	}
	return binary.BigEndian.Uint32(tail[:]) == sum.Sum32(), nil
}

// listFiles returns the files below a folder, sorted, as relative paths.
func listFiles(root string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(root, path)
		files = append(files, rel)
		return err
	})
	slices.Sort(files)
	return files, err
}

// castagnoli is the CRC with hardware support; the checksums guard against damage, not malice.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func sumOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	sum := crc32.New(castagnoli)
	n, err := io.Copy(sum, file)
	return fmt.Sprintf("%d-%s", n, hex.EncodeToString(sum.Sum(nil))), err
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
