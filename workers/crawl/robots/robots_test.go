package robots_test

import (
	"strings"
	"testing"
	"time"

	"letterhead/workers/crawl/robots"
)

const agent = "LetterheadBot"

func TestRules_Paths_AllowedOrDisallowed(t *testing.T) {
	for name, c := range map[string]struct {
		file    string
		named   bool
		allowed []string
		denied  []string
	}{
		"nothing":                        {"", false, []string{"/", "/a"}, nil},
		"everything":                     {"User-agent: *\nDisallow: /", false, []string{"/robots.txt"}, []string{"/", "/a", ""}},
		"an empty rule":                  {"User-agent: *\nDisallow:", false, []string{"/"}, nil},
		"others only":                    {"User-agent: Googlebot\nDisallow: /", false, []string{"/"}, nil},
		"named":                          {"User-agent: *\nAllow: /\n\nUser-agent: letterheadbot\nDisallow: /", true, nil, []string{"/"}},
		"named with a version":           {"User-Agent: LetterheadBot/1.0\nDisallow: /x", true, []string{"/"}, []string{"/x"}},
		"named and free":                 {"User-agent: LetterheadBot\nDisallow:\n\nUser-agent: *\nDisallow: /", true, []string{"/", "/a"}, nil},
		"everybody, with a word":         {"User-agent: * bots\nDisallow: /a\n\nUser-agent: *\t(all)\nDisallow: /b", false, []string{"/"}, []string{"/a", "/b"}},
		"a star in a word":               {"User-agent: *bot\nDisallow: /", false, []string{"/"}, nil},
		"groups for everybody":           {"User-agent: *\nDisallow: /a\n\nUser-agent: x\nDisallow: /\n\nUser-agent: *\nDisallow: /b", false, []string{"/c"}, []string{"/a", "/b"}},
		"named with words":               {"User-agent: LETTERHEADBOT (and friends)\nDisallow: /x", true, []string{"/"}, []string{"/x"}},
		"a name among others":            {"User-agent: Mozilla/5.0 (compatible; LetterheadBot)\nDisallow: /", false, []string{"/"}, nil},
		"a name that begins alike":       {"User-agent: Letter\nDisallow: /\nUser-agent: LetterheadBotX\nDisallow: /", false, []string{"/"}, nil},
		"several names":                  {"User-agent: a\nUser-agent: LetterheadBot\nUser-agent: b\nDisallow: /x", true, []string{"/"}, []string{"/x"}},
		"groups of one name":             {"User-agent: LetterheadBot\nDisallow: /a\n\nUser-agent: x\nDisallow: /\n\nUser-agent: LetterheadBot\nDisallow: /b", true, []string{"/c"}, []string{"/a", "/b"}},
		"other lines in between":         {"User-agent: *\nSitemap: https://acme.com/s.xml\nDisallow: /a\nHost: acme.com\nDisallow: /b", false, []string{"/"}, []string{"/a", "/b"}},
		"rules before any group":         {"Disallow: /\nUser-agent: *\nDisallow: /a", false, []string{"/"}, []string{"/a"}},
		"the longest decides":            {"User-agent: *\nDisallow: /\nAllow: /about", false, []string{"/about", "/about/us"}, []string{"/", "/abou"}},
		"allowing wins a tie":            {"User-agent: *\nDisallow: /page\nAllow: /page", false, []string{"/page"}, nil},
		"only the home page":             {"User-agent: *\nDisallow: /\nAllow: /$", false, []string{"/"}, []string{"/a", "/?a=1"}},
		"wildcards":                      {"User-agent: *\nDisallow: /*.php$\nDisallow: /a*b*c\nDisallow: *private", false, []string{"/x.php?a", "/x.phpx", "/b", "/acb"}, []string{"/x.php", "/axxbyyc", "/abc", "/very/private"}},
		"wildcards stand at a beginning": {"User-agent: *\nDisallow: /a*z", false, []string{"/x/a/z"}, []string{"/az", "/a/x/z"}},
		"a query":                        {"User-agent: *\nDisallow: /*?s=", false, []string{"/?t=1"}, []string{"/?s=1", "/a?s=1"}},
		"percent notation":               {"User-agent: *\nDisallow: /%7ejoe\nDisallow: /ü\nDisallow: /a%2fb", false, []string{"/a/b"}, []string{"/~joe", "/%7Ejoe", "/%c3%bc", "/%C3%BC", "/a%2Fb"}},
		"comments and spaces":            {"# hello\n  User-agent : *   # all\n\tDisallow :   /a  # that\n", false, []string{"/"}, []string{"/a"}},
		"line ends":                      {"User-agent: *\rDisallow: /a\r\nDisallow: /b", false, []string{"/"}, []string{"/a", "/b"}},
		"a mark at the beginning":        {"\xef\xbb\xbfUser-agent: *\nDisallow: /", false, nil, []string{"/"}},
		"without a slash":                {"User-agent: *\nDisallow: private", false, []string{"/"}, []string{"/private"}},
		"a web page":                     {"<!doctype html><html><title>Not found: /robots.txt</title><p>User-agent: who?</p></html>", false, []string{"/"}, nil},
		"binary":                         {"\x00\x01\x02:\xff", false, []string{"/"}, nil},
		"a rule that is too long":        {"User-agent: *\nDisallow: /" + strings.Repeat("a", 3000) + "\nDisallow: /b", false, []string{"/"}, []string{"/b"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := robots.Parse([]byte(c.file), agent)
			if r.Named != c.named {
				t.Errorf("named is %t", r.Named)
			}
			for _, path := range c.allowed {
				if !r.Allows(path) {
					t.Errorf("Allows(%q) = false, want true", path)
				}
			}
			for _, path := range c.denied {
				if r.Allows(path) && path != "" {
					t.Errorf("Allows(%q) = true, want false", path)
				}
			}
		})
	}
}

