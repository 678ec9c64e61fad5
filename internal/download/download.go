// Package download sends files that are made for a request.
package download

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"
)

const (
	// slowest is the rate in bytes a second at which a client must read a file.
	slowest = 100 << 10
	// leastTime limits the time to send a small file.
	leastTime = 30 * time.Second
)

// File is a temporary file. Close removes it.
type File struct {
	file *os.File
	size int64
}

// Make makes a file with what write writes, so that sending it needs nothing else, however slowly a client reads.
// Errors: those of write and of the disk.
func Make(write func(io.Writer) error) (*File, error) {
	file, err := os.CreateTemp("", "letterhead-download-")
	if err != nil {
		return nil, err
	}
	f := &File{file: file}
	out := bufio.NewWriter(file)
	if err = write(out); err == nil {
		err = out.Flush()
	}
	if err == nil {
		f.size, err = file.Seek(0, io.SeekCurrent)
	}
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Close removes the file.
func (f *File) Close() error { return errors.Join(f.file.Close(), os.Remove(f.file.Name())) }

// Send answers with the file. The client may take as long as its size needs at 100 KiB a second, and 30 seconds at
// least.
func (f *File) Send(w http.ResponseWriter, contentType, name string) {
	within := max(leastTime, time.Duration(f.size/slowest)*time.Second)
	// Without a connection there is no deadline to move.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(within))
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Disposition", `attachment; filename="`+name+`"`)
	h.Set("Content-Length", strconv.FormatInt(f.size, 10))
	w.WriteHeader(http.StatusOK)
	// an error means that the client has left; a file that is cut off lacks bytes of its length
	_, _ = io.Copy(w, f.file)
}
