// Package admin serves a unix socket in the data folder of a running server. Its permissions admit only the folder's
// owner. The socket answers the admin API, of which the command line is a client, and runs the command lines of other
// processes inside the server: the arguments travel over the socket, and the output travels back.
package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"letterhead/internal/web"
	"letterhead/node/datafolder"
)

// Limits of the admin socket.
const (
	maxSocketPath = 107 // bytes of sun_path on Linux, less the final NUL
	maxRequest    = 1 << 20
	maxFrame      = 16 << 20
	dialTimeout   = 2 * time.Second
	headerTimeout = 5 * time.Second
	maxPanic      = 8 << 10 // bytes of a panic, with its stack, in the log
)

// exitPanic is the exit code of a command line that panicked.
const exitPanic = 1

// ErrNotReached means that no server got a request. Without it, a request that has no answer may have been carried out.
var ErrNotReached = errors.New("it does not answer on its admin socket (it may be starting or stopping; " +
	"try again in a moment)")

// ErrBroken means that a connection broke before the answer had ended.
var ErrBroken = errors.New("the connection to the server broke")

type request struct {
	Args []string `json:"args"`
}

// frame is a piece of output, or, last, the exit code.
type frame struct {
	Out  string `json:"out,omitempty"`
	Err  string `json:"err,omitempty"`
	Exit *int   `json:"exit,omitempty"`
}

// Runner runs a command line and returns its exit code. The context ends with the client and with the server.
type Runner func(ctx context.Context, args []string, stdout, stderr io.Writer) (exit int)

// Server answers on the socket.
type Server struct {
	http   *http.Server
	path   string
	marker string // file that names the socket when it had to go elsewhere
	done   chan struct{}
	cut    context.CancelFunc // ends the running commands
}

// socketPath returns where the socket of a folder goes: in the folder, or, when that path would be too
// long for the kernel, in a private temporary folder named by admin.sock.path.
func socketPath(folder string) (path, marker string, err error) {
	path = filepath.Join(folder, "admin.sock")
	if len(path) <= maxSocketPath {
		return path, "", nil
	}
	dir, err := os.MkdirTemp("", "letterhead-")
	if err != nil {
		return "", "", fmt.Errorf("make a short folder for the admin socket: %w", err)
	}
	return filepath.Join(dir, "admin.sock"), filepath.Join(folder, "admin.sock.path"), nil
}

// Serve listens on the folder's socket (mode 0600), on which api answers every path but the one for command lines. This
// process must hold the folder.
func Serve(folder string, run Runner, api http.Handler, logger *slog.Logger) (*Server, error) {
	path, marker, err := socketPath(folder)
	if err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove the admin socket that a stopped server left: %w", err)
	}
	listener, err := listenPrivately(path)
	if err != nil {
		return nil, err
	}
	if marker != "" {
		if err := os.WriteFile(marker, []byte(path+"\n"), 0o600); err != nil {
			return nil, errors.Join(err, listener.Close())
		}
	}
	if marker == "" {
		// A server that was killed while the folder had a longer path may have left it; it would mislead the commands.
		if err := os.Remove(filepath.Join(folder, "admin.sock.path")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, errors.Join(err, listener.Close())
		}
	}
	base, cut := context.WithCancel(context.Background()) // of the server; each command also ends with its client
	a := &Server{path: path, marker: marker, done: make(chan struct{}), cut: cut}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/run" {
			runForClient(w, r, run, logger)
		} else {
			api.ServeHTTP(w, r)
		}
	})
	a.http = &http.Server{Handler: handler, ReadHeaderTimeout: headerTimeout,
		BaseContext: func(net.Listener) context.Context { return base }}
	go func() {
		defer close(a.done)
		if err := a.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			logger.Error("admin socket ended", "error", err)
		}
	}()
	return a, nil
}

// Close ends the running commands: a command that follows the log would not end by itself.
func (a *Server) Close(ctx context.Context) error {
	a.cut()
	err := a.http.Shutdown(ctx)
	if err != nil {
		err = a.http.Close()
	}
	<-a.done
	if a.marker != "" {
		err = errors.Join(err, os.Remove(a.marker), os.RemoveAll(filepath.Dir(a.path)))
	}
	return err
}

