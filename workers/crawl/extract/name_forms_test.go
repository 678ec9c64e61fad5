package extract_test

import (
	"fmt"
	"html"
	"slices"
	"strings"
	"testing"

	"letterhead/workers/crawl/extract"
	"letterhead/workers/crawl/extract/extracttest"
)

// A company's whole name is given in every place, as registers write it.
func TestName_LegalFormsAndQuotes_AreWholeOrGone(t *testing.T) {
	for _, c := range []struct{ name, domain, want string }{
		{"Tarbell & Co.", "tarbell.example", "Tarbell & Co.|Tarbell & Co"},
		{"Tarbell & Co", "trb-bank.example", "Tarbell & Co"},
		{"Tarbell & Co., Inc.", "tarbell.example", "Tarbell & Co.|Tarbell & Co"},
		{"Tarbell & Company", "tarbell.example", "Tarbell & Company"},
		{"Tarbell and Company", "tarbell.example", "Tarbell and Company"},
		{"Tarbell and Co.", "tarbellandco.example", "Tarbell and Co.|Tarbell and Co"},
		{"Tarbell + Co", "tarbell.example", "Tarbell + Co"},
		{"Tarbell & Cie.", "tarbell.example", "Tarbell & Cie."},
		{"Orvell Tarbell & Co. LLC", "ot-law.example", "Orvell Tarbell & Co.|Orvell Tarbell & Co|Orvell Tarbell & Co. LLC"},
		{"Müller & Söhne GmbH & Co. KG", "mueller-soehne.example", "Müller & Söhne"},
		{"Weber & Co. KG", "weber.example", "Weber & Co.|Weber & Co"},
		{"Tarbell & Partners", "tarbell.example", "Tarbell & Partners"},
		{"ООО «Берёзы и Клёны»", "berezy-i-kleny.example", "Берёзы и Клёны|ООО «Берёзы и Клёны»"},
		{"ООО \"Кедр-Юг\"", "kedr-yug.example", "Кедр-Юг"},
		{"ООО „Кедр“", "kedr.example", "Кедр"},
		{"ЗАО «Вектор»", "vector-msk.example", "Вектор"},
		{"АО «Север»", "sever.example", "Север"},
		{"ИП «Роза»", "flowers-nn.example", "Роза"},
		{"ТОВ «Дніпро Хліб»", "dniprohlib.example", "Дніпро Хліб"},
		{"Театр «Маска»", "teatr-maska.example", "Театр «Маска»"},
		{"«Маска»", "maska.example", "Маска"},
		{"\"Роза\" ЕООД", "roza-bg.example", "Роза"},
		{"„Роза“ ООД", "roza-bg.example", "Роза"},
		{"Роза ЕООД", "roza-bg.example", "Роза"},
		{"UAB „Kalnas“", "kalnas.example", "Kalnas"},
		{"UAB „Kalnas ir Ko“", "kalnasko.example", "Kalnas ir Ko"},
		{"UAB \"Kalnas\"", "kalnas.example", "Kalnas"},
		{"„Kalnas“, UAB", "kalnas.example", "Kalnas"},
		{"SIA \"Ozols\"", "ozols.example", "Ozols"},
		{"SIA „Ozols“", "ozola-nams.example", "Ozols"},
		{"AS \"Ozols\"", "ozols.example", "Ozols"},
		{"OÜ Tammik", "tammik.example", "Tammik"},
		{"Tammik OÜ", "tammik.example", "Tammik"},
		{"\"SREBRO\" Sp. z o.o.", "firma-srebro.example", "SREBRO"},
		{"Srebro Sp. z o. o.", "srebro.example", "Srebro"},
		{"PPHU \"Srebro\"", "srebro.example", "Srebro"},
		{"Oy Karhunen Ab", "ok-oy.example", "Karhunen|Oy Karhunen Ab"},
		{"Ab Karhunen Oy", "karhunen.example", "Karhunen"},
		{"S.C. Brad Alb S.R.L.", "bradalb.example", "Brad Alb"},
		{"SC Brad Alb SRL", "bradalb.example", "Brad Alb"},
		{"Brad Alb d.o.o.", "bradalb.example", "Brad Alb"},
		{"\"Brad\" d.o.o.", "brad.example", "Brad"},
		{"PT Maju Terus Tbk", "majuterus.example", "Maju Terus"},
		{"Haus \"Zur Linde\"", "zur-linde.example", "Haus \"Zur Linde\""},
		{"Haus „Zur Linde“", "zur-linde.example", "Haus „Zur Linde“"},
		{"Restaurant »Zur Linde«", "zur-linde.example", "Restaurant »Zur Linde«"},
		{"Café “Linde”", "cafe-linde.example", "Café “Linde”"},
		{"“Linde”", "linde.example", "Linde"},
		{"'t Hof van Linde", "hofvanlinde.example", "'t Hof van Linde|Hof van Linde"},
		{"Lindmark's", "lindmarks.example", "Lindmark's"},
		{"AS Rovelli", "asrovelli.example", "AS Rovelli"},
		{"SAS Rovelli", "sas.example", "SAS Rovelli"},
		{"Company of Wolves", "companyofwolves.example", "Company of Wolves"},
		{"UAB Medicine", "uab.example", "UAB Medicine"},
		{"Lindmark.", "lindmark.example", "Lindmark"},
		{"株式会社青葉", "aoba.example", "青葉|株式会社青葉"},
		{"株式会社「青葉」", "aoba.example", "青葉"},
		{"Aoba K.K.", "aoba.example", "Aoba"},
		{"The Lindmark Company", "lindmark.example", "The Lindmark Company"},
		{"Ab Tarbell Ltd", "abtarbell.example", "Ab Tarbell"},
		{"As Lindmark Ltd", "aslindmark.example", "As Lindmark"},
		{"Lindmark Doo", "lindmark.example", "Lindmark Doo"},
		{"Café Sia", "cafe.example", "Café Sia"},
		{"Tarbell Bros.", "tarbell.example", "Tarbell Bros."},
		{"Tarbell Hnos.", "tarbell.example", "Tarbell Hnos."},
		{"Bauer GmbH & Co. KG", "bauer.example", "Bauer"},
		{"Bauer Lüftung GmbH & Co. KG", "bauer-lueftung.example", "Bauer Lüftung"},
		{"Bauer GmbH + Co. KG", "bauer.example", "Bauer"},
		{"Bauer GmbH und Co. OHG", "bauer.example", "Bauer"},
		{"Bauer GmbH & Co", "bauer.example", "Bauer"},
		{"Bauer Vertriebs-GmbH & Co. KG", "bauer.example", "Bauer Vertriebs-GmbH & Co. KG"},
		{"Bauer UG (haftungsbeschränkt)", "bauer.example", "Bauer"},
		{"Bauer UG (haftungsbeschränkt) & Co. KG", "bauer.example", "Bauer"},
		{"Ostrin AG & Co. KGaA", "ostrin.example", "Ostrin"},
		{"Ostrin SE & Co. KGaA", "ostrin.example", "Ostrin"},
		{"Ostrin Ltd. & Co. KG", "ostrin.example", "Ostrin"},
		{"Luz del Sur S.A. de C.V.", "luzdelsur.example", "Luz del Sur"},
		{"Luz del Sur, S. de R.L. de C.V.", "luzdelsur.example", "Luz del Sur"},
		{"Luz del Sur SAPI de CV", "luzdelsur.example", "Luz del Sur"},
		{"Mendip Pty Ltd", "mendip.example", "Mendip"},
		{"Mendip Pty. Ltd.", "mendip.example", "Mendip"},
		{"Mendip (Pty) Ltd", "mendip.example", "Mendip"},
		{"Mendip Pte. Ltd.", "mendip.example", "Mendip"},
		{"Mendip Company Limited", "mendip.example", "Mendip"},
		{"Mendip Public Company Limited", "mendip.example", "Mendip"},
		{"Mendip Co., Ltd.", "mendip.example", "Mendip"},
		{"Mendip & Sons Ltd", "mendip.example", "Mendip & Sons"},
		{"J. Mendip & Sons Ltd.", "mendip.example", "J. Mendip & Sons"},
		{"Srebro Sp. z o.o. Sp. k.", "srebro.example", "Srebro"},
		{"Srebro Spółka z ograniczoną odpowiedzialnością Sp. k.", "srebro.example", "Srebro"},
		{"Srebro Spółka z o.o. spółka komandytowa", "srebro.example", "Srebro"},
		{"Hale & Moss Co.", "hale.example", "Hale & Moss Co."},
		{"Hale & Moss Co.", "halemoss.example", "Hale & Moss Co."},
		{"Hale and Moss Company", "hale.example", "Hale and Moss Company"},
		{"Hale, Brook & Moss Co.", "hale.example", "Hale, Brook & Moss Co."},
		{"Dr. Ostrin & Partner", "ostrin.example", "Dr. Ostrin & Partner"},
		{"St. Ostrin", "stostrin.example", "St. Ostrin"},
		{"Karlsen A/S", "karlsen.example", "Karlsen"},
		{"Karlsson AB (publ)", "karlsson.example", "Karlsson"},
		{"Rovelli S.r.l.s.", "rovelli.example", "Rovelli"},
		{"Rovelli S.n.c.", "rovelli.example", "Rovelli"},
		{"Deniz San. ve Tic. Ltd. Şti.", "deniz.example", "Deniz"},
		{"Deniz Sanayi ve Ticaret A.Ş.", "deniz.example", "Deniz"},
		{"Molnár Kft.", "molnar.example", "Molnár"},
	} {
		quoted := html.EscapeString(c.name)
		organization := extracttest.Organization(fmt.Sprintf(`"name":%q,"url":"https://%s/"`, c.name, c.domain))
		for place, body := range map[string]string{
			"everywhere": `<title>` + quoted + `</title><meta property="og:site_name" content="` + quoted + `">` + organization +
				`<header><a href="/"><img src="l.png" alt="` + quoted + `"></a></header><h1>Welcome</h1><p>x</p><footer>© 2026 ` + quoted + `</footer>`,
			"copyright line":   `<title>Welcome</title><h1>Welcome</h1><footer>Copyright © 2019–2026 ` + quoted + ` All rights reserved. Site by Pixel.</footer>`,
			"a sentence":       `<title>Welcome</title><h1>Welcome</h1><footer>© ` + strings.TrimSuffix(quoted, ".") + `. Registered in Leeds, no. 123.</footer>`,
			"title":            `<title>` + quoted + `</title><h1>Welcome</h1><footer>© 2026 ` + quoted + `</footer>`,
			"part of a title":  `<title>` + quoted + ` | Home</title><meta property="og:site_name" content="` + quoted + `">`,
			"escaped twice":    `<title>` + html.EscapeString(strings.NewReplacer(`"`, "&quot;", "'", "&#39;", "&", "&amp;").Replace(c.name)) + `</title>`,
			"escaped, in meta": `<meta property="og:site_name" content="` + html.EscapeString(quoted) + `">`,
		} {
			got, _ := extract.Name(extracttest.Read(c.domain, body))
			if place == "a sentence" && got.Value == c.want+"." { // it may be the name's own
				continue
			}
			if place == "copyright line" || place == "a sentence" {
				if got.Method == extract.FromDomain || got.Method == "page text" {
					continue // the owner has nothing of the domain, whose words are the name
				}
			}
			if !slices.Contains(strings.Split(c.want, "|"), got.Value) {
				t.Errorf("%s, %s: %q by %s, want %q", c.name, place, got.Value, got.Method, c.want)
			}
		}
	}
}

