package postal_test

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"golang.org/x/text/language"

	"letterhead/internal/testmust"
	"letterhead/workers/crawl/postal"
)

// The known members of each region and sub-region are checked individually where a table could be wrong, and the whole
// table against the containment data of CLDR, which follows UN M49 with the exceptions listed.
func TestCountries_Regions_AreKnown(t *testing.T) {
	regions := map[string]string{"Africa": "002", "Americas": "019", "Asia": "142", "Europe": "150", "Oceania": "009"}
	parts := map[string][]string{
		"Northern Africa": {"015"}, "Sub-Saharan Africa": {"202"}, "Northern America": {"021"}, "Latin America and the Caribbean": {"419"},
		"Eastern Asia": {"030"}, "Southern Asia": {"034"}, "South-eastern Asia": {"035"}, "Central Asia": {"143"}, "Western Asia": {"145"},
		"Southern Europe": {"039"}, "Eastern Europe": {"151"}, "Northern Europe": {"154"}, "Western Europe": {"155"},
		"Australia and New Zealand": {"053"}, "Melanesia": {"054"}, "Micronesia": {"057"}, "Polynesia": {"061"},
	}
	// CLDR classifies uninhabited and remote places as "outlying Oceania"; M49 does not.
	outlying := map[string]string{
		"BV": "Latin America and the Caribbean", "GS": "Latin America and the Caribbean", "IO": "Sub-Saharan Africa", "TF": "Sub-Saharan Africa",
		"HM": "Australia and New Zealand", "CC": "Australia and New Zealand", "CX": "Australia and New Zealand", "UM": "Micronesia", "AQ": "",
	}
	all := postal.All()
	if len(all) != 249 {
		t.Fatalf("%d countries", len(all))
	}
	seen := map[string]bool{}
	for _, c := range all {
		if seen[c.Code] || c.Name == "" {
			t.Errorf("%s is listed twice or has no name", c.Code)
		}
		seen[c.Code] = true
		r, err := language.ParseRegion(c.Code)
		if err != nil || !r.IsCountry() {
			t.Errorf("%s is not a country: %v", c.Code, err)
			continue
		}
		if want, ok := outlying[c.Code]; ok {
			if c.Subregion != want {
				t.Errorf("%s: sub-region %q, want %q", c.Code, c.Subregion, want)
			}
			continue
		}
		if !language.MustParseRegion(regions[c.Region]).Contains(r) {
			t.Errorf("%s is not in %s", c.Code, c.Region)
		}
		for _, code := range parts[c.Subregion] {
			if !language.MustParseRegion(code).Contains(r) {
				t.Errorf("%s is not in %s", c.Code, c.Subregion)
			}
		}
		if len(parts[c.Subregion]) == 0 {
			t.Errorf("%s: sub-region %q", c.Code, c.Subregion)
		}
		for _, text := range []string{c.Code, strings.ToLower(c.Code), c.Name, strings.ToUpper(c.Name), r.ISO3()} {
			if got, ok := postal.Find(text); !ok || got.Code != c.Code {
				t.Errorf("Find(%q) = %q, want %s", text, got.Code, c.Code)
			}
		}
	}
	for _, x := range [][3]string{
		{"US", "Americas", "Northern America"}, {"MX", "Americas", "Latin America and the Caribbean"}, {"DE", "Europe", "Western Europe"}, {"GB", "Europe", "Northern Europe"},
		{"TW", "Asia", "Eastern Asia"}, {"TR", "Asia", "Western Asia"}, {"CY", "Asia", "Western Asia"}, {"EG", "Africa", "Northern Africa"}, {"AU", "Oceania", "Australia and New Zealand"}, {"AQ", "", ""},
	} {
		if c, _ := postal.ByCode(x[0]); c.Region != x[1] || c.Subregion != x[2] {
			t.Errorf("%s: %s, %s", x[0], c.Region, c.Subregion)
		}
	}
}

