package text_test

import (
	"errors"
	"net/mail"
	"strings"
	"testing"

	"letterhead/domain/text"
)

// Rule 13.
func TestCheckKept_EmailAddress_IsFound(t *testing.T) {
	for _, address := range []string{
		"ann@example.com", "Ann.Smith+billing@Mail.Example.CO.UK", "a@b.de", "o'brien@example.ie", "ann_@example.com", "ann-@example.com", "ann.@example.com",
		"x+@example.com", "1@example.com", `"ann smith"@example.com`, "ann@xn--bcher-kva.example", "ann@bücher.example", "jörg@müller.de",
		"用户@例子.广告", "用户@例子。广告", "अजय@डाटा.भारत", "ann＠example.com", "ann@sub_domain.example.com", "ann@3com.com", "ann@[192.0.2.1]", "ann@[IPv6:2001:db8::1]", "e\u0301@example.com",
	} {
		for _, around := range []string{"%", "asked by % today", "<%>", "(%)", "mailto:%", "“%”", "'%'", `"%"`, "%.", "%, and more", "%-old", "%_2", "Ann<%>", "a\n%\nb", "@team: %", "5 @ 3 EUR %", "https://%/", "\u202a%\u202c", "来自%。", "%;%"} {
			if s := strings.ReplaceAll(around, "%", address); !errors.As(text.CheckKept("reason", s), new(*text.EmailError)) {
				t.Errorf("%q is accepted", s)
			}
		}
	}
}

func TestCheckKept_OtherSigns_AreAccepted(t *testing.T) {
	for _, s := range []string{
		"", "Pays by invoice.", "@team", "ask @ann.smith", "by @example.com", "(@example.com)", "5 @ 3 EUR", "5@3 EUR", "5@3.50 EUR", "10 @ 0.5", "user@host", "root@localhost.", "ann@",
		"@", "@@", "a@@b.com", "left-pad@1.3.0", "https://social.example/@ann.smith", "ann at example.com", "cus_1", "in_1NxY.z", "client_gone", "wire 2026-11-28; ref @7", "ann @ example.com",
	} {
		if err := text.CheckKept("reason", s); err != nil {
			t.Errorf("%q: %v", s, err)
		}
	}
}

// An address that net/mail reads, with a top-level domain in letters, is found wherever it is.
func FuzzCheckKept_AddressesOfNetMail_AreFound(f *testing.F) {
	f.Add("ann", "example")
	f.Add("ann.smith+1", "bücher")
	f.Add("jörg", "a.b-c")
	f.Fuzz(func(t *testing.T, local, domain string) {
		address := local + "@" + domain + ".example"
		found := text.CheckKept("reason", "by "+address+", today") != nil // must not fail on anything
		plain := func(s string) bool {
			return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789äöüß") == ""
		}
		for _, label := range append(strings.Split(domain, "."), local) {
			if !plain(label) {
				return
			}
		}
		if parsed, err := mail.ParseAddress(address); err == nil && parsed.Address == address && !found {
			t.Errorf("%q is not found", address)
		}
	})
}