func TestDelay_Rules_AreRead(t *testing.T) {
	for file, want := range map[string]time.Duration{
		"User-agent: *\nCrawl-delay: 2.5":                                   2500 * time.Millisecond,
		"User-agent: *\nCrawl-delay: x":                                     0,
		"User-agent: *\nCrawl-delay: -1":                                    0,
		"User-agent: *\nCrawl-delay: NaN":                                   0,
		"User-agent: *\nCrawl-delay: 1e300":                                 robots.MaxDelay,
		"User-agent: x\nCrawl-delay: 9":                                     0,
		"User-agent: *\nCrawl-delay: 9\nUser-agent: LetterheadBot\nAllow:/": 0,
	} {
		if got := robots.Parse([]byte(file), agent).Delay; got != want {
			t.Errorf("%q: %s, want %s", file, got, want)
		}
	}
}

// A malicious file: as many rules with as many wildcards as fit. A backtracking matcher would not terminate.
func TestParse_HostileFile_StaysWithinMemory(t *testing.T) {
	file := "User-agent: *\n" + strings.Repeat("Disallow: /*a*a*a*a*a*a*a*a*b\n", robots.MaxBytes/30)
	r := robots.Parse([]byte(file), agent)
	if !r.Allows("/" + strings.Repeat("a", 2000)) {
		t.Error("a path without a b is disallowed")
	}
	if r.Size() > 8<<20 {
		t.Errorf("Size() = %d", r.Size())
	}
}

func FuzzRobots(f *testing.F) {
	for _, seed := range []string{
		"User-agent: *\nDisallow: /", "User-agent: LetterheadBot\nAllow: /a*b$\nCrawl-delay: 3", "disallow:%", "user-agent:*\nallow:**$\ndisallow:%e",
	} {
		f.Add(seed, "/a/b?c=%41")
	}
	f.Fuzz(func(t *testing.T, file, path string) {
		path = path[:min(len(path), 2048)] // longer ones are not fetched
		r := robots.Parse([]byte(file), agent)
		if r.Delay < 0 || r.Delay > robots.MaxDelay || r.Size() < 0 {
			t.Fatalf("delay %s, size %d", r.Delay, r.Size())
		}
		if !r.Allows("/robots.txt") {
			t.Fatal("robots.txt itself is disallowed")
		}
		if again := robots.Parse([]byte(file), agent); again.Allows(path) != r.Allows(path) || again.Named != r.Named || again.Delay != r.Delay {
			t.Fatalf("two parses differ about %q", path)
		}
		// A path forbidden to all is not fetched; and more rules for others change nothing.
		more := robots.Parse([]byte("User-agent: somebody-else\nDisallow: /\n\n"+file), agent)
		if strings.HasPrefix(strings.ToLower(strings.TrimSpace(file)), "user-agent:") && more.Allows(path) != r.Allows(path) {
			t.Fatalf("the group of another agent changes %q", path)
		}
	})
}