func TestFind_Names_AreFound(t *testing.T) {
	for text, want := range map[string]string{
		"USA": "US", "United States of America": "US", "Estados Unidos": "US", "Vereinigte Staaten": "US", "UK": "GB", "England": "GB", "Royaume-Uni": "GB", "Großbritannien": "GB",
		"Deutschland": "DE", "Allemagne": "DE", "Alemania": "DE", "Österreich": "AT", "Schweiz": "CH", "Suisse": "CH", "Svizzera": "CH", "España": "ES", "Italia": "IT", "Nederland": "NL",
		"The Netherlands": "NL", "Polska": "PL", "Sverige": "SE", "Türkiye": "TR", "Turkey": "TR", "日本": "JP", "中国": "CN", "Россия": "RU", "South Korea": "KR", "Republic of Korea": "KR",
		" France. ": "FR", "Narnia": "", "": "", "Europe": "", "XX": "", "Berlin": "",
	} {
		c, ok := postal.Find(text)
		if c.Code != want || ok != (want != "") {
			t.Errorf("%q: %q, want %q", text, c.Code, want)
		}
	}
	for domain, want := range map[string]string{"acme.de": "DE", "acme.co.uk": "GB", "acme.com": "", "acme.io": "", "acme.ai": "", "acme.ch": "CH", "localhost": "", "": ""} {
		if c, _ := postal.OfDomain(domain); c.Code != want {
			t.Errorf("%s: %q, want %q", domain, c.Code, want)
		}
	}
	for _, x := range [][3]string{{"US", "CA", "California"}, {"US", "california", "California"}, {"CA", "ON", "Ontario"}, {"AU", "nsw", "New South Wales"}, {"DE", "BY", ""}, {"US", "XX", ""},
		{"BR", "Sao Paulo", "São Paulo"}, {"BR", "São Paulo", "São Paulo"}, {"BR", "Para", "Pará"}, {"BR", "pará", "Pará"}, {"BR", "para", ""}, {"MX", "NUEVO LEON", "Nuevo León"}, {"AR", "Cordoba", "Córdoba"}, {"AR", "Córdoba", "Córdoba"}, {"IN", "Tamil Nadu", "Tamil Nadu"}, {"IN", "मध्य प्रदेश", "Madhya Pradesh"}, {"BR", "", ""}} {
		if got := postal.State(x[0], x[1]); got != x[2] {
			t.Errorf("%s of %s: %q", x[1], x[0], got)
		}
	}
}

