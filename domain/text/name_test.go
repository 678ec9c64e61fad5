package text_test

import (
	"errors"
	"strings"
	"testing"

	"letterhead/domain/text"
)

// The expected characters are those of the Unicode Character Database: Cc and Bidi_Control (PropList.txt), Zl and Zp.
func TestCheckShown_HiddenCharacter_IsNamed(t *testing.T) {
	for character, want := range map[string]string{
		"\x00": "U+0000", "\t": "U+0009", "\n": "U+000A", "\x1b": "U+001B", "\x7f": "U+007F", "\u0085": "U+0085",
		"\u061c": "U+061C", "\u200e": "U+200E", "\u200f": "U+200F", "\u202a": "U+202A", "\u202b": "U+202B", "\u202c": "U+202C",
		"\u202d": "U+202D", "\u202e": "U+202E", "\u2066": "U+2066", "\u2067": "U+2067", "\u2068": "U+2068", "\u2069": "U+2069",
		"\u2028": "U+2028", "\u2029": "U+2029",
	} {
		for _, name := range []string{character, character + "Acme", "Ac" + character + "me", "Acme" + character} {
			if err := text.CheckShown(name); !errors.Is(err, text.ErrHidden) || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v, want an error with %s", name, err, want)
			}
		}
	}
	if err := text.CheckShown("Ac\xffme"); !errors.Is(err, text.ErrNotText) {
		t.Errorf("a text that is not UTF-8: %v", err)
	}
}

func TestCheckShown_NamesOfTheWorld_AreAccepted(t *testing.T) {
	for _, name := range []string{
		"", "Acme", "Büro Lehm & Söhne", "株式会社アクメ", "می\u200cخواهم", "क्\u200dष", "👩\u200d💻 team", "שלום", "شركة", "A\u00a0B", "soft\u00adware", "e\u0301",
	} {
		if err := text.CheckShown(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}
