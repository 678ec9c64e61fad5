package company

// FormExpressions returns the expressions of both tables of legal forms.
func FormExpressions() []string {
	var out []string
	for _, pattern := range formPatterns {
		out = append(out, pattern.String())
	}
	for _, f := range foreignForms {
		out = append(out, f.pattern.String())
	}
	return out
}

// MayStateForm reports whether a line is searched for a legal form.
func MayStateForm(line string) bool { return hasAny(line, formMarks) }
