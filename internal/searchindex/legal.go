package searchindex

import (
	"slices"
	"strings"
)

// Legal forms as written with a company's name. They are compared folded, so that Inc., INC and inc
// are equal. A form is one or several words; commas separate forms. Common words of names (group,
// bank, systems) are not legal forms. This is the only list: both sides of a comparison, and so both
// engines, use core. A change of it is a change of Analysis.
const (
	// trailingForms occur at the end of a name.
	trailingForms = `
		inc, incorporated, corp, corporation, co, company, llc, l l c, llp, lllp, lp, pllc, pbc, ltd, limited, plc, cic,
		private limited, pvt, pte, pty, proprietary limited, sdn bhd, bhd, tbk, holding, holdings, teoranta, clg,
		and co, and company, and cie, and cia, und co, et co, et cie, cie, och co, og co, y cia, e cia, cia,
		gmbh, ggmbh, mbh, ag, aktiengesellschaft, kg, kgaa, ohg, gbr, ug, haftungsbeschränkt, e.v., e.k., se,
		sa, s a, s.a. de c.v., s. de r.l. de c.v., sas, sasu, sarl, s.à r.l., eurl, snc, sca, sci, sagl, spa, s p a, srl, s r l, srls, sapa,
		sl, s l, slu, sau, sll, sab, sapi, spr, lda, ltda, limitada, eireli, eirl, sgps, unipessoal,
		bv, b v, nv, n v, bvba, cvba, vof, asbl, vzw,
		ab, a b, publ, hb, as, a/s, asa, aps, k/s, i/s, ivs, amba, oy, oyj, abp, ehf, hf, ohf, oü, uab, sia,
		sp. z o.o., sp. z o. o., sp. k., sp. j., spółka akcyjna, s.r.o., spol. s r.o., a.s., v.o.s., k.s., kft, zrt, nyrt,
		d.o.o., d. o. o., j.d.o.o., d.d., ad, ead, eood, ood, a.ş., ltd. şti., şti, anonim şirketi, limited şirketi,
		kk, k k, gk, kabushiki kaisha, kabushiki gaisha, wll, pjsc, pjs, fze, fzco, fz llc, dmcc, saog, saoc, qpsc,
		ооо, оао, зао, пао, ао, тоо, тов, пат, прат, ат, оод, еоод, ад, еад, доо,
		α.ε., ε.π.ε., ι.κ.ε., ο.ε., ανώνυμη εταιρεία,
		בע״מ, בע"מ, ש.م.م, ش.م.م, ذ.م.م, ش.ذ.م.م, ش.م.ع, ش.م.ك, المحدودة,
		प्राइवेट लिमिटेड, लिमिटेड, มหาชน,
		株, 有, 주, 유`
	// leadingForms occur at the beginning of a name. Latin forms are listed only if hardly any name begins with them
	// (PT Cruiser and UAB Medicine do, and are still found by their whole name, which is compared in addition to the
	// core).
	leadingForms = `
		ооо, оао, зао, пао, ао, ип, тоо, тов, пат, прат, ooo, oao, zao, pao, uab, pt,
		công ty tnhh, công ty cổ phần, ctcp, شركة, 株, 有, 주, 유`
	// joinedForms precede or follow a name without a space.
	joinedForms = `
		株式会社, 株式會社, 有限会社, 合同会社, 合資会社, 合名会社, 股份有限公司, 有限责任公司, 有限責任公司, 有限公司, 公司,
		주식회사, 유한회사, 유한책임회사, บริษัท, จำกัด`
)

// maxFormWords is the length of the longest form: s de rl de cv.
const maxFormWords = 5

var (
	joined   = foldedForms(joinedForms)
	trailing = formSet(trailingForms, joinedForms)
	leading  = formSet(leadingForms, joinedForms)
)

func foldedForms(list string) []string {
	var forms []string
	for form := range strings.SplitSeq(list, ",") {
		forms = append(forms, Fold(form))
	}
	return forms
}

func formSet(lists ...string) map[string]bool {
	set := make(map[string]bool)
	for _, form := range foldedForms(strings.Join(lists, ",")) {
		set[form] = true
	}
	return set
}

// core removes legal forms and "and" from a name, but never everything: a name of nothing but such
// words is found by them.
func core(words []string) []string {
	out := slices.Clone(words)
	for before := "\x00"; before != strings.Join(out, " "); {
		before = strings.Join(out, " ")
		out = withoutJoined(out)
		if n := formAt(trailing, out, func(n int) []string { return out[len(out)-n:] }); n > 0 {
			out = out[:len(out)-n]
		}
		if len(out) > 1 && out[len(out)-1] == "and" {
			out = out[:len(out)-1]
		}
	}
	if n := formAt(leading, out, func(n int) []string { return out[:n] }); n > 0 {
		out = out[n:]
	}
	if rest := slices.DeleteFunc(slices.Clone(out), func(w string) bool { return w == "and" }); len(rest) > 0 {
		out = rest
	}
	return out
}

// WithoutForms returns the range words[from:to] of a name without the legal forms that are separate
// words at its ends. The words are folded one by one. At least one word is left if there is any.
func WithoutForms(words []string) (from, to int) {
	to = len(words)
	for {
		n := formAt(trailing, words[:to], func(n int) []string { return words[to-n : to] })
		if n == 0 {
			break
		}
		to -= n
	}
	return formAt(leading, words[:to], func(n int) []string { return words[:n] }), to
}

// formAt returns the number of words in the longest legal form at one end of a name, 0 for none. At
// least one word is left.
func formAt(forms map[string]bool, words []string, end func(int) []string) int {
	for n := min(maxFormWords, len(words)-1); n > 0; n-- {
		if forms[strings.Join(end(n), " ")] {
			return n
		}
	}
	return 0
}

// withoutJoined removes legal forms that are joined with the name.
func withoutJoined(words []string) []string {
	if len(words) == 0 {
		return words
	}
	first, last := 0, len(words)-1
	for _, form := range joined {
		if rest, ok := strings.CutPrefix(words[first], form); ok && rest != "" && !trailing[words[first]] {
			words[first] = rest
		}
		if rest, ok := strings.CutSuffix(words[last], form); ok && rest != "" && !trailing[words[last]] {
			words[last] = rest
		}
	}
	return words
}
