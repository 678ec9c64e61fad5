package jsontext_test

import (
	"strings"
	"testing"

	"letterhead/workers/crawl/jsontext"
)

func TestDepth_Text_IsCounted(t *testing.T) {
	for text, want := range map[string]int{
		``: 0, `5`: 0, `{}`: 1, `[{"a":[1]}]`: 3, `"[[["`: 0, `{"a\"[[":"]]"}`: 1, `[][][]`: 1, `]]]`: 0,
	} {
		if got := jsontext.Depth([]byte(text), 100); got != want {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
	}
	if got := jsontext.Depth([]byte(strings.Repeat("[", 1_000_000)), 10); got != 11 {
		t.Errorf("depth %d past the limit, want 11", got)
	}
}
