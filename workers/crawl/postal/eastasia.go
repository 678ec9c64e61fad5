package postal

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"letterhead/internal/lazyregexp"
)

// Addresses of China, Japan, Korea and Taiwan begin with the largest part, and are written without a postal code as
// often as with one. A line is an address if it begins with a province, possibly after a label, a postal code or the
// country, and has a house number.

const maxEastAsian = 70 // limits the runes of such a line: a longer one is a sentence

var (
	// beforeProvince matches everything that may precede the province.
	beforeProvince = lazyregexp.New(`^(?:[\p{L}\s]{0,12}(?:地址|所在地|住所|本社|住址|公司地址|주소|소재지|본사)[\p{L}\s]{0,4}[:：\s]*)?(?:〒\s?)?(?:\(?[0-9０-９]{3}[-－]?[0-9０-９]{2,4}\)?\s*)?(?:中国|中國|日本|日本国|大韓民国|대한민국|台灣|臺灣|台湾)?[\s　,，]*`)

	japanese = lazyregexp.New(`^(北海道|東京都|(?:大阪|京都)府|(?:` + tables.Any("japanese") + `)県)[\s　]*(\p{Han}[^\s　0-9０-９]*)`)
	// japaneseCounty precedes a town or village, which is the city.
	japaneseCounty = lazyregexp.New(
		`^\p{Han}[\p{Han}\p{Hiragana}\p{Katakana}]{0,3}郡([\p{Han}\p{Hiragana}\p{Katakana}]{1,6}?[町村])`)
	japaneseCity = lazyregexp.New(`^([\p{Han}\p{Hiragana}\p{Katakana}]{1,6}?[市区町村][市町]?)`)
	// japaneseNames are cities with the character of another kind of place within their names.
	japaneseNames = lazyregexp.New(`^(` + tables.Any("japaneseNames") + `)`)

	chinese      = lazyregexp.New(`^(` + tables.Any("chinese") + `)\s*([\p{Han}]{1,8}?(?:市|自治州|地区|盟))`)
	municipality = lazyregexp.New(`^(北京|上海|天津|重庆)市?[\s,，]*\p{Han}`)
	// cityAlone matches an address that begins with the city. It needs a domain or language of China.
	cityAlone = lazyregexp.New(`^([\p{Han}]{2,4}市)\s*[\p{Han}]{2,6}[区县镇]`)

	taiwanese = lazyregexp.New(`^((?:台北|臺北|新北|桃園|台中|臺中|台南|臺南|高雄|基隆|新竹|嘉義)市|(?:` + tables.Any("taiwanese") +
		`)縣)\s*(\p{Han}{1,4}?[區鄉鎮市])?`)

	korean = lazyregexp.New(`^(` + tables.Any("korean") + `)\s+(\p{Hangul}{1,6}(?:특례시|시|군|구))(?:\s|$)`)

	// Signs of a street and a house.
	japaneseHouse = lazyregexp.New(`[\d０-９]+[-－−‐ー][\d０-９]+|[\d０-９一二三四五六七八九十]+(?:丁目|番地?|号)`)
	chineseHouse  = lazyregexp.New(`(?:路|街|道|巷|弄|村|镇|园区|园|大厦|段)[^\d０-９]{0,8}[\d０-９]|[\d０-９]+\s*(?:号|號)`)
	koreanHouse   = lazyregexp.New(`(?:로|길|동|리|가)\s?\d|\d+\s?(?:번지|번길)`)
)

// eastAsian reads line i as an address of China, Japan, Korea or Taiwan.
func eastAsian(lines []string, i int, near Country) (Address, bool) {
	line := lines[i]
	if strings.IndexFunc(line, func(r rune) bool { return unicode.In(r, unicode.Han, unicode.Hangul) }) < 0 {
		return Address{}, false
	}
	text := line
	if at := strings.IndexFunc(text, isSeparator); at >= 0 { // one of several statements of a footer
		parts := strings.FieldsFunc(line, isSeparator)
		for k := range parts {
			if a, ok := eastAsian(parts, k, near); ok {
				return a, true
			}
		}
		return Address{}, false
	}
	// A company's name and a statement may precede: 会社名　〒….
	if at := strings.Index(text, "〒"); at > 0 {
		text = text[at:]
	} else if at := addressLabel.FindStringIndex(text); at != nil && at[0] > 0 {
		text = text[at[0]:]
	}
	text = strings.TrimSpace(text)
	code := ""
	if m := eastCode.FindStringSubmatch(text); m != nil {
		code = m[1]
	}
	text = text[len(beforeProvince.FindString(text)):]
	if utf8.RuneCountInString(text) > maxEastAsian || strings.ContainsAny(text, "。！？!?") {
		return Address{}, false
	}
	state, city, country := eastAsianPlace(text, near)
	if city == "" {
		return Address{}, false
	}
	c, _ := ByCode(country)
	return Address{Street: text, PostalCode: code, City: city, State: state, Country: c, Named: true}, true
}

// eastAsianPlace returns the parts of an address that begins with its province
// or city. The city is "" if the text is no address or has no house number.
func eastAsianPlace(text string, near Country) (state, city, country string) {
	if japaneseHouse.MatchString(text) {
		if m := japanese.FindStringSubmatch(text); m != nil {
			return m[1], japaneseCityOf(m[2]), "JP"
		}
	}
	if chineseHouse.MatchString(text) {
		if m := chinese.FindStringSubmatch(text); m != nil {
			return m[1], strings.TrimSuffix(m[2], "市"), "CN"
		}
		if m := municipality.FindStringSubmatch(text); m != nil {
			return "", m[1], "CN"
		}
		if m := taiwanese.FindStringSubmatch(text); m != nil {
			if strings.HasSuffix(m[1], "縣") && m[2] != "" {
				return m[1], m[2], "TW"
			}
			return "", m[1], "TW"
		}
		if m := cityAlone.FindStringSubmatch(text); m != nil && near.Code == "CN" {
			return "", strings.TrimSuffix(m[1], "市"), "CN"
		}
	}
	if koreanHouse.MatchString(text) {
		if m := korean.FindStringSubmatch(text); m != nil {
			state, city = m[1], m[2]
			// a district of a city that is a province
			if strings.HasSuffix(city, "구") || strings.HasSuffix(city, "군") && !strings.HasSuffix(state, "도") {
				state, city = "", m[1]
			}
			return state, city, "KR"
		}
	}
	return "", "", ""
}

// isSeparator reports whether a character separates the statements of a line.
func isSeparator(r rune) bool {
	return r == '|' || r == '｜' || r == '/' || r == '／' || r == '·' || r == ';'
}

var (
	eastCode     = lazyregexp.New(`^[^\d０-９]{0,12}(\d{3}-?\d{4}|\d{5,6}|\d{3})(?:\D|$)`)
	addressLabel = lazyregexp.New(`(?:地址|所在地|住所|住址|주소|소재지)\s*[:：]`)
)

// japaneseCityOf returns the city, ward, town or village at the beginning of a text.
func japaneseCityOf(text string) string {
	for _, pattern := range []*lazyregexp.Regexp{japaneseNames, japaneseCounty, japaneseCity} {
		if m := pattern.FindStringSubmatch(text); m != nil {
			return m[1]
		}
	}
	return ""
}
