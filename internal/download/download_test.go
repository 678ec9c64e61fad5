package download_test

import (
	"bytes"
	"errors"
	"io"
	"net/http/httptest"
	"testing"

	"letterhead/internal/download"
)

func TestSend_ErrorInTheFirst64KiB_SendsNothing(t *testing.T) {
	fails := errors.New("no disk")
	for _, size := range []int{0, 60_000} {
		w := httptest.NewRecorder()
		begun, err := download.Send(w, "text/plain", "a.txt", func(out io.Writer) error {
			_, err := out.Write(make([]byte, size))
			return errors.Join(err, fails)
		})
		if begun || !errors.Is(err, fails) || w.Body.Len() > 0 || len(w.Header()) > 0 {
			t.Errorf("after %d bytes: begun %t, %v, sent %d bytes and %v; want nothing sent", size, begun, err, w.Body.Len(), w.Header())
		}
	}
}

func TestSend_ErrorLater_ReportsThatTheAnswerHasBegun(t *testing.T) {
	fails := errors.New("no disk")
	w := httptest.NewRecorder()
	begun, err := download.Send(w, "text/plain", "a.txt", func(out io.Writer) error {
		_, err := out.Write(make([]byte, 100_000))
		return errors.Join(err, fails)
	})
	if !begun || !errors.Is(err, fails) {
		t.Errorf("begun %t, %v; want true and the error", begun, err)
	}
}

func TestSend_File_IsSentWithItsName(t *testing.T) {
	for _, size := range []int{0, 5, 200_000} {
		w := httptest.NewRecorder()
		file := bytes.Repeat([]byte("x"), size)
		_, err := download.Send(w, "text/plain; charset=utf-8", "a.txt", func(out io.Writer) error {
			_, err := out.Write(file)
			return err
		})
		if err != nil || !bytes.Equal(w.Body.Bytes(), file) {
			t.Errorf("%d bytes: %v, sent %d", size, err, w.Body.Len())
		}
		if size > 0 && (w.Header().Get("Content-Type") != "text/plain; charset=utf-8" || w.Header().Get("Content-Disposition") != `attachment; filename="a.txt"`) {
			t.Errorf("the headers are %v", w.Header())
		}
	}
}
