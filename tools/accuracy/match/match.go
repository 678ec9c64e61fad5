// Package match decides when a result matches a label. The accuracy command and the tests in the lab share its rules.
package match

import (
	"net/url"
	"strings"
	"unicode"
)

// sameBeginning is how many letters two texts must share if one is truncated.
const sameBeginning = 40

// Name compares all but the case, because the case of a brand is a matter of taste.
func Name(ours, truth string) bool { return strings.EqualFold(ours, truth) }

// Font compares letters and digits.
func Font(ours, truth string) bool { return letters(ours) == letters(truth) }

// Text accepts a text that is equal except for punctuation, or that is a prefix of the other.
func Text(ours, truth string) bool {
	a, b := []rune(letters(ours)), []rune(letters(truth))
	if n := min(len(a), len(b)); n >= sameBeginning {
		return string(a[:n]) == string(b[:n])
	}
	return string(a) == string(b)
}

// Profile compares host and path without the characters that networks ignore.
func Profile(ours, truth string) bool { return profile(ours) == profile(truth) }

func letters(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, s)
}

func profile(address string) string {
	u, err := url.Parse(strings.ToLower(address))
	if err != nil {
		return address
	}
	host := strings.TrimPrefix(strings.TrimPrefix(u.Host, "www."), "m.")
	if host == "x.com" {
		host = "twitter.com"
	}
	return host + strings.TrimSuffix(strings.Replace(u.Path, "/@", "/", 1), "/")
}
