package journal

import (
	"bytes"
	"slices"
	"testing"

	"github.com/xuri/excelize/v2"

	"letterhead/internal/testmust"
)

// ECMA-376, part 1, 22.9.2.19: _xHHHH_ is a character in a text.
func TestXLSX_TextLikeAnEscape_IsKept(t *testing.T) {
	texts := []string{"_x0041_", "_x0041_x0042_", "_x005F_x0041_", "__x0041__x000a_", "_x004_", "_x0041", "x0041_", "a_b", " a ", "<&>\"'", "a\tb\nc\rd"}
	var b bytes.Buffer
	x := newXLSX(t.Context(), &b, Options{maxSheetRows: maxSheetRows})
	testmust.Succeed(t, x.nextSheet(""))
	for _, text := range texts {
		x.text(text)
	}
	testmust.Succeed(t, x.row())
	testmust.Succeed(t, x.close(nil))
	f := testmust.Get(excelize.OpenReader(bytes.NewReader(b.Bytes())))(t)
	defer f.Close()
	if rows := testmust.Get(f.GetRows("Journal 1"))(t); !slices.Equal(rows[1], texts) {
		t.Errorf("read %q, want %q", rows[1], texts)
	}
}

// ECMA-376, part 1, 18.8.20: a fill has a pattern or a gradient.
func TestXLSX_Fills_HaveAPattern(t *testing.T) {
	var b bytes.Buffer
	x := newXLSX(t.Context(), &b, Options{maxSheetRows: maxSheetRows})
	testmust.Succeed(t, x.close(nil))
	f := testmust.Get(excelize.OpenReader(bytes.NewReader(b.Bytes())))(t)
	defer f.Close()
	for i, fill := range f.Styles.Fills.Fill {
		if fill.PatternFill == nil {
			t.Errorf("fill %d of %d has no pattern", i, len(f.Styles.Fills.Fill))
		}
	}
}