func TestAddresses_Text_AreRead(t *testing.T) {
	for name, x := range map[string]struct{ text, near, want string }{
		"German imprint":          {"Acme GmbH\nMusterstraße 12\n10115 Berlin\nTelefon: 030 12345", "DE", "10115 Berlin, , DE"},
		"German, land named":      {"Acme GmbH\nAm Markt 5\nD-80331 München\nDeutschland", "", "80331 München, , DE"},
		"German, by its street":   {"Acme GmbH · Hauptstr. 7 · 70173 Stuttgart", "", "70173 Stuttgart, , DE"},
		"German, long city":       {"Weg 3\n60311 Frankfurt am Main", "DE", "60311 Frankfurt am Main, , DE"},
		"Austria":                 {"Mariahilfer Straße 10\nA-1070 Wien", "", "1070 Wien, , AT"},
		"Austria by domain":       {"Ring 10\n1010 Wien\nÖsterreich", "", "1010 Wien, , AT"},
		"Switzerland":             {"Bahnhofstrasse 1\nCH-8001 Zürich", "", "8001 Zürich, , CH"},
		"France":                  {"12 rue de Rivoli\n75008 PARIS CEDEX 08\nFrance", "", "75008 Paris, , FR"},
		"France, one line":        {"Siège social : 12, rue de la Paix, 75002 Paris", "", "75002 Paris, , FR"},
		"Spain":                   {"Calle de Alcalá 20, 28014 Madrid, España", "", "28014 Madrid, , ES"},
		"Italy":                   {"Via Roma 5 - 20121 Milano (MI) - Italia", "", "20121 Milano, , IT"},
		"Italy, no land":          {"Via Tortona 37, 20144 Milano MI", "IT", "20144 Milano, , IT"},
		"Netherlands":             {"Keizersgracht 1\n1015 CN Amsterdam", "", "1015 CN Amsterdam, , NL"},
		"Sweden":                  {"Sveavägen 1\n111 57 Stockholm\nSweden", "", "111 57 Stockholm, , SE"},
		"Poland":                  {"ul. Prosta 20\n00-850 Warszawa", "", "00-850 Warszawa, , PL"},
		"Portugal":                {"Rua Augusta 5\n1100-048 Lisboa", "", "1100-048 Lisboa, , PT"},
		"Belgium":                 {"Rue de la Loi 1, 1000 Bruxelles, Belgique", "", "1000 Bruxelles, , BE"},
		"Denmark":                 {"Vestergade 1, DK-1456 København K", "", "1456 København K, , DK"},
		"United States":           {"123 Main Street\nSan Jose, CA 95110", "", "95110 San Jose, California, US"},
		"United States, one line": {"Acme Inc., 548 Market St, Suite 100, San Francisco, California 94104-5401, USA", "", "94104-5401 San Francisco, California, US"},
		"United States, no comma": {"1600 Amphitheatre Parkway Mountain View, CA 94043", "", "94043 Mountain View, California, US"},
		"Canada":                  {"100 King St W, Toronto, ON M5X 1A9", "", "M5X 1A9 Toronto, Ontario, CA"},
		"Australia":               {"1 George Street\nSydney NSW 2000", "", "2000 Sydney, New South Wales, AU"},
		"London":                  {"Acme Ltd, 10 Downing Street, London SW1A 2AA", "", "SW1A 2AA London, , GB"},
		"county":                  {"1 High Street, Guildford, Surrey, GU1 3AA, United Kingdom", "", "GU1 3AA Guildford, , GB"},
		"code on its own line":    {"1 High Street\nManchester\nM1 2AB\nUnited Kingdom", "", "M1 2AB Manchester, , GB"},
		"Ireland":                 {"1 Grand Canal Square, Dublin 2, D02 P820, Ireland", "", "D02 P820 Dublin, , IE"},
		"India":                   {"MG Road, Bengaluru 560001, India", "", "560001 Bengaluru, , IN"},
		"New Zealand":             {"22 Biscuit Lane, Dunedin 9016, New Zealand", "", "9016 Dunedin, , NZ"},
		"New Jersey":              {"1 Main Street, Newark, New Jersey 07102", "", "07102 Newark, New Jersey, US"},
		"Russia":                  {"620000, г. Екатеринбург, ул. Кузнечная, 91. Россия", "", "620000 Екатеринбург, , RU"},
		"Czechia":                 {"Nádražní 14, 591 01 Žďár nad Sázavou, Česká republika", "", "591 01 Žďár nad Sázavou, , CZ"},
		"Singapore":               {"1 Raffles Place, Singapore 048616", "", "048616 Singapore, , SG"},
		"a number and a word":     {"12345 Customers trust us", "DE", ""},
		"a price list":            {"From 1000 Euro\n2000 Watt", "AT", ""},
		"an article":              {"In 2024 Acme sold 50000 Units in Germany", "", ""},
		"years":                   {"Copyright 2015 Acme", "CH", ""},
		"a copyright line":        {"Weg 1\n© 2020 Springer Natur Schweiz", "CH", ""},
		"an address in one":       {"© 2016 Acme GmbH, Weg 2, 04509 Delitzsch", "DE", "04509 Delitzsch, , DE"},
		"a year and a word":       {"Musterweg 3\n2019 Vorstand", "AT", ""},
		"a year that is a code":   {"Rua 5\n2000 Antwerpen\nBelgium", "", "2000 Antwerpen, , BE"},
		"a company as the city":   {"Weg 1\n8001 Muster AG", "CH", ""},
		"a phrase behind":         {"Weg 1\nD-40764 Langenfeld All rights", "", "40764 Langenfeld, , DE"},
		"a price":                 {"Weg 1\n10000 Euro Kredit", "DE", ""},
		"a comment":               {"8. November 1923\n06.11.23 - 12:47 von 9102 Gast", "BE", ""},
		"hours":                   {"Weg 12\n6002 Mo-Fr", "AT", ""},
		"a state and its code":    {"1 High Street\nPerth WA 6000", "", "6000 Perth, Western Australia, AU"},
		"a form of companies":     {"Calle 1\nEl Pais S.A. 1918", "", ""},
		"the wrong state":         {"1 Main Street\nBerlin, DE 10115", "", ""},
		"open":                    {"Some place 12\n12345 Somewhere", "", ""},
		"a telephone number":      {"Call 555 123 4567 Monday", "", ""},
		"an ISBN":                 {"ISBN 978-3-16-148410-0 Verlag", "DE", ""},
		"contradiction":           {"12 Main Street\n12345 Berlin\nPoland", "", ""},
	} {
		if got := firstAddress(x.text, x.near); got != x.want {
			t.Errorf("%s: got %q, want %q", name, got, x.want)
		}
	}
}