// runForClient runs one command line inside the server and streams what it prints.
func runForClient(w http.ResponseWriter, r *http.Request, run Runner, logger *slog.Logger) {
	var in request
	if err := json.NewDecoder(io.LimitReader(r.Body, maxRequest)).Decode(&in); err != nil {
		http.Error(w, "the request is not a command line", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	frames := &frameWriter{enc: json.NewEncoder(w), flush: http.NewResponseController(w).Flush}
	stdout := frames.stream(func(p string) frame { return frame{Out: p} })
	stderr := frames.stream(func(p string) frame { return frame{Err: p} })
	code := exitPanic
	web.Guard(func() error {
		code = run(r.Context(), in.Args, stdout, stderr)
		return nil
	}, func(err error) {
		text := err.Error()
		logger.Error("a command line failed", "error", text[:min(len(text), maxPanic)])
		text, _, _ = strings.Cut(text, "\n")
		fmt.Fprintf(stderr, "letterhead: %s\n", text)
	})
	if err := frames.write(frame{Exit: &code}); err != nil {
		logger.Debug("admin client left", "error", err)
	}
}

type frameWriter struct {
	mu    sync.Mutex
	enc   *json.Encoder
	flush func() error
}

func (f *frameWriter) write(piece frame) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.enc.Encode(piece); err != nil {
		return err
	}
	return f.flush()
}

// stream returns a writer that sends what is written to it as frames.
func (f *frameWriter) stream(piece func(string) frame) io.Writer {
	return writerFunc(func(p []byte) (int, error) {
		if err := f.write(piece(string(p))); err != nil {
			return 0, err
		}
		return len(p), nil
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// Socket returns where a server that holds the folder listens for commands.
func Socket(folder string) string {
	if raw, err := os.ReadFile(filepath.Join(folder, "admin.sock.path")); err == nil {
		return strings.TrimSpace(string(raw))
	}
	return filepath.Join(folder, "admin.sock")
}

// Answers reports whether a server listens on the folder's admin socket.
func Answers(ctx context.Context, folder string) bool {
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(ctx, "unix", Socket(folder))
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// transport sends requests to the socket of a folder.
type transport struct {
	folder string
	base   *http.Transport
}

// Transport returns what sends requests to the server that holds a folder.
func Transport(folder string) http.RoundTripper {
	path := Socket(folder)
	return &transport{folder, &http.Transport{
		DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			dialer := net.Dialer{Timeout: dialTimeout}
			conn, err := dialer.DialContext(ctx, "unix", path)
			if err != nil {
				err = fmt.Errorf("%w: %w", ErrNotReached, err)
			}
			return conn, err
		},
	}}
}

// RoundTrip implements http.RoundTripper. Errors: ErrNotReached, ErrBroken.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.base.RoundTrip(r)
	switch {
	case errors.Is(err, ErrNotReached):
		err = fmt.Errorf("%s: %w: %w", t.folder, datafolder.ErrInUse, err)
	case err != nil:
		err = fmt.Errorf("%w: %w", ErrBroken, err)
	}
	return resp, err
}

// Run has the server that holds the folder run a command line, and returns the exit code. Errors: ErrNotReached,
// ErrBroken.
func Run(ctx context.Context, folder string, args []string, stdout, stderr io.Writer) (exit int, err error) {
	body, err := json.Marshal(request{Args: args})
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://admin/run", strings.NewReader(string(body)))
	if err != nil {
		return 0, err
	}
	resp, err := Transport(folder).RoundTrip(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("the server answered %s on its admin socket; is it another release?", resp.Status)
	}
	return copyFrames(resp.Body, stdout, stderr)
}

func copyFrames(body io.Reader, stdout, stderr io.Writer) (exit int, err error) {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxFrame)
	for lines.Scan() {
		var f frame
		if err := json.Unmarshal(lines.Bytes(), &f); err != nil {
			return 0, fmt.Errorf("the server sent something unreadable on its admin socket: %w", err)
		}
		if _, err := io.WriteString(stdout, f.Out); err != nil {
			return 0, err
		}
		if _, err := io.WriteString(stderr, f.Err); err != nil {
			return 0, err
		}
		if f.Exit != nil {
			return *f.Exit, nil
		}
	}
	if err := lines.Err(); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrBroken, err)
	}
	return 0, fmt.Errorf("%w before the command ended", ErrBroken)
}
