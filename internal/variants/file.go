package variants

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A file is a header followed by the image's bytes:
//
//	8 bytes   fileMagic, whose last byte is the version of the format
//	32 bytes  the key, which detects a file under another key's name
//	32 bytes  SHA-256 of the image, which detects a truncated or changed file
//
// Its name is the key in hex, in a folder named after the key's first byte. A file is written under a
// name that begins with "unfinished", in the parent folder, and then renamed. Files are not synced:
// the digest detects damage from a power failure, and the image is made again.
const (
	fileMagic  = "lhvaria\x01"
	headerSize = len(fileMagic) + len(Key{}) + sha256.Size
	unfinished = "unfinished-"

	// blockBytes is the unit in which files are counted, as in most file systems.
	blockBytes = 4096
)

var errDamaged = errors.New("the file is not what was written")

// onDisk returns the size on disk of an image of body bytes.
func onDisk(body int) int64 { return inBlocks(int64(headerSize + body)) }

func inBlocks(size int64) int64 { return (size + blockBytes - 1) / blockBytes * blockBytes }

func pathOf(folder string, key Key) string {
	name := hex.EncodeToString(key[:])
	return filepath.Join(folder, name[:2], name)
}

// keyOf parses the name of a file in the folder of a first byte.
func keyOf(first, name string) (Key, bool) {
	var key Key
	if len(name) != hex.EncodedLen(len(key)) || !strings.HasPrefix(name, first) || strings.ToLower(name) != name {
		return key, false
	}
	_, err := hex.Decode(key[:], []byte(name))
	return key, err == nil
}

// writeFile atomically stores an image for readFile.
func writeFile(folder string, key Key, p Image) error {
	path := pathOf(folder, key)
	// The folders may have been removed.
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(folder, unfinished+"*")
	if err != nil {
		return err
	}
	header := make([]byte, 0, headerSize)
	header = append(append(append(header, fileMagic...), key[:]...), p.Sum[:]...)
	_, err = f.Write(header)
	if err == nil {
		_, err = f.Write(p.Body)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// readFile returns an image and when its file was written or touched. Errors: errDamaged, those of
// package os.
func readFile(folder string, key Key) (Image, time.Time, error) {
	path := pathOf(folder, key)
	f, err := os.Open(path)
	if err != nil {
		return Image{}, time.Time{}, err
	}
	defer f.Close() // opened for reading only
	info, err := f.Stat()
	if err != nil {
		return Image{}, time.Time{}, err
	}
	size := info.Size()
	if !info.Mode().IsRegular() || size <= int64(headerSize) || size > int64(headerSize+maxKept) {
		return Image{}, time.Time{}, fmt.Errorf("%s of %d bytes: %w", path, size, errDamaged)
	}
	// The header has a separate buffer, so that memory holds only the body.
	var header [headerSize]byte
	body := make([]byte, size-int64(headerSize))
	if _, err = io.ReadFull(f, header[:]); err == nil {
		_, err = io.ReadFull(f, body)
	}
	if err != nil {
		return Image{}, time.Time{}, err
	}
	p := Image{Body: body, Sum: sha256.Sum256(body)}
	magic, rest := header[:len(fileMagic)], header[len(fileMagic):]
	if string(magic) != fileMagic || Key(rest[:len(key)]) != key || [sha256.Size]byte(rest[len(key):]) != p.Sum {
		return Image{}, time.Time{}, fmt.Errorf("%s: %w", path, errDamaged)
	}
	return p, info.ModTime(), nil
}