// firstAddress returns the first address in a text near a country, or "".
func firstAddress(text, near string) string {
	country, _ := postal.ByCode(near)
	for _, a := range postal.Addresses(strings.Split(text, "\n"), country) {
		return fmt.Sprintf("%s %s, %s, %s", a.PostalCode, a.City, a.State, a.Country.Code)
	}
	return ""
}

// One address or more of each of the thirty largest economies that the test above does not have.
func TestAddresses_LargestEconomies_AreRead(t *testing.T) {
	for name, x := range map[string]struct{ text, near, want string }{
		"Japan":                     {"〒100-0005 東京都千代田区丸の内1-2-3", "", "100-0005 千代田区, 東京都, JP"},
		"Japan, label":              {"本社所在地：大阪府大阪市北区梅田1丁目2番3号", "", " 大阪市, 大阪府, JP"},
		"Japan, county":             {"島根県鹿足郡津和野町後田1-17", "", " 津和野町, 島根県, JP"},
		"Japan, two kinds in name":  {"東京都武蔵村山市本町1-1", "", " 武蔵村山市, 東京都, JP"},
		"Japan, a company before":   {"白陰酒造株式会社　〒699-0000 島根県松江市殿町1-1", "", "699-0000 松江市, 島根県, JP"},
		"Japan, in letters":         {"1-2-3 Marunouchi, Chiyoda-ku, Tokyo 100-0005, Japan", "", "100-0005 Tokyo, , JP"},
		"Japan, a mention":          {"東京都渋谷区で10周年イベントを開催しました", "JP", ""},
		"China":                     {"地址：浙江省杭州市西湖区文三路100号", "", " 杭州, 浙江省, CN"},
		"China, municipality":       {"上海市浦东新区世纪大道8号", "", " 上海, , CN"},
		"China, in letters":         {"No. 8 Keji Road, Shenzhen, Guangdong 518000, China", "", "518000 Shenzhen, Guangdong, CN"},
		"China, a university":       {"北京大学100周年校园开放日", "CN", ""},
		"Taiwan":                    {"10048 台北市中正區重慶南路一段122號", "", "10048 台北市, , TW"},
		"Taiwan, county":            {"彰化縣員林市中山路12號", "", " 員林市, 彰化縣, TW"},
		"Korea":                     {"주소: 경기도 성남시 분당구 판교역로 166", "", " 성남시, 경기도, KR"},
		"Korea, Seoul":              {"(06236) 서울특별시 강남구 테헤란로 152", "", "06236 서울특별시, , KR"},
		"Korea, statements":         {"상호: 반달 | 대표: 김하늘 | 주소: 부산광역시 해운대구 센텀로 12", "", " 부산광역시, , KR"},
		"Brazil":                    {"Av. Paulista, 1000 - Bela Vista, São Paulo - SP, 01310-100", "", "01310-100 São Paulo, São Paulo, BR"},
		"Brazil, lines":             {"Rua XV de Novembro, 10 - Centro\nCuritiba/PR\nCEP 80020-310", "", "80020-310 Curitiba, Paraná, BR"},
		"Mexico":                    {"Calz. de Tlalpan 10, Col. Portales, C.P. 03300 Ciudad de México, CDMX", "MX", "03300 Ciudad de México, , MX"},
		"India":                     {"12, MG Road, Bengaluru, Karnataka 560001", "IN", "560001 Bengaluru, Karnataka, IN"},
		"India, dash and state":     {"12/4, Silk Street\nKozhikode - 673 001, Kerala", "IN", "673 001 Kozhikode, Kerala, IN"},
		"India, Hindi":              {"18 इंडस्ट्रियल एरिया, उज्जैन, मध्य प्रदेश 456010, भारत", "IN", "456010 उज्जैन, Madhya Pradesh, IN"},
		"Canada, French":            {"417, rang 2, Saint-Ferdinand (Québec) G0N 1N0", "", "G0N 1N0 Saint-Ferdinand, Quebec, CA"},
		"Turkey":                    {"Cumhuriyet Cad. No: 5, 34710 Kadıköy / İSTANBUL", "TR", "34710 Kadıköy, İstanbul, TR"},
		"Turkey, without a code":    {"Organize Sanayi Bölgesi 3. Cadde No: 17 İnegöl / Bursa", "TR", " İnegöl, Bursa, TR"},
		"Indonesia":                 {"Jl. Hayam Wuruk No. 12, Pekalongan 51119, Indonesia", "", "51119 Pekalongan, , ID"},
		"Saudi Arabia":              {"King Fahd Road, Riyadh 12211, Saudi Arabia", "", "12211 Riyadh, , SA"},
		"Argentina":                 {"Av. Corrientes 1234, C1043AAZ Buenos Aires", "AR", "C1043AAZ Buenos Aires, , AR"},
		"Argentina, province":       {"Ruta Provincial 1, km 4, N3350 Apóstoles, Misiones, Argentina", "", "N3350 Apóstoles, Misiones, AR"},
		"Israel":                    {"רחוב הרצל 5, חיפה 3303001", "IL", "3303001 חיפה, , IL"},
		"Russia, street behind":     {"634000, г. Томск, ул. Ленина, д. 4", "RU", "634000 Томск, , RU"},
		"Sweden, a statement after": {"Verkstadsgatan 3, 831 00 Östersund. Org.nr 550000-0000", "", "831 00 Östersund, , SE"},
		"Spain, in a sentence":      {"con domicilio en C/ Infante Don Fernando 20, 29200 Antequera (Málaga), inscrita", "ES", "29200 Antequera, , ES"},
		"a fraction of Turkey":      {"Bursa / Ankara arası 2 saat", "TR", ""},
	} {
		if got := firstAddress(x.text, x.near); got != x.want {
			t.Errorf("%s: got %q, want %q", name, got, x.want)
		}
	}
}

