package text_test

import (
	"errors"
	"strings"
	"testing"

	"letterhead/domain/text"
)

// The expected characters are those of the Unicode Character Database: Cc, Cf, Zl and Zp, with Bidi_Control, and
// Other_Default_Ignorable_Code_Point (PropList.txt).
// Rule 12.
func TestCheckShown_HiddenCharacter_IsNamed(t *testing.T) {
	for character, want := range map[string]string{
		"\x00": "U+0000", "\t": "U+0009", "\n": "U+000A", "\x1b": "U+001B", "\x7f": "U+007F", "\u0085": "U+0085",
		"\u061c": "U+061C", "\u200e": "U+200E", "\u200f": "U+200F", "\u202a": "U+202A", "\u202b": "U+202B", "\u202c": "U+202C",
		"\u202d": "U+202D", "\u202e": "U+202E", "\u2066": "U+2066", "\u2067": "U+2067", "\u2068": "U+2068", "\u2069": "U+2069",
		"\u2028": "U+2028", "\u2029": "U+2029",
		"\u00ad": "U+00AD", "\u034f": "U+034F", "\u180e": "U+180E", "\u200b": "U+200B", "\u2060": "U+2060", "\u2064": "U+2064", "\u206f": "U+206F",
		"\u3164": "U+3164", "\uffa0": "U+FFA0", "\ufeff": "U+FEFF", "\ufff9": "U+FFF9", "\U000e0001": "U+E0001", "\U000e0067": "U+E0067", "\U0001d173": "U+1D173",
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

func TestClean_Text_IsShownAsIs(t *testing.T) {
	for _, c := range []struct {
		text  string
		limit int
		want  string
	}{
		{" \u3000Acme\u00a0 \n\u2028 Inc.\t", 100, "Acme Inc."}, {"Ac\u200bme\u00ad \u202e\u3164 Inc\x00", 100, "Acme Inc"},
		{"a\xff\ufffdb", 100, "ab"}, {"می\u200cخواهم 👩\u200d💻 e\u0301 ❤\ufe0f", 100, "می\u200cخواهم 👩\u200d💻 e\u0301 ❤\ufe0f"},
		{"\u200b", 100, ""}, {"", 0, ""}, {"äb cd", 5, "äb cd"}, {"äb  cd", 4, "äb c"}, {"äb cd", 3, "äb"}, {"äb cd", 0, ""},
	} {
		if got := text.Clean(c.text, c.limit); got != c.want {
			t.Errorf("%q with limit %d is %q, want %q", c.text, c.limit, got, c.want)
		}
	}
}

func TestCheckShown_NamesOfTheWorld_AreAccepted(t *testing.T) {
	for _, name := range []string{
		"", "Acme", "Büro Lehm & Söhne", "株式会社アクメ", "می\u200cخواهم", "क्\u200dष", "👩\u200d💻 team", "שלום", "شركة", "A\u00a0B", "e\u0301", "❤\ufe0f", "\u0601٢٠٢٦",
	} {
		if err := text.CheckShown(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}
