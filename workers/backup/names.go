package backup

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"letterhead/internal/accountnames"
)

const (
	// namesPage is the number of names that are read or written at a time.
	namesPage = accountnames.MaxPage
	// maxNamesRaw is the size at which a file of names is finished, before compression.
	maxNamesRaw = 4 << 20
)

// Name is a personal name and the id that events use for it.
type Name = accountnames.Entry

// Names is the table of personal names that belongs to a log.
type Names interface {
	// Page returns at most limit names in the order of the table, after the one with that id; "" starts at the
	// beginning.
	Page(ctx context.Context, after string, limit int) ([]Name, error)
	// PutAll writes names durably, replacing existing ones.
	PutAll(ctx context.Context, names []Name) error
}

// eachPage calls do with all names, some at a time.
func eachPage(ctx context.Context, from Names, do func([]Name) error) error {
	for after := ""; ; {
		page, err := from.Page(ctx, after, namesPage)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			return nil
		}
		if err := do(page); err != nil {
			return err
		}
		after = page[len(page)-1].ID
	}
}

// writeNames copies the table to files that are named after their content.
func writeNames(ctx context.Context, from Names, to place, c *codec) ([]NamesFile, error) {
	files := []NamesFile{}
	var raw bytes.Buffer
	var count uint64
	out := json.NewEncoder(&raw)
	flush := func() error {
		if count == 0 {
			return nil
		}
		data := c.compress(raw.Bytes())
		f := NamesFile{SHA256: hexSum(data), Bytes: int64(len(data)), Count: count}
		f.Name = "names/" + f.SHA256 + ".lhn"
		raw.Reset()
		count = 0
		if len(files) > 0 && files[len(files)-1].Name == f.Name {
			return fmt.Errorf("%w: the table of names has duplicates", ErrDamaged)
		}
		files = append(files, f)
		return to.put(ctx, f.Name, data)
	}
	err := eachPage(ctx, from, func(page []Name) error {
		for _, n := range page {
			if err := out.Encode(n); err != nil {
				return err
			}
			count++
		}
		if raw.Len() >= maxNamesRaw {
			return flush()
		}
		return nil
	})
	if err == nil {
		err = flush()
	}
	if err != nil {
		return nil, fmt.Errorf("back up names: %w", err)
	}
	return files, nil
}

// removeOldNames deletes the files of earlier runs, which may contain erased names.
func removeOldNames(ctx context.Context, at place, keep []NamesFile) error {
	listed := map[string]bool{}
	for _, f := range keep {
		listed[f.Name] = true
	}
	names, err := at.list(ctx, "names/")
	if err != nil {
		return err
	}
	for _, n := range names {
		if !listed[n] {
			if err := at.remove(ctx, n); err != nil {
				return err
			}
		}
	}
	return at.flush(ctx)
}

// readNames reads one file of names. Errors: ErrDamaged.
func readNames(ctx context.Context, from place, c *codec, f NamesFile) ([]Name, error) {
	raw, err := readChecked(ctx, from, c, f.Name, f.SHA256)
	if err != nil {
		return nil, err
	}
	var names []Name
	for line := range strings.Lines(string(raw)) {
		var n Name
		if err := json.Unmarshal([]byte(line), &n); err != nil || n.ID == "" || n.Name == "" {
			return nil, fmt.Errorf("%w: %s does not contain names", ErrDamaged, f.Name)
		}
		names = append(names, n)
	}
	if uint64(len(names)) != f.Count {
		return nil, fmt.Errorf("%w: %s contains %d names, but the manifest says %d",
			ErrDamaged, f.Name, len(names), f.Count)
	}
	return names, nil
}
