package operations_test

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"letterhead/domain/brand"
	"letterhead/operations"
)

func TestParseDomains_FormsOfLists_AreRead(t *testing.T) {
	for _, c := range []struct {
		text                 string
		domains              string
		duplicates, rejected int
	}{
		{"acme.com", "acme.com", 0, 0},
		{"\ufeffacme.com\r\nexample.org\r\n", "acme.com example.org", 0, 0},
		{"acme.com\rexample.org", "acme.com example.org", 0, 0},
		{"ACME.com\nwww.acme.com.\nhttps://acme.com:8443/x?y#z\n", "acme.com", 2, 0},
		{"münchen.de\nxn--mnchen-3ya.de\n", "xn--mnchen-3ya.de", 1, 0},
		{"jane@acme.com\nJane <joe@example.org>\n", "acme.com example.org", 0, 0},
		{"192.0.2.1\n::1\nhttp://[::1]/\nlocalhost\nco.uk\n-\nfoo bar\n", "", 0, 7},
		{"domain\nacme.com\n", "acme.com", 0, 0},
		{"id,Email,Website\n1,jane@acme.com,https://acme.com\n2,,\n", "acme.com", 0, 1},
		{"Website\tName\nacme.com\tAcme, Inc.\n", "acme.com", 0, 0},
		{"\tdomain\tname\n0\tacme.com\tAcme\n", "acme.com", 0, 0},
		{"id\tdomain\turl\n\tacme.com\thttps://other.org\n", "acme.com", 0, 0},
		{"  acme.com  \n\t example.org\n", "acme.com example.org", 0, 0},
		{"name;url\n\"A;B\";acme.com\n\"open;example.org\n", "acme.com", 0, 1},
		{"\"acme.com\"\n\"example.org\"\n", "acme.com example.org", 0, 0},
		{"5f0c6a1e-6f0b-4f6e-9d51-0f5b3a8e2c11\nacme.com", "acme.com", 0, 1},
		{"a\x00c\x00m\x00e\x00.\x00c\x00o\x00m\x00\n", "", 0, 1},
		{"\n \n\t\n", "", 0, 0},
	} {
		l := operations.ParseDomains(c.text)
		if strings.Join(l.Domains, " ") != c.domains || l.Duplicates != c.duplicates || l.Rejected != c.rejected || len(l.First) != c.rejected {
			t.Errorf("%q is read as %+v", c.text, l)
		}
	}
}

func FuzzParseDomains(f *testing.F) {
	f.Add("\ufeffname;Website\r\n\"A;B\";https://www.acme.com/\r\nx;192.0.2.1\r\n")
	f.Add("acme.com\rACME.com\njane@example.org\x00")
	f.Fuzz(func(t *testing.T, text string) {
		l := operations.ParseDomains(text)
		lines := 1 + strings.Count(text, "\n") + strings.Count(text, "\r")
		if n := len(l.Domains) + l.Duplicates + l.Rejected; n > lines {
			t.Fatalf("%d lines were counted of %d", n, lines)
		}
		sorted := slices.Sorted(slices.Values(l.Domains))
		if len(slices.Compact(sorted)) != len(l.Domains) {
			t.Errorf("a domain is listed twice: %q", l.Domains)
		}
		for _, d := range l.Domains {
			if same, err := brand.ParseDomain(d); err != nil || same != d {
				t.Errorf("%q is no registrable domain: %v", d, err)
			}
		}
		last := 0
		for _, r := range l.First {
			if r.Line <= last || r.Line > lines || r.Reason == "" || utf8.ValidString(text) && !utf8.ValidString(r.Text) {
				t.Errorf("rejected %+v after line %d", r, last)
			}
			last = r.Line
		}
	})
}
