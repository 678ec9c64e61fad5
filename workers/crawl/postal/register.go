package postal

import "letterhead/internal/lazyregexp"

// registers matches the numbers of companies in registers and tax offices, each with the word for it, which differs by
// country. Foreign traders also have tax numbers, so only the kinds that residents alone receive are listed. VR and FN
// with digits also name products, so the word for the register or its court must be beside them.
var registers = []struct {
	country string
	number  *lazyregexp.Regexp
}{
	{"DE", number(`HR[AB][ -]?(?:Nr\.?|Nummer)?:?\s?\d{2,6}(?:\s?[A-Z]{1,2})?|VR[ -]?(?:Nr\.?|Nummer):?\s?\d{2,6}|(?:Amts|Register)gericht[^\d]{0,40}[^\p{L}\d]VR:?\s?\d{2,6}|VR:?\s?\d{2,6}[^\p{L}\d][^\d]{0,20}(?:Amts|Register)gericht|Handelsregister:? (?:[\p{L} ]{0,40})HR[AB]|Vereinsregister`)},
	{"AT", number(`(?:Handels|Landes)gericht[^\d]{0,40}[^\p{L}\d]FN:?\s?\d{3,6}\s?[a-z](?:[^\p{L}]|$)|FN:?\s?\d{3,6}\s?[a-z][^\p{L}\d][^\d]{0,20}(?:Handels|Landes)gericht|Firmenbuch|ATU\s?\d{8}`)},
	{"CH", number(`CHE[- ]\d{3}\.?\d{3}\.?\d{3}`)},
	{"FR", number(`SIRE[TN]\s?(?:n°|no\.?|:)?\s?:?\s?\d{3}\s?\d{3}\s?\d{3}|(?:RCS|R\.C\.S\.)\s(?:de |d')?\p{Lu}[\p{L}-]+`)},
	{"IT", number(`(?:P\.? ?I\.?V\.?A\.?|Partita IVA)\s?(?:e C\.F\.|n\.)?\s?:?\s?(?:IT)?\s?\d{11}|REA\s?:?\s?[A-Z]{2}[ -]?\d+`)},
	{"ES", number(`(?:C\.?I\.?F\.?|N\.?I\.?F\.?)\s?:?\s?(?:n[º°]\s?)?(?:ES)?-?[A-HJNP-SUVW]-?\d{7}[0-9A-J]|Registro Mercantil de \p{Lu}`)},
	{"GB", number(`(?i:registered (?:in|company in) (?:england|scotland|wales|northern ireland|the united kingdom|the uk)|companies house|charity commission)`)},
	{"IE", number(`(?i:registered in (?:the republic of )?ireland|(?:CRO|RCN) (?:no\.?|number):? ?\d{5,8}|CHY ?\d{4,5})`)},
	{"NL", number(`(?i:kvk)(?:-?(?i:nummer|nr\.?))?\s?:?\s?\d{8}|(?i:kamer van koophandel)|NL\d{9}B\d{2}`)},
	{"BE", number(`(?:BCE|KBO|TVA|BTW|BE|RPM|RPR)\s?:?\s?(?:BE)?\s?[01]\d{3}\.?\d{3}\.?\d{3}`)},
	{"SE", number(`(?i:org(?:anisations)?\.?-?\s?(?:nr|nummer))\.?\s?:?\s?(?:SE)?\s?\d{6}-\d{4}`)},
	{"NO", number(`(?i:org(?:anisasjons)?\.?-?\s?(?:nr|nummer))\.?\s?:?\s?(?:NO)?\s?\d{3}\s?\d{3}\s?\d{3}(?: MVA)?`)},
	{"DK", number(`(?i:cvr)(?:[-. ]?(?i:nr|nummer))?\.?\s?:?\s?(?:DK)?\s?\d{2}\s?\d{2}\s?\d{2}\s?\d{2}`)},
	{"FI", number(`(?i:y-tunnus|business id)\s?:?\s?\d{7}-\d`)},
	{"PL", number(`(?:KRS|REGON)\s?:?\s?\d{9,14}|NIP\s?:?\s?(?:PL)?\s?\d{3}[- ]?\d{2,3}[- ]?\d{2}[- ]?\d{2,3}`)},
	{"CZ", number(`DIČ\s?:?\s?CZ\d{8,10}`)},
	{"SK", number(`IČ DPH\s?:?\s?SK\d{10}`)},
	{"HU", number(`(?i:cégjegyzékszám|adószám)\s?:?\s?\d`)},
	{"RO", number(`(?:CUI|CIF)\s?:?\s?(?:RO)?\s?\d{6,10}[\s,;]+(?:Nr\.|Reg|J\d)|J\d{2}/\d+/\d{4}`)},
	{"BR", number(`CNPJ\s?(?:n[º°])?\s?:?\s?\d{2}\.?\d{3}\.?\d{3}/\d{4}-?\d{2}`)},
	{"MX", number(`R\.?F\.?C\.?\s?:?\s?[A-ZÑ&]{3,4}-?\d{6}-?[A-Z0-9]{3}`)},
	{"AR", number(`C\.?U\.?I\.?T\.?\s?(?:N[º°])?\s?:?\s?\d{2}-?\d{8}-?\d`)},
	{"AU", number(`(?:ABN|ACN)\s?:?\s?\d{2,3}(?:\s?\d{3}){2,3}`)},
	{"NZ", number(`NZBN\s?:?\s?\d{13}`)},
	{"IN", number(`(?i:gstin?)(?: (?i:no|number))?\.?\s?:?\s?\d{2}[A-Z]{5}\d{4}[A-Z][0-9A-Z]{3}|CIN\s?:?\s?[LU]\d{5}[A-Z]{2}\d{4}`)},
	{"RU", number(`ОГРН(?:ИП)?\s?:?\s?\d{13,15}|ИНН(?:/КПП)?\s?:?\s?\d{10,12}`)},
	{"UA", number(`ЄДРПОУ\s?:?\s?\d{8}`)},
	{"KR", number(`사업자\s?(?:등록)?\s?번호\s?[:：]?\s?\d{3}-\d{2}-\d{5}`)},
	{"CN", number(`\p{Han}?ICP[备備证證]\s?[\dB]|统一社会信用代码`)},
	{"TW", number(`統一編號\s?[:：]?\s?\d{8}`)},
	{"JP", number(`法人番号\s?[:：]?\s?\d{13}`)},
	{"SG", number(`UEN\s?(?i:no\.?)?\s?:?\s?\d{8,9}[A-Z]`)},
	{"TR", number(`(?i:mersis)\s?(?i:no|numarası)?\.?\s?:?\s?\d{16}`)},
	{"SA", number(`(?:السجل التجاري|سجل تجاري)\s?(?:رقم)?\s?:?\s?[\d٠-٩]{10}`)},
	{"IL", number(`ח\.?פ\.?\s?:?\s?\d{9}`)},
}

func number(text string) *lazyregexp.Regexp {
	return lazyregexp.New(`(?:^|[^\p{L}\d])(?:` + text + `)`)
}

// RegisteredIn returns the country whose register or tax office assigned a number in a text. ok is false if the text
// has no such number, or numbers of several countries.
func RegisteredIn(text string) (country Country, ok bool) {
	for _, r := range registers {
		if !r.number.MatchString(text) {
			continue
		}
		if ok {
			return Country{}, false
		}
		country, ok = ByCode(r.country)
	}
	return country, ok
}
