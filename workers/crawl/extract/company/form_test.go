package company_test

import (
	"regexp"
	"regexp/syntax"
	"testing"

	"letterhead/internal/testmust"
	"letterhead/workers/crawl/extract/company"
)

// maxSpelled is the size of the largest class whose characters are all tried.
// Larger classes match names and what surrounds them.
const maxSpelled = 12

// spellings returns texts for all alternatives and options of an expression. A
// class of many characters is represented by one of them.
func spellings(t *testing.T, re *syntax.Regexp) []string {
	switch re.Op {
	case syntax.OpEmptyMatch, syntax.OpBeginText, syntax.OpEndText, syntax.OpBeginLine, syntax.OpEndLine:
		return []string{""}
	case syntax.OpLiteral:
		return []string{string(re.Rune)}
	case syntax.OpCharClass:
		return spellingsOfClass(re)
	case syntax.OpCapture:
		return spellings(t, re.Sub[0])
	case syntax.OpQuest:
		return append(spellings(t, re.Sub[0]), "")
	case syntax.OpRepeat:
		out := []string{""}
		for range re.Min {
			out = joined(out, spellings(t, re.Sub[0]))
		}
		return out
	case syntax.OpAlternate:
		var out []string
		for _, sub := range re.Sub {
			out = append(out, spellings(t, sub)...)
		}
		return out
	case syntax.OpConcat:
		out := []string{""}
		for _, sub := range re.Sub {
			out = joined(out, spellings(t, sub))
		}
		return out
	}
	t.Fatalf("no spellings for %s", re)
	return nil
}

func spellingsOfClass(re *syntax.Regexp) []string {
	var out []string
	for i := 0; i < len(re.Rune); i += 2 {
		for r := re.Rune[i]; r <= re.Rune[i+1]; r++ {
			if out = append(out, string(r)); len(out) > maxSpelled {
				return []string{representative(re)}
			}
		}
	}
	return out
}

// representative returns a letter of a class, or a space if it has none.
func representative(class *syntax.Regexp) string {
	if regexp.MustCompile("^" + class.String() + "$").MatchString("Z") {
		return "Z"
	}
	return " "
}

func joined(starts, ends []string) []string {
	var out []string
	for _, s := range starts {
		for _, e := range ends {
			out = append(out, s+e)
		}
	}
	return out
}

func TestLegalForms_EachSpellingAloneOnALine_IsSearched(t *testing.T) {
	for _, expression := range company.FormExpressions() {
		re := testmust.Get(syntax.Parse(expression, syntax.Perl))(t)
		pattern := regexp.MustCompile(expression)
		for _, line := range spellings(t, re) {
			switch {
			case !pattern.MatchString(line):
				t.Errorf("%q is no spelling of %.60s", line, expression)
			case !company.MayStateForm(line):
				t.Errorf("%q is not searched for a legal form", line)
			}
		}
	}
}
