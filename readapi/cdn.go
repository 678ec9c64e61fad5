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
)

// Headers of stored assets. An asset's name is the hash of its bytes, so it never changes: a year, the
// longest that caches care for. The files may be shown anywhere; opened as a document of their own they
// run nothing, whatever a browser takes them for.
var (
	assetCache    = []string{"public, max-age=31536000, immutable"}
	assetResource = []string{"cross-origin"}
	imagePolicy   = []string{"default-src 'none'; style-src 'unsafe-inline'; sandbox"}
)

// stalledWithin bounds how long a stored file may bring nothing once it is being sent. The client's own pace is
// the server's business.
const stalledWithin = 10 * time.Second

// serveAsset answers GET and HEAD /cdn/{id}.{ext} with the stored file, byte by byte. The storage is asked also
// for what the client has already: what was taken out is not to be confirmed to anybody.
func (x *exchange) serveAsset() error {
	ctx, cancel := context.WithCancelCause(x.request.Context())
	defer cancel(nil)
	x.ctx = ctx
	late := time.AfterFunc(x.api.quick, func() { cancel(context.DeadlineExceeded) })
	// The path is taken as it came: an id has nothing to decode, and its one spelling is the one we give out.
	id, ext, _ := strings.Cut(mux.Vars(x.request)["file"], ".")
	file, err := x.api.assets.Open(ctx, id, ext)
	if !late.Stop() && err == nil { // nothing can be read any more
		file.Close()
		err = context.DeadlineExceeded
	}
	switch {
	case errors.Is(err, assets.ErrNotFound):
		x.sendPlain(http.StatusNotFound, "There is no such asset, or it is stored in another format.\n")
		return nil
	case err != nil:
		return fmt.Errorf("%w: %w", assets.ErrUnavailable, err)
	}
	defer file.Close()
	h := x.Header()
	etag := `"` + id + `"`
	h[headerETag] = []string{etag}
	h["Cache-Control"] = assetCache
	h["Cross-Origin-Resource-Policy"] = assetResource
	h["Content-Security-Policy"] = imagePolicy
	if matchesETag(x.request.Header, etag) {
		x.WriteHeader(http.StatusNotModified)
		return nil
	}
	h["Content-Type"] = []string{file.ContentType}
	h["Content-Length"] = []string{strconv.FormatInt(file.Size, 10)}
	x.WriteHeader(http.StatusOK)
	if x.request.Method == http.MethodHead {
		return nil
	}
	stalled := time.AfterFunc(stalledWithin, func() { cancel(context.DeadlineExceeded) })
	defer stalled.Stop()
	if n, err := io.CopyN(x, &steady{file, stalled}, file.Size); err != nil {
		x.problem = internalError(err)
		if n < file.Size && !x.clientGone() {
			// The length is out already: cutting the connection is the one way to say that the file is not whole.
			panic(http.ErrAbortHandler)
		}
	}
	return nil
}

// steady reads with a timer that runs only while nothing comes.
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
	x.send(status, typeText, []byte(text))
}
