package safehttp_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"letterhead/internal/safehttp"
)

// The tests of this file run in synctest bubbles, so that the timeouts of production take no time.

// drip writes a byte per second until the other side disconnects.
func drip(conn net.Conn, text string) {
	for i := 0; ; i++ {
		c := byte('.')
		if i < len(text) {
			c = text[i]
		}
		if _, err := conn.Write([]byte{c}); err != nil {
			return
		}
		time.Sleep(time.Second)
	}
}

// silence reads until the other side disconnects.
func silence(conn net.Conn) { io.Copy(io.Discard, conn) }

func TestTimeouts_EndEveryPhase(t *testing.T) {
	hang := func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	for _, c := range []struct {
		name   string
		url    string
		serve  func(net.Conn)
		dial   func(context.Context, string, string) (net.Conn, error)
		dns    bool
		limits safehttp.Limits
		want   error
		after  time.Duration
	}{
		{name: "name server never answers", url: "http://slow.example/", dns: true, want: safehttp.ErrDNS, after: 5 * time.Second},
		{name: "connecting hangs", url: "http://slow.example/", dial: hang, want: safehttp.ErrTimeout, after: 5 * time.Second},
		{name: "TLS stalls", url: "https://slow.example/", serve: silence, want: safehttp.ErrTimeout, after: 5 * time.Second},
		{name: "server never responds", url: "http://slow.example/", serve: silence, want: safehttp.ErrTimeout, after: 8 * time.Second},
		{name: "a header byte a second", url: "http://slow.example/", serve: read(func(c net.Conn) { drip(c, "HTTP/1.1 200 OK\r\nX: ") }), want: safehttp.ErrTimeout, after: 8 * time.Second},
		{name: "a body byte a second", url: "http://slow.example/", serve: read(func(c net.Conn) { io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n"); drip(c, "") }), want: safehttp.ErrTimeout, after: 8 * time.Second},
		{name: "a body that stalls", url: "http://slow.example/", serve: read(func(c net.Conn) { io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"); silence(c) }), want: safehttp.ErrTimeout, after: 8 * time.Second},
		{name: "gzip header a byte a second", url: "http://slow.example/", serve: read(func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n")
			drip(c, "\x1f\x8b\x08\x08\x00\x00\x00\x00\x00\x00")
		}), want: safehttp.ErrTimeout, after: 8 * time.Second},
		{name: "less time", url: "http://slow.example/", serve: silence, limits: safehttp.Limits{Time: 2 * time.Second}, want: safehttp.ErrTimeout, after: 2 * time.Second},
		{name: "interim responses", url: "http://slow.example/", serve: read(func(c net.Conn) {
			for _, err := io.WriteString(c, "HTTP/1.1 103 Early Hints\r\n\r\n"); err == nil; _, err = io.WriteString(c, "HTTP/1.1 103 Early Hints\r\n\r\n") {
				time.Sleep(time.Second)
			}
		}), want: safehttp.ErrTimeout, after: 8 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newInternet(t)
				n.pipes = true
				n.name("slow.example", public)
				if c.dns {
					n.names["slow.example"] = func(int) ([]netip.Addr, error) { return nil, context.DeadlineExceeded }
				}
				n.serve(public+":80", c.serve)
				n.serve(public+":443", c.serve)
				client := n.client(func(cfg *safehttp.Config) {
					if c.dial != nil {
						cfg.Dial = c.dial
					}
				})
				began := time.Now()
				_, err := client.NewSession().Get(t.Context(), c.url, c.limits)
				if took := time.Since(began); !errors.Is(err, c.want) || took != c.after {
					t.Errorf("%v after %v; want %v after %v", err, took, c.want, c.after)
				}
				var dns *safehttp.DNSError
				if c.dns && (!errors.As(err, &dns) || !dns.Timeout || dns.NotFound) {
					t.Errorf("got %+v", dns)
				}
			})
		})
	}
}

func TestDeadline_OfTheCaller_EndsTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newInternet(t)
		n.pipes = true
		n.name("slow.example", public)
		n.serve(public+":80", silence)
		c := n.client(nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.NewSession().Get(ctx, "http://slow.example/", safehttp.Limits{}); !errors.Is(err, safehttp.ErrTimeout) {
			t.Errorf("deadline: %v, want ErrTimeout", err)
		}
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := c.NewSession().Get(ctx, "http://slow.example/", safehttp.Limits{}); !errors.Is(err, safehttp.ErrCanceled) || !errors.Is(err, context.Canceled) {
			t.Errorf("cancel: %v, want ErrCanceled and Canceled", err)
		}
	})
}

// The time limit is for all hops together.
func TestRedirects_Slow_ShareOneDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newInternet(t)
		n.pipes = true
		n.name("slow.example", public)
		n.serve(public+":80", read(func(c net.Conn) {
			time.Sleep(3 * time.Second)
			io.WriteString(c, "HTTP/1.1 302 Found\r\nLocation: /again\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		}))
		began := time.Now()
		_, err := n.client(nil).NewSession().Get(t.Context(), "http://slow.example/", safehttp.Limits{})
		if took := time.Since(began); !errors.Is(err, safehttp.ErrTimeout) || took != 8*time.Second {
			t.Errorf("error = %v after %v; want ErrTimeout and %v", err, took, 8*time.Second)
		}
	})
}

// An address that never responds delays the next one by a quarter of a second.
func TestDial_SlowAddress_DoesNotBlockNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newInternet(t)
		n.pipes = true
		n.name("two.example", "2606:4700::1", public)
		n.serve(public+":80", raw("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"))
		c := n.client(func(cfg *safehttp.Config) {
			cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				if network == "tcp6" {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return n.dial(ctx, network, addr)
			}
		})
		began := time.Now()
		get(t, c, "http://two.example/", nil)
		if took := time.Since(began); took != 250*time.Millisecond {
			t.Errorf("took %v, want %v", took, 250*time.Millisecond)
		}
	})
}

// Five concurrent slow fetches from one host use four connections.
func TestConnections_PerHost_AreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newInternet(t)
		n.pipes = true
		n.name("slow.example", public)
		open, most := make(chan int, 1), 0
		open <- 0
		n.serve(public+":443", func(conn net.Conn) {
			count := <-open + 1
			most = max(most, count)
			open <- count
			inner := tls.Server(conn, certificate(t, nil, "slow.example"))
			read(func(c net.Conn) {
				time.Sleep(time.Second)
				open <- <-open - 1 // before the client can know that this one has ended
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
			})(inner)
		})
		c := n.client(nil)
		results := make(chan error)
		for range 12 {
			go func() {
				_, err := c.NewSession().Get(t.Context(), "https://slow.example/", safehttp.Limits{})
				results <- err
			}()
		}
		for range 12 {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		if most != 4 {
			t.Errorf("%d concurrent connections, want 4", most)
		}
	})
}
