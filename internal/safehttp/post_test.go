package safehttp_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"testing"

	"letterhead/internal/safehttp"
)

// receiver adds an https host.
func (n *internet) receiver(host string, h http.HandlerFunc) {
	n.name(host, public)
	n.serve(public+":443", n.http(h, &tls.Config{GetCertificate: authority.Certificate}))
}

func TestPost_SendsBodyAndReturnsAnyStatus(t *testing.T) {
	n := newInternet(t)
	var got []string
	n.receiver("hooks.example.com", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got = append(got, r.Method+" "+r.URL.String()+" "+r.Header.Get("X-Test")+" "+r.Header.Get("Cookie")+string(body))
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
		http.Redirect(w, r, "https://hooks.example.com/other", http.StatusTemporaryRedirect)
	})
	client := n.client(nil)
	for range 2 {
		res, err := client.Post(t.Context(), "https://hooks.example.com/in?a=1", []byte("body"), safehttp.Limits{}, safehttp.Header{Name: "X-Test", Value: "x"})
		if err != nil || res.StatusCode != http.StatusTemporaryRedirect {
			t.Fatalf("Post = %+v, %v", res, err)
		}
	}
	if want := "POST /in?a=1 x body"; len(got) != 2 || got[0] != want || got[1] != want {
		t.Errorf("the receiver got %q, want twice %q", got, want)
	}
}

func TestPost_UnreadableAnswer_HasItsStatus(t *testing.T) {
	n := newInternet(t)
	n.receiver("hooks.example.com", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "br")
		if r.URL.Path == "/gone" {
			w.WriteHeader(http.StatusGone)
		}
		if _, err := w.Write(make([]byte, 5000)); err != nil {
			t.Log(err)
		}
	})
	client := n.client(nil)
	for path, want := range map[string]int{"/": http.StatusOK, "/gone": http.StatusGone} {
		if res, err := client.Post(t.Context(), "https://hooks.example.com"+path, nil, safehttp.Limits{}); err != nil || res.StatusCode != want {
			t.Errorf("Post to %s = %+v, %v, want status %d", path, res, err, want)
		}
	}
}

// Rule 11.
func TestPost_NotPublicHTTPS_SendsNothing(t *testing.T) {
	n := newInternet(t)
	n.name("private.example.com", "10.0.0.1")
	n.name("loopback.example.com", "127.0.0.1", "::1")
	n.name("hooks.example.com", public)
	for url, want := range map[string]error{
		"http://hooks.example.com/": safehttp.ErrForbiddenURL, "https://10.0.0.1/": safehttp.ErrForbiddenURL, "https://hooks.example.com:22/": safehttp.ErrForbiddenURL,
		"https://private.example.com/": safehttp.ErrBlockedAddress, "https://loopback.example.com/": safehttp.ErrBlockedAddress,
	} {
		if _, err := n.client(nil).Post(t.Context(), url, []byte("body"), safehttp.Limits{}); !errors.Is(err, want) {
			t.Errorf("Post to %s: %v, want %v", url, err, want)
		}
	}
	if dials := n.dials(); len(dials) != 0 {
		t.Errorf("connected to %v", dials)
	}
}
