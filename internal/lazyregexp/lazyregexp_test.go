package lazyregexp_test

import (
	"reflect"
	"regexp"
	"strings"
	"testing"

	"letterhead/internal/lazyregexp"
)

func TestRegexp_AnswersAsRegexp(t *testing.T) {
	const expression = `(?i)(a+)(b)?`
	lazy, compiled := lazyregexp.New(expression), regexp.MustCompile(expression)
	for _, text := range []string{"", "none", "xAAbya", "ab ab ab"} {
		for method, results := range map[string][2]any{
			"String":                  {lazy.String(), compiled.String()},
			"MatchString":             {lazy.MatchString(text), compiled.MatchString(text)},
			"FindString":              {lazy.FindString(text), compiled.FindString(text)},
			"FindStringIndex":         {lazy.FindStringIndex(text), compiled.FindStringIndex(text)},
			"FindStringSubmatch":      {lazy.FindStringSubmatch(text), compiled.FindStringSubmatch(text)},
			"FindStringSubmatchIndex": {lazy.FindStringSubmatchIndex(text), compiled.FindStringSubmatchIndex(text)},
			"FindAllString":           {lazy.FindAllString(text, 2), compiled.FindAllString(text, 2)},
			"FindAllStringIndex":      {lazy.FindAllStringIndex(text, 2), compiled.FindAllStringIndex(text, 2)},
			"FindAllStringSubmatch":   {lazy.FindAllStringSubmatch(text, 2), compiled.FindAllStringSubmatch(text, 2)},
			"FindSubmatch":            {lazy.FindSubmatch([]byte(text)), compiled.FindSubmatch([]byte(text))},
			"FindAllSubmatch":         {lazy.FindAllSubmatch([]byte(text), 2), compiled.FindAllSubmatch([]byte(text), 2)},
			"ReplaceAllString":        {lazy.ReplaceAllString(text, "$1-"), compiled.ReplaceAllString(text, "$1-")},
			"ReplaceAllStringFunc":    {lazy.ReplaceAllStringFunc(text, strings.ToUpper), compiled.ReplaceAllStringFunc(text, strings.ToUpper)},
			"Split":                   {lazy.Split(text, 2), compiled.Split(text, 2)},
		} {
			if !reflect.DeepEqual(results[0], results[1]) {
				t.Errorf("%s of %q is %v, want %v", method, text, results[0], results[1])
			}
		}
	}
}

func TestNew_BadExpression_PanicsInTests(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("an expression that cannot be compiled was accepted")
		}
	}()
	lazyregexp.New("(")
}
