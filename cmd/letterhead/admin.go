package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// A server that holds the data folder runs the other commands for them: the command line travels over a
// unix socket in the folder, its output travels back. So there is one implementation of each command.

// Limits of the admin socket.
const (
	maxSocketPath    = 107 // bytes of sun_path on Linux, less the final NUL
	maxAdminRequest  = 1 << 20
	adminDialTimeout = 2 * time.Second
	adminHeaderWait  = 5 * time.Second
	maxAdminFrame    = 16 << 20
)

// adminRequest is a command line.
type adminRequest struct {
	Args []string `json:"args"`
}

// adminFrame is a piece of output, or, last, the exit code.
type adminFrame struct {
	Out  string `json:"out,omitempty"`
	Err  string `json:"err,omitempty"`
	Exit *int   `json:"exit,omitempty"`
}

// adminServer answers on the socket.
type adminServer struct {
	http   *http.Server
	path   string
	marker string // file that names the socket when it had to go elsewhere
	done   chan struct{}
	cut    context.CancelFunc // ends the commands under way
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

// serveAdmin listens on the folder's socket (mode 0600). The folder must be locked by this process.
func serveAdmin(folder string, s *service) (*adminServer, error) {
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
		// Left by a server that was killed while the folder lay deeper; it would mislead the commands.
		if err := os.Remove(filepath.Join(folder, "admin.sock.path")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, errors.Join(err, listener.Close())
		}
	}
	base, cut := context.WithCancel(context.Background()) // of the server; each command also ends with its client
	a := &adminServer{path: path, marker: marker, done: make(chan struct{}), cut: cut}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /run", func(w http.ResponseWriter, r *http.Request) { runForClient(w, r, s) })
	a.http = &http.Server{Handler: mux, ReadHeaderTimeout: adminHeaderWait, BaseContext: func(net.Listener) context.Context { return base }}
	go func() {
		defer close(a.done)
		if err := a.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.logger.Error("admin socket ended", "error", err)
		}
	}()
	return a, nil
}

// close ends the commands under way: one that follows the log would not end by itself.
func (a *adminServer) close(ctx context.Context) error {
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
func runForClient(w http.ResponseWriter, r *http.Request, s *service) {
	var in adminRequest
	if err := json.NewDecoder(io.LimitReader(r.Body, maxAdminRequest)).Decode(&in); err != nil {
		http.Error(w, "the request is not a command line", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	frames := &frameWriter{enc: json.NewEncoder(w), flush: http.NewResponseController(w).Flush}
	e := &environment{
		args:    in.Args,
		stdout:  frames.stream(func(p string) adminFrame { return adminFrame{Out: p} }),
		stderr:  frames.stream(func(p string) adminFrame { return adminFrame{Err: p} }),
		service: s,
	}
	code := e.run(r.Context())
	if err := frames.write(adminFrame{Exit: &code}); err != nil {
		s.logger.Debug("admin client left", "error", err)
	}
}

type frameWriter struct {
	mu    sync.Mutex
	enc   *json.Encoder
	flush func() error
}

func (f *frameWriter) write(frame adminFrame) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.enc.Encode(frame); err != nil {
		return err
	}
	return f.flush()
}

// stream returns a writer whose pieces become frames. Lines are gathered so that a long listing is not
// one frame a line.
func (f *frameWriter) stream(frame func(string) adminFrame) io.Writer {
	return writerFunc(func(p []byte) (int, error) {
		if err := f.write(frame(string(p))); err != nil {
			return 0, err
		}
		return len(p), nil
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// servedSocket returns where a server that holds the folder listens for commands.
func servedSocket(folder string) string {
	if raw, err := os.ReadFile(filepath.Join(folder, "admin.sock.path")); err == nil {
		return strings.TrimSpace(string(raw))
	}
	return filepath.Join(folder, "admin.sock")
}

// serverAnswers reports whether a server listens on the folder's admin socket.
func serverAnswers(ctx context.Context, folder string) bool {
	dialer := net.Dialer{Timeout: adminDialTimeout}
	conn, err := dialer.DialContext(ctx, "unix", servedSocket(folder))
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// runRemotely has the server that holds the folder run a command line.
func runRemotely(ctx context.Context, folder string, args []string, stdout, stderr io.Writer) error {
	path := servedSocket(folder)
	body, err := json.Marshal(adminRequest{Args: args})
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			dialer := net.Dialer{Timeout: adminDialTimeout}
			return dialer.DialContext(ctx, "unix", path)
		},
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://admin/run", strings.NewReader(string(body)))
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("%s: %w, which does not answer on its admin socket (it may be starting or stopping; try again in a moment): %v", folder, errFolderInUse, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the server answered %s on its admin socket; is it another release?", resp.Status)
	}
	return copyFrames(resp.Body, stdout, stderr)
}

func copyFrames(body io.Reader, stdout, stderr io.Writer) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxAdminFrame)
	for lines.Scan() {
		var f adminFrame
		if err := json.Unmarshal(lines.Bytes(), &f); err != nil {
			return fmt.Errorf("the server sent something unreadable on its admin socket: %w", err)
		}
		if _, err := io.WriteString(stdout, f.Out); err != nil {
			return err
		}
		if _, err := io.WriteString(stderr, f.Err); err != nil {
			return err
		}
		if f.Exit != nil {
			if *f.Exit != exitOK {
				return exitError(*f.Exit)
			}
			return nil
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("the connection to the server broke: %w", err)
	}
	return errors.New("the server stopped before the command ended")
}
