package company

import (
	"strconv"
	"strings"

	"letterhead/internal/lazyregexp"
)

// eras maps each Japanese era, and the calendar of Taiwan, to the year before its first.
var eras = map[string]int{"明治": 1867, "大正": 1911, "昭和": 1925, "平成": 1988, "令和": 2018, "民國": 1911, "民国": 1911}

var (
	eraYear      = lazyregexp.New(`(明治|大正|昭和|平成|令和|民國|民国)\s?(元|\d{1,3})\s?年`)
	buddhistYear = lazyregexp.New(`(พ\.?ศ\.?)\s?(2[45]\d{2})`)
)

const buddhistBefore = 543 // the number of years by which the Thai calendar is ahead of the western one

// westernYears converts years of Japanese eras, of the calendar of Taiwan and
// of the Thai calendar to the western calendar, and wide digits to ASCII.
func westernYears(text string) string {
	if strings.ContainsAny(text, "年０１２３４５６７８９") {
		text = strings.Map(func(r rune) rune {
			if r >= '０' && r <= '９' {
				return r - '０' + '0'
			}
			return r
		}, text)
		text = eraYear.ReplaceAllStringFunc(text, func(found string) string {
			m := eraYear.FindStringSubmatch(found)
			n, err := strconv.Atoi(m[2])
			if err != nil { // 元, the first year
				n = 1
			}
			return strconv.Itoa(eras[m[1]]+n) + "年"
		})
	}
	if !strings.Contains(text, "ศ") {
		return text
	}
	return buddhistYear.ReplaceAllStringFunc(text, func(found string) string {
		n, err := strconv.Atoi(buddhistYear.FindStringSubmatch(found)[2])
		if err != nil {
			return found
		}
		return strconv.Itoa(n - buddhistBefore)
	})
}