func TestRegisteredIn_Number_GivesCountry(t *testing.T) {
	for text, want := range map[string]string{
		"Amtsgericht Berlin, HRB 12345 B": "DE", "Firmenbuchnummer: FN 123456x": "AT", "CHE-123.456.789 MWST": "CH", "SIRET 123 456 789 00012": "FR", "RCS de Lyon": "FR",
		"P.IVA 01234567890": "IT", "NIF B12345678": "ES", "Registered in England and Wales No. 01234567": "GB", "Registered in Ireland No. 123456": "IE", "KvK 12345678": "NL",
		"BCE 0123.456.789": "BE", "Org.nr 556123-4567": "SE", "Org.nr 912 345 678 MVA": "NO", "CVR-nr. 12 34 56 78": "DK", "Y-tunnus 1234567-8": "FI", "KRS 0000123456": "PL",
		"CNPJ: 12.345.678/0001-90": "BR", "RFC: ABC010203XY1": "MX", "CUIT 30-12345678-9": "AR", "ABN 12 345 678 901": "AU", "GSTIN: 32AAAAA0000A1Z5": "IN",
		"ИНН 7701234567, ОГРН 1027700132195": "RU", "사업자등록번호: 123-45-67890": "KR", "浙ICP备12345678号-1": "CN", "統一編號：12345678": "TW", "法人番号 1234567890123": "JP", "UEN: 201812345A": "SG",
		"": "", "Call 0123 456 789": "", "Charity number 123456": "", "SIREN 123 456 789, KvK 12345678": "",
		"Amtsgericht Köln, VR 12345": "DE", "VR 12345, Amtsgericht Köln": "DE", "VR-Nr. 12345": "DE", "VR Nr.: 12345": "DE", "Vereinsregister: VR 12345": "DE", "Book our VR 360 tours": "", "VR 4000 headset": "",
		"FN 123456 x, Handelsgericht Wien": "AT", "Landesgericht Linz, FN 123456x": "AT", "Firmenbuch: FN 123456x": "AT", "FN 509 tactical": "", "The FN 509 is a pistol": "", "FN 509 c": "",
	} {
		c, _ := postal.RegisteredIn(text)
		if c.Code != want {
			t.Errorf("%q: %q, want %q", text, c.Code, want)
		}
	}
}

