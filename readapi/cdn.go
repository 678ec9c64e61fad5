package readapi

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"letterhead/internal/assets"
)

// Headers of stored assets. An asset's name is the hash of its bytes, so it never changes: a year, the
// longest that caches care for. The files may be shown anywhere; an SVG opened as a document of its own
// runs nothing.
var (
	assetCache    = []string{"public, max-age=31536000, immutable"}
	assetResource = []string{"cross-origin"}
	svgPolicy     = []string{"default-src 'none'; style-src 'unsafe-inline'; sandbox"}
)

// serveAsset answers GET and HEAD /cdn/{id}.{ext} with the stored file, byte by byte.
func (x *exchange) serveAsset() error {
	// The path is taken as it came: an id has nothing to decode, and its one spelling is the one we give out.
	id, ext, _ := strings.Cut(mux.Vars(x.request)["file"], ".")
	file, err := x.api.assets.Open(x.context(), id, ext)
	switch {
	case errors.Is(err, assets.ErrNotFound):
		x.assetMissing()
		return nil
	case err != nil:
		x.assetUnavailable(err)
		return nil
	}
	defer file.Close()
	h := x.Header()
	etag := `"` + id + `"`
	h[headerETag] = []string{etag}
	h["Cache-Control"] = assetCache
	h["Cross-Origin-Resource-Policy"] = assetResource
	if file.ContentType == typeSVG {
		h["Content-Security-Policy"] = svgPolicy
	}
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
	if n, err := io.CopyN(x, file, file.Size); err != nil {
		x.problem = internalError(err)
		if n < file.Size && !x.clientGone() {
			// The length is out already: cutting the connection is the one way to say that the file is not whole.
			panic(http.ErrAbortHandler)
		}
	}
	return nil
}

func (x *exchange) assetMissing() {
	x.sendPlain(http.StatusNotFound, "There is no such asset, or it is stored in another format.\n")
}

func (x *exchange) assetUnavailable(cause error) {
	x.problem = unavailable("asset storage", retryUnavailable, cause)
	x.Header()[headerRetryAfter] = []string{strconv.Itoa(int(retryUnavailable / time.Second))}
	x.sendPlain(http.StatusServiceUnavailable, "The asset storage cannot be reached. Try again later.\n")
}

func (x *exchange) sendPlain(status int, text string) {
	x.Header()["Cache-Control"] = cacheNever
	x.send(status, typeText, []byte(text))
}