func TestName_GluedWords_AreTakenApart(t *testing.T) {
	for name, c := range map[string]struct{ body, want string }{
		"one place against two":   {`<meta property="og:site_name" content="BlueHarbor"><title>Blue Harbor</title><h1>Blue Harbor</h1>`, "Blue Harbor"},
		"one against one":         {`<meta property="og:site_name" content="BlueHarbor"><title>Blue Harbor | Coffee</title>`, "Blue Harbor"},
		"two against one":         {`<meta property="og:site_name" content="BlueHarbor"><title>BlueHarbor</title><header><a href="/"><img src="l.png" alt="Blue Harbor"></a></header>`, "BlueHarbor"},
		"a line break":            {`<title>Home</title><h1>Blue<br>Harbor</h1>`, "Blue Harbor"},
		"blocks":                  {`<title>Home</title><h1><div>Blue</div><div>Harbor</div></h1>`, "Blue Harbor"},
		"letters in own elements": {`<title>Home</title><h1><span>B</span>lue <b>H</b>arbor</h1>`, "Blue Harbor"},
		"words of a table":        {`<title>Home</title><table><tr><td>Blue</td>` + strings.Repeat("<td>-</td>", 7) + `<td>Harbor</td></tr></table>`, "Blueharbor"},
		"texts beside a dash":     {`<title>Home</title><p>Blue – Harbor</p>`, "Blueharbor"},
		"glued everywhere":        {`<meta property="og:site_name" content="BlueHarbor"><title>BlueHarbor</title>`, "BlueHarbor"},
	} {
		t.Run(name, func(t *testing.T) { checkName(t, "blueharbor.example", c.body, c.want) })
	}
}

