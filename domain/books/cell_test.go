package books

import "testing"

func TestSafeCell_Formula_IsQuoted(t *testing.T) {
	for text, want := range map[string]string{"": "", "a=1": "a=1", "=1+1": "'=1+1", "+1": "'+1", "-1": "'-1", "@x": "'@x", "\tx": "'\tx",
		"x;=1": "x;'=1", "x\n+1": "x\n'+1", "x\r@": "x\r'@", "a\t-1,=2": "a\t'-1,'=2", "a-b": "a-b", "a;b": "a;b"} {
		if got := SafeCell(text); got != want {
			t.Errorf("SafeCell(%q) = %q, want %q", text, got, want)
		}
	}
}
