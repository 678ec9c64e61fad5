// Package lazyregexp has regular expressions that are compiled when they are first used. To compile those that
// recognize what a crawl reads takes 27 MB of allocations and 40 ms, which commands that crawl nothing save.
package lazyregexp

import (
	"os"
	"regexp"
	"strings"
	"sync"
)

// Regexp is a regular expression. Its methods work as in regexp.Regexp, and panic if it cannot be compiled.
type Regexp struct {
	text     string
	compiled func() *regexp.Regexp
}

// inTest reports whether this process is a test, which compiles at once, so that an expression that cannot be compiled
// is found whether or not a test uses it.
var inTest = len(os.Args) > 0 && strings.HasSuffix(strings.TrimSuffix(os.Args[0], ".exe"), ".test")

// New returns the regular expression of a text, which regexp.MustCompile compiles at its first use.
func New(text string) *Regexp {
	r := &Regexp{text: text, compiled: sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })}
	if inTest {
		r.compiled()
	}
	return r
}

func (r *Regexp) String() string { return r.text }

func (r *Regexp) MatchString(s string) bool { return r.compiled().MatchString(s) }

func (r *Regexp) FindString(s string) string { return r.compiled().FindString(s) }

func (r *Regexp) FindStringIndex(s string) []int { return r.compiled().FindStringIndex(s) }

func (r *Regexp) FindStringSubmatch(s string) []string { return r.compiled().FindStringSubmatch(s) }

func (r *Regexp) FindStringSubmatchIndex(s string) []int {
	return r.compiled().FindStringSubmatchIndex(s)
}

func (r *Regexp) FindAllString(s string, n int) []string { return r.compiled().FindAllString(s, n) }

func (r *Regexp) FindAllStringIndex(s string, n int) [][]int {
	return r.compiled().FindAllStringIndex(s, n)
}

func (r *Regexp) FindAllStringSubmatch(s string, n int) [][]string {
	return r.compiled().FindAllStringSubmatch(s, n)
}

func (r *Regexp) FindSubmatch(b []byte) [][]byte { return r.compiled().FindSubmatch(b) }

func (r *Regexp) FindAllSubmatch(b []byte, n int) [][][]byte {
	return r.compiled().FindAllSubmatch(b, n)
}

func (r *Regexp) ReplaceAllString(s, with string) string {
	return r.compiled().ReplaceAllString(s, with)
}

func (r *Regexp) ReplaceAllStringFunc(s string, with func(string) string) string {
	return r.compiled().ReplaceAllStringFunc(s, with)
}

func (r *Regexp) Split(s string, n int) []string { return r.compiled().Split(s, n) }
