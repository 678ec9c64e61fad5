package readapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"letterhead/internal/assets"
	"letterhead/internal/contentcoding"
	"letterhead/internal/web"
)

// Headers of stored assets. An asset's name is the hash of its bytes, so it never changes: a year is
// the longest time that caches respect. The files may be embedded anywhere; opened as documents they
// run nothing, whatever type a browser detects.
var (
	assetCache    = []string{"public, max-age=31536000, immutable"}
	assetResource = []string{"cross-origin"}
	imagePolicy   = []string{"default-src 'none'; style-src 'unsafe-inline'; sandbox"}
)

// stalledWithin limits how long a stored file may deliver nothing while it is being sent. The server
// limits the client's own pace.
const stalledWithin = 10 * time.Second

// maxCodedAsset is the size in bytes up to which an asset is compressed. Most vectors are smaller, and the compressed
// form stays in memory until a slow client has read it.
const maxCodedAsset = 64 << 10

// serveAsset answers GET and HEAD /cdn/{id}.{ext} with the stored file, unchanged. The storage is
// asked even if the client has the file already: a removed file must not be confirmed.
func (x *exchange) serveAsset() error {
	ctx, cancel := context.WithCancelCause(x.request.Context())
	defer cancel(nil)
	x.ctx = ctx
	late := time.AfterFunc(x.api.quick, func() { cancel(context.DeadlineExceeded) })
	// The path is used as sent: an id needs no decoding, and only the spelling in our URLs is valid.
	id, ext, _ := strings.Cut(mux.Vars(x.request)["file"], ".")
	file, err := x.api.Assets.Open(ctx, id, ext)
	if !late.Stop() && err == nil { // the context has ended, so nothing can be read
		file.Close()
		err = context.DeadlineExceeded
	}
	switch {
	case errors.Is(err, assets.ErrNotFound):
		x.sendPlain(http.StatusNotFound, "The asset does not exist, or it is stored in another format.\n")
		return nil
	case err != nil:
		return fmt.Errorf("%w: %w", assets.ErrUnavailable, err)
	}
	defer file.Close()
	h := x.Header()
	etag := `"` + id + `"`
	h["Cache-Control"] = assetCache
	h["Cross-Origin-Resource-Policy"] = assetResource
	h["Content-Security-Policy"] = imagePolicy
	contentType, coding := []string{file.ContentType}, contentcoding.Identity
	if file.Size <= maxCodedAsset {
		coding = x.coding(contentType, int(file.Size))
	}
	if x.unmodified(coding, etag) {
		return nil
	}
	stalled := time.AfterFunc(stalledWithin, func() { cancel(context.DeadlineExceeded) })
	defer stalled.Stop()
	if coding != contentcoding.Identity {
		body := make([]byte, file.Size)
		if _, err := io.ReadFull(&steady{file, stalled}, body); err != nil {
			return fmt.Errorf("%w: %w", assets.ErrUnavailable, err)
		}
		web.Send(x, http.StatusOK, contentType, coding, coding.Encode(body))
		return nil
	}
	h["Content-Type"] = contentType
	h["Content-Length"] = []string{strconv.FormatInt(file.Size, 10)}
	x.WriteHeader(http.StatusOK)
	if x.request.Method == http.MethodHead {
		return nil
	}
	if n, err := io.CopyN(x, &steady{file, stalled}, file.Size); err != nil {
		x.problem = internalError(err)
		if n < file.Size && !x.clientGone() {
			// The length has been sent: only cutting the connection can show that the file is incomplete.
			panic(http.ErrAbortHandler)
		}
	}
	return nil
}

// steady reads with a timer that runs only while a read waits.
type steady struct {
	io.Reader
	stalled *time.Timer
}

func (s *steady) Read(p []byte) (int, error) {
	s.stalled.Reset(stalledWithin)
	n, err := s.Reader.Read(p)
	s.stalled.Stop()
	return n, err
}

func (x *exchange) sendPlain(status int, text string) {
	x.Header()["Cache-Control"] = cacheNever
	x.send(status, web.Text, []byte(text))
}
