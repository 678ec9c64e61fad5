// Package robots parses robots.txt according to RFC 9309, for one crawler.
//
// The libraries that were considered reject a whole file because of one unknown line, join a group whose rule is empty
// with the next one, and match wildcards anywhere in a path; each of these reverses an owner's decision.
package robots

import (
	"bytes"
	"cmp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	MaxBytes = 500 << 10      // the part of a file that is read (RFC 9309, section 2.5: at least 500 KiB)
	MaxDelay = 24 * time.Hour // limits a Crawl-delay: a longer one is reduced to it

	maxPatternBytes = 2 << 10 // limits one rule: no requested path is longer
	maxRules        = 10_000  // limits the rules of the applicable group; the rest is ignored
)

// Rules are the rules of a file for one crawler.
type Rules struct {
	Named bool          // set if the file has a group for this crawler; otherwise the rules are those for all
	Delay time.Duration // the pause between pages that the group requests (Crawl-delay), 0 for none

	rules []rule
	bytes int
}

// rule is one Allow or Disallow.
type rule struct {
	allow  bool
	length int      // of the pattern as written: the longest match decides
	parts  []string // between the wildcards
	exact  bool     // ends with $
}

// Parse parses a file for the crawler with a product token, such as LetterheadBot. It never fails: lines that are not
// rules, such as lines of a web page served for a missing file, are skipped.
func Parse(data []byte, agent string) *Rules {
	data = bytes.TrimPrefix(data[:min(len(data), MaxBytes)], []byte("\xef\xbb\xbf"))
	var own, all Rules
	var current []*Rules // groups to which the lines belong
	ended := true        // a rule followed the last user-agent line
	for line := range strings.FieldsFuncSeq(string(data), func(r rune) bool { return r == '\n' || r == '\r' }) {
		key, value, ok := directive(line)
		if !ok {
			continue
		}
		switch key {
		case "user-agent", "useragent", "user agent":
			if ended {
				current, ended = nil, false
			}
			switch name := token(value); {
			case name == everybody:
				current = append(current, &all)
			case strings.EqualFold(name, agent):
				own.Named = true
				current = append(current, &own)
			}
		case "allow", "disallow":
			ended = true
			for _, g := range current {
				g.add(key == "allow", value)
			}
		case "crawl-delay", "crawldelay":
			ended = true
			for _, g := range current {
				g.delay(value)
			}
		}
	}
	if own.Named {
		return &own
	}
	return &all
}

// directive splits a line at its colon, without its comment.
func directive(line string) (key, value string, ok bool) {
	line, _, _ = strings.Cut(line, "#")
	key, value, ok = strings.Cut(line, ":")
	return strings.ToLower(strings.TrimSpace(key)), strings.TrimSpace(value), ok
}

const everybody = "*" // names the group for all other crawlers

// token returns the name in a user-agent line: the product token at its beginning (RFC 9309, section 2.2.1), which is
// LetterheadBot for LetterheadBot/1.0, or everybody, even if words follow it.
func token(value string) string {
	if rest, ok := strings.CutPrefix(value, everybody); ok && (rest == "" || rest[0] == ' ' || rest[0] == '\t') {
		return everybody
	}
	end := strings.IndexFunc(value, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '-' || r == '_')
	})
	if end < 0 {
		return value
	}
	return value[:end]
}

func (r *Rules) add(allow bool, pattern string) {
	// An empty rule has no effect. A rule that does not begin with / or * is a mistake, but still applies.
	if pattern == "" || len(pattern) > maxPatternBytes || len(r.rules) >= maxRules {
		return
	}
	if pattern[0] != '/' && pattern[0] != '*' && pattern[0] != '$' {
		pattern = "/" + pattern
	}
	x := rule{allow: allow, length: len(pattern)}
	if strings.HasSuffix(pattern, "$") {
		x.exact, pattern = true, pattern[:len(pattern)-1]
	}
	for part := range strings.SplitSeq(pattern, "*") {
		x.parts = append(x.parts, normal(part))
	}
	r.bytes += len(pattern) + 16*len(x.parts)
	r.rules = append(r.rules, x)
}

func (r *Rules) delay(value string) {
	seconds, err := strconv.ParseFloat(value, 64)
	if err == nil && seconds > 0 { // not NaN either
		r.Delay = time.Duration(min(seconds, MaxDelay.Seconds()) * float64(time.Second))
	}
}

// Allows reports whether a path, with its query, may be fetched. The longest
// matching rule decides; of two with equal length, the one that allows.
func (r *Rules) Allows(path string) bool {
	path = cmp.Or(path, "/")
	if path == "/robots.txt" {
		return true
	}
	path = normal(path)
	allowed, longest := true, 0
	for _, x := range r.rules {
		if (x.length > longest || x.length == longest && x.allow) && x.matches(path) {
			allowed, longest = x.allow, x.length
		}
	}
	return allowed
}

// Size returns the approximate size of the rules in bytes.
func (r *Rules) Size() int { return 64*len(r.rules) + r.bytes }

// matches reports whether a path begins with the pattern. Each part is searched
// once, after the previous one, so that the time is linear for any pattern.
func (x rule) matches(path string) bool {
	first := x.parts[0]
	if !strings.HasPrefix(path, first) {
		return false
	}
	path = path[len(first):]
	if len(x.parts) == 1 {
		return !x.exact || path == ""
	}
	last := len(x.parts) - 1
	for _, part := range x.parts[1:last] {
		i := strings.Index(path, part)
		if i < 0 {
			return false
		}
		path = path[i+len(part):]
	}
	if x.exact {
		return strings.HasSuffix(path, x.parts[last])
	}
	return strings.Contains(path, x.parts[last])
}

const upperHex = "0123456789ABCDEF"

// normal normalizes a path: characters unreserved in RFC 3986 are plain, octets
// outside of ASCII are percent-encoded, with digits in upper case.
func normal(path string) string {
	if !strings.ContainsFunc(path, func(r rune) bool { return r == '%' || r >= utf8.RuneSelf }) {
		return strings.Clone(path) // does not keep the whole file in memory
	}
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		c := path[i]
		escaped := false
		if c == '%' && i+2 < len(path) {
			if v, err := strconv.ParseUint(path[i+1:i+3], 16, 8); err == nil {
				c, escaped = byte(v), true
				i += 2
			}
		}
		switch {
		case c >= 0x80, escaped && !unreserved(c):
			b.WriteByte('%')
			b.WriteByte(upperHex[c>>4])
			b.WriteByte(upperHex[c&15])
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// unreserved reports whether a character is unreserved in RFC 3986, section 2.3.
func unreserved(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.' ||
		c == '_' || c == '~'
}
