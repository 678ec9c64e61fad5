// Package download sends files that are made while they are sent.
package download

import (
	"bufio"
	"io"
	"net/http"
)

// held is how much of a file is made before the answer begins, so that most errors are answered as such.
const held = 64 << 10

// Send answers with the file that write writes, under a name and of a type. If write fails before 64 KiB are written, nothing
// was sent, and begun is false. If it fails later, the caller must abort the answer, so that the client sees that the file
// is not complete.
func Send(w http.ResponseWriter, contentType, name string, write func(io.Writer) error) (begun bool, err error) {
	a := &answer{to: w, contentType: contentType, name: name}
	out := bufio.NewWriterSize(a, held)
	if err := write(out); err != nil {
		return a.begun, err
	}
	return true, out.Flush()
}

// answer sends the headers before the first bytes.
type answer struct {
	to                http.ResponseWriter
	contentType, name string
	begun             bool
}

func (a *answer) Write(p []byte) (int, error) {
	if !a.begun {
		a.begun = true
		a.to.Header().Set("Content-Type", a.contentType)
		a.to.Header().Set("Content-Disposition", `attachment; filename="`+a.name+`"`)
		a.to.WriteHeader(http.StatusOK)
	}
	return a.to.Write(p)
}