func TestSeat_Text_IsRead(t *testing.T) {
	for text, want := range map[string]string{
		"San Francisco, California, with offices in Berlin, Germany": "San Francisco|California|US", "Berlin, Germany. We": "Berlin||DE", "Austin, TX": "Austin|Texas|US",
		"Tbilisi, Georgia": "Tbilisi|Georgia|US", "Toronto, Ontario, Canada": "Toronto|Ontario|CA", "London, England": "London||GB", "Paris (France)": "Paris||FR",
		"the heart of Berlin, Germany": "", "Berlin and Munich": "", "Germany, Austria": "", "a garage, Narnia": "", "": "", ",,,": "", "São Paulo, Brazil": "São Paulo||BR",
	} {
		city, state, c, ok := postal.Seat(text)
		got := ""
		if ok {
			got = city + "|" + state + "|" + c.Code
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestTail_Line_IsRead(t *testing.T) {
	for line, want := range map[string]string{
		"Northpier Marine Ltd, West Harbour, Methil, Fife, Scotland": "Methil GB", "Acme Council, Shire Hall, Brackenham, United Kingdom.": "Brackenham GB", "Acme AB, Storgatan 1, Kiruna, Sverige": "Kiruna SE",
		"Acme, Leeds": "", "We ship to France, Germany, Spain": "", "Acme, 12 Main Street, Spain": "", "": "",
	} {
		got := ""
		if city, c, ok := postal.Tail(line); ok {
			got = city + " " + c.Code
		}
		if got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
	for line, want := range map[string]bool{
		"1 High Street, Leeds LS1 2AB": true, "Targ sp. z o.o., ul. Prosta 3, 31-002 Kraków, Polska": true, "Nádražní 14, 591 01 Žďár nad Sázavou, Česká republika": true, "Beta moved to 1 Wide Street, New York, NY 10036.": false, strings.Repeat("A ", 200): false,
	} {
		if postal.IsAddressLine(line) != want {
			t.Errorf("%q: %t", line, !want)
		}
	}
	for tag, want := range map[string]string{"de": "DE", "pt-BR": "BR", "en": "", "en_GB": "GB", "": "", "x-y-z": "", "ja": "JP"} {
		if c, _ := postal.OfLanguage(tag); c.Code != want {
			t.Errorf("language %q: %q, want %q", tag, c.Code, want)
		}
	}
}

func TestLines_Text_AreJoined(t *testing.T) {
	root := testmust.Get(html.Parse(strings.NewReader(`<head><title>no</title><body><p>Acme<br>Main <b>Street</b> 1<script>x</script><p>10115 Berlin</p><footer><address>Foot</address></footer>`)))(t)
	var got []string
	for _, l := range postal.Lines(root) {
		got = append(got, fmt.Sprintf("%s %t %t", l.Text, l.Footer, l.Address))
	}
	if want := "Acme false false|Main Street 1 false false|10115 Berlin false false|Foot true true"; strings.Join(got, "|") != want {
		t.Errorf("Lines = %q, want %q", got, want)
	}
	if postal.Lines(nil) != nil {
		t.Error("a nil document has lines")
	}
}

func FuzzAddresses(f *testing.F) {
	for _, seed := range []string{
		"Musterstraße 12\n10115 Berlin", "D-1 X", "1 George St\nSydney NSW 2000", "M1 2AB\nX", "A99 9AAA, ,", "1015 CN Amsterdam", "Surrey\nSurrey\nGU1 3AA", "Singapore 048616", "9-9-9 (", "〒100-0005 東京都千代田区丸の内1-2-3", "주소: 경기도 성남시 분당구 판교역로 166", "Curitiba/PR CEP 80020-310", "Kadıköy / İSTANBUL 34710", "г. Томск, ул. 4", "\xff 12345 \xffA",
	} {
		f.Add(seed, "DE")
	}
	f.Fuzz(func(t *testing.T, text, near string) {
		country, _ := postal.ByCode(near)
		lines := strings.Split(text, "\n")
		for _, a := range postal.Addresses(lines, country) {
			if a.City == "" || a.Country.Code == "" || a.Line < 0 || a.Line >= len(lines) {
				t.Errorf("incomplete address: %+v", a)
			}
		}
		postal.Seat(text)
		postal.Tail(text)
		postal.OfLanguage(near)
		postal.Find(text)
		postal.RegisteredIn(text)
	})
}

func BenchmarkAddresses(b *testing.B) {
	lines := strings.Split(strings.Repeat("We sold 12345 Things to 1000 People in 2024 and more\nMusterstraße 12\n10115 Berlin\n", 50), "\n")
	near, _ := postal.ByCode("DE")
	for b.Loop() {
		postal.Addresses(lines, near)
	}
}
