package monogram

import (
	"strings"
	"testing"
	"unicode"
)

func TestLetters_Names(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		// One word gives one letter, two give two.
		"Acme": "A", "GitHub": "G", "eBay": "E", "McDonald's": "M", "L'Oréal": "L", "O’Neill": "O", "IBM": "I", "iPhone": "I",
		"Goldman Sachs": "GS", "The Home Depot": "HD", "International Business Machines": "IB", "Mercedes-Benz": "MB",
		"AT&T": "AT", "H&M": "HM", "Johnson & Johnson": "JJ", "Bank of America": "BA", "Marks and Spencer": "MS", "Bed, Bath & Beyond": "BB",
		"Die Zeit": "Z", "Der Spiegel": "S", "The The": "T", "The": "T", "Las Vegas Sands": "LV", "Y Combinator": "YC", "Peek und Cloppenburg": "PC",
		"Hennes\tog\nMauritz": "HM", "  spaced   out  ": "SO", "under_score": "US", "Slash/Dash": "SD",
		// Two characters give both; digits at the beginning give two at most.
		"HP": "HP", "3M": "3M", "o2": "O2", "X": "X", "1Password": "1P", "23andMe": "23", "37signals": "37", "500px": "5", "7-Eleven": "7E",
		"Web24": "W", "360": "3", "99": "99", "3M Company": "3M",
		// Dots.
		"Booking.com": "B", "A.P. Moller": "AP", "U.S. Bank": "US", "E.ON": "EO", "J.Crew": "JC", "Yahoo! Inc.": "Y", "Node.js": "N", "...Baby One": "BO", ".": "A",
		// Legal forms.
		"Siemens AG": "S", "Acme GmbH & Co. KG": "A", "Ferrari S.p.A.": "F", "Maersk A/S": "M", "Allegro Sp. z o.o.": "A", "ООО Ромашка": "Р",
		"Amazon.com, Inc.": "A", "Inc": "I", "GmbH & Co. KG": "G", "PT Telkom Indonesia Tbk": "TI", "LINE株式会社": "L", "株式会社LIXIL": "L",
		// Cyrillic and Greek.
		"Яндекс": "Я", "Сбербанк России": "СР", "йога": "Й", "ёлка": "Ё", "Київстар": "К", "їжак": "Ї", "Ђорђевић": "Ђ", "Ελλάδα": "Ε", "Εθνική Τράπεζα": "ΕΤ",
		"άλφα": "Ά", "ψ": "Ψ", "ΐ": "Ϊ",
		// Accents, composed or not; letters that consist of several; letters of which the font has only the base.
		"Éclair": "É", "E\u0301clair": "É", "école": "É", "e\u0301cole": "É", "Ångström": "Å", "škoda": "Š", "Ørsted": "Ø", "Łódź": "Ł", "Ñandú Óptica": "ÑÓ",
		"ßtraße": "S", "ﬁrma": "F", "ǆep": "D", "ĳsberg": "I", "œuvre": "Œ", "æble": "Æ", "þing": "Þ", "ŉ": "N", "ijs": "I",
		"Ếch": "Ê", "Ạnh": "A", "Șapte Țări": "ȘȚ", "e\u0301\u0302\u0303\u0304\u0305\u0306xtra": "É",
		// Turkish letters are kept, but not guessed.
		"ışık": "I", "İstanbul": "İ", "istanbul": "I", "i\u0307stanbul": "İ",
		// Letters of other forms.
		"Ａｃｍｅ": "A", "𝐀𝐜𝐦𝐞": "A", "Ⓐcme": "A", "³M": "3M",
		// Signs and invisible characters.
		"Acme™": "A", "™ Acme®": "A", "🔥 Hot Stuff": "HS", "\u200bAcme": "A", "A\u00adcme": "A", "\u202eAcme": "A", "«Луна»": "Л", "@home": "H", "#Hash": "H",
		"\u0301Acme": "A", "\x00Acme\xff": "A", "\xff\xfeAcme": "A",
		// Scripts that the font lacks, also mixed with others.
		"百度": "", "トヨタ": "", "삼성": "", "العربية": "", "עברית": "", "हिन्दी": "", "ไทย": "", "საქართველო": "", "Հայաստան": "", "বাংলা": "", "தமிழ்": "", "ⴰⵎⴰⵣⵉⵖ": "",
		"٣": "", "ƏƏ": "", "微博 Weibo": "W", "サントリー Suntory Group": "SG", "HP 惠普": "HP", "360安全": "3", "新浪Sina": "S",
		// Without letters the domain, acme.com, is used.
		"": "A", " ": "A", "!!!": "A", "🔥": "A", "❤️": "A", "™": "A", "\xff": "A", "-": "A",
	} {
		if got := string(Monogram{Domain: "acme.com", Name: name}.letters()); got != want {
			t.Errorf("letters of %q = %q, want %q", name, got, want)
		}
	}
}

func TestLetters_Domains(t *testing.T) {
	t.Parallel()
	for domain, want := range map[string]string{
		"github.com": "G", "acme.co.uk": "A", "3m.com": "3M", "hp.com": "HP", "x.com": "X", "t.co": "T", "coca-cola.com": "CC", "t-online.de": "TO", "7-eleven.com": "7E",
		"360.cn": "3", "163.com": "1", "9gag.com": "9G", "1und1.de": "1U", "the-sun.co.uk": "S", "acme-gmbh.de": "A", "23andme.com": "23",
		"xn--bcher-kva.de": "B", "xn--strae-oqa.de": "S", "xn--e1afmkfd.xn--p1ai": "П", "xn--hxajbheg2az3al.xn--jxalpdlp": "Π", "xn--caf-dma.fr": "C",
		"xn--cole-9oa.fr": "É", "xn--fiq228c.com": "", "xn--i-7iq.ws": "I", "xn--ls8h.la": "", "xn--1": "", "xn--a-.com": "", "xn--.com": "", "xn--99999999999.com": "",
		"www.gov.uk": "G", "www.com": "W", "WWW.Example.COM": "W", "": "", ".": "", ".com": "", "-.com": "", "\xff.com": "", "a": "A", "bücher.de": "B",
		strings.Repeat("z", 10<<10): "Z",
	} {
		if got := string(Monogram{Domain: domain}.letters()); got != want {
			t.Errorf("letters of %q = %q, want %q", domain, got, want)
		}
	}
}

// No letter of a supported script becomes a mark: every capital of the alphabets of Europe is drawn,
// if necessary without its diacritics.
func TestLetters_Alphabets(t *testing.T) {
	t.Parallel()
	const alphabets = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789" +
		"ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÐÑÒÓÔÕÖØÙÚÛÜÝÞĀĂĄĆĈĊČĎĐĒĔĖĘĚĜĞĠĢĤĦĨĪĬĮİĴĶĹĻĽĿŁŃŅŇŊŌŎŐŒŔŖŘŚŜŞŠŢŤŦŨŪŬŮŰŲŴŶŸŹŻŽȘȚẀẂẄỲ" +
		"ΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩΆΈΉΊΌΎΏΪΫ" +
		"АБВГДЕЁЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯЂЃЄЅІЇЈЉЊЋЌЎЏҐ"
	for _, r := range alphabets {
		upper, lower := Monogram{Name: string(r)}.letters(), Monogram{Name: string(unicode.ToLower(r))}.letters()
		if len(upper) != 1 {
			t.Errorf("%c is not drawn", r)
		}
		if string(lower) != string(upper) && r != 'İ' { // whose lower case is i, like that of I
			t.Errorf("%c is drawn as %q, and its small letter as %q", r, string(upper), string(lower))
		}
	}
}