func TestName_OfATemplate_IsRefused(t *testing.T) {
	for _, text := range []string{"Company", "Company Name", "Your Logo", "My Company", "Free HTML Templates", "Free HTML5 Template",
		"Bootstrap Template", "Responsive Bootstrap 5 Website Template", "Colorlib", "Your Awesome Title", "Firmenname",
		"Nombre de la empresa", "Название компании", "会社名", "Website Name", "Business Landing Page Template"} {
		checkName(t, "birkenhof.example", `<title>`+text+`</title><meta property="og:site_name" content="`+text+`"><h1>`+text+`</h1>`, "Birkenhof")
	}
	for _, text := range []string{"The Template Company", "Themes & Dreams", "Company of Wolves", "Paper Templates Leeds", "Bootstrap Bootcamp"} {
		checkName(t, "tcp.example", `<title>`+text+`</title><meta property="og:site_name" content="`+text+`">`, text)
	}
	for _, text := range []string{"Free HTML Templates", "Free Bootstrap Website Template", "Responsive HTML5 Template for small companies",
		"Your company slogan here", "Write an awesome description for your new site here.", "Business template by Colorlib"} {
		if d, ok := extract.Description(extracttest.Read("birkenhof.example", `<meta name=description content="`+text+`">`)); ok {
			t.Errorf("%q is the description %q", text, d.Value)
		}
	}
	for _, fine := range []string{"Templates and themes for knitters who like paper, made in Leeds.",
		"Wedding invitation templates from local artists.", "Shelves that are built with templates by hand",
		"Website templates for restaurants, hotels and doctors since 2009.", "Party themes by Anna and Marta in Leeds"} {
		if d, _ := extract.Description(extracttest.Read("birkenhof.example", `<meta name=description content="`+fine+`">`)); d.Value != fine {
			t.Errorf("%q: description is %q", fine, d.Value)
		}
	}
}
