package extract_test

import (
	"net/url"
	"strings"
	"testing"

	"letterhead/workers/crawl/extract"
	"letterhead/workers/crawl/extract/extracttest"
	"letterhead/workers/crawl/manifest"
	"letterhead/workers/crawl/page"
	"letterhead/workers/crawl/site"
)

// readAt returns the input for a page at a URL of a domain.
func readAt(domain, address, body string) extract.Input {
	at, _ := url.Parse(address)
	of := site.New(domain)
	return extract.Input{Site: of, Page: page.Parse([]byte(body), "text/html", at, of)}
}

func TestName_BuildersAndLanguages_AreCleaned(t *testing.T) {
	for name, c := range map[string]struct{ domain, body, want string }{
		"site name is a slogan":          {"pfennig-auto.de", `<title>Home</title><meta property="og:site_name" content="Ihr Partner rund ums Auto"><header><a href="/"><img src="l.png" alt="Autohaus Pfennig"></a></header>`, "Autohaus Pfennig"},
		"a name like a slogan":           {"yoursuperfoods.com", `<title>Home</title><meta property="og:site_name" content="Your Super Foods">`, "Your Super Foods"},
		"wix, alt is a file name":        {"bramblefarm.co.uk", `<title>Farm Shop | Bramble Farm | Devon</title><meta property="og:site_name" content="Bramble Farm"><a href="/"><img src="l.png" alt="logo_final-2.png"></a>`, "Bramble Farm"},
		"shopify, store name with town":  {"oakandash.com", `<title>Oak &amp; Ash – Handmade furniture from Leeds</title><meta property="og:site_name" content="Oak &amp; Ash">`, "Oak & Ash"},
		"squarespace, no site name":      {"studiolumen.com", `<title>Studio Lumen</title><meta property="og:title" content="Studio Lumen">`, "Studio Lumen"},
		"wordpress, feed title":          {"cloudberry.org", `<title>Home</title><link rel="alternate" type="application/rss+xml" title="Cloudberry Co-op &raquo; Feed" href="/feed/">`, "Cloudberry Co-op"},
		"wordpress, comments feed":       {"cloudberry.org", `<title>Groceries for all of us who eat</title><link rel="alternate" type="application/rss+xml" title="Cloudberry Co-op &raquo; Comments Feed" href="/feed/">`, "Cloudberry Co-op"},
		"nuxt, the package's name":       {"ruelle.fr", `<title>Ruelle — small streets, long stories</title><meta property="og:site_name" content="ruelle-web">`, "Ruelle"},
		"vite, nothing filled in":        {"acme.com", `<title>Vite + React</title>`, "Acme"},
		"webflow":                        {"gridwise.io", `<title>Gridwise - Forecasting for energy teams</title>`, "Gridwise"},
		"jimdo in German":                {"apotheke-am-markt.de", `<title>Startseite - Apotheke am Markt Ulm</title>`, "Apotheke am Markt"},
		"typo3 with legal form":          {"meier-lueftung.de", `<title>Startseite: Meier Lüftung GmbH</title>`, "Meier Lüftung"},
		"umlaut in the name":             {"mueller.de", `<title>Onlineshop | Müller</title>`, "Müller"},
		"sharp s":                        {"strasser.at", `<title>Willkommen bei Straßer</title>`, "Straßer"},
		"French, front page words":       {"boulangerie-petit.fr", `<title>Accueil - Boulangerie Petit</title>`, "Boulangerie Petit"},
		"French, official":               {"petitnavire.fr", `<title>Petit Navire | Site officiel</title>`, "Petit Navire"},
		"Spanish":                        {"panaderialuna.es", `<title>Inicio » Panadería Luna</title>`, "Panadería Luna"},
		"Portuguese":                     {"casadovinho.pt", `<title>Bem-vindo | Casa do Vinho</title>`, "Casa do Vinho"},
		"Italian":                        {"rossi.it", `<title>Rossi - Sito ufficiale</title>`, "Rossi"},
		"Polish":                         {"sklepzeglarski.pl", `<title>Strona główna - Sklep Żeglarski</title>`, "Sklep Żeglarski"},
		"Turkish":                        {"bahce.com.tr", `<title>Ana Sayfa | Bahçe</title>`, "Bahçe"},
		"Russian, by sound":              {"lavanda.ru", `<title>Главная — Лаванда — цветы с доставкой</title>`, "Лаванда"},
		"Russian, legal form":            {"stroydom.ru", `<meta property="og:site_name" content="ООО Стройдом"><title>Стройдом</title>`, "Стройдом"},
		"Greek, by sound":                {"elaia.gr", `<title>Αρχική | Ελαία</title>`, "Ελαία"},
		"Japanese, official site":        {"hanabi.co.jp", `<title>花火屋 公式サイト</title><meta property="og:site_name" content="花火屋">`, "花火屋"},
		"Japanese, by sound":             {"sakura-hotel.jp", `<title>サクラホテル｜東京の宿</title>`, "サクラホテル"},
		"Japanese, legal form":           {"yamada.co.jp", `<title>株式会社ヤマダ</title><meta property="og:site_name" content="ヤマダ">`, "ヤマダ"},
		"Chinese, parts without space":   {"huayuan.cn", `<title>首页_花园网</title>`, "花园网"},
		"Chinese, Latin in brackets":     {"lvye.com", `<title>绿野(LVYE.COM)-户外旅行社区</title>`, "绿野"},
		"Korean":                         {"haneul.kr", `<title>하늘서점 | 홈</title>`, "하늘서점"},
		"Arabic":                         {"tamr.sa", `<title>الرئيسية | تمور الواحة</title>`, "تمور الواحة"},
		"Hebrew":                         {"zayit.co.il", `<title>דף הבית - בית הזית</title>`, "בית הזית"},
		"Thai":                           {"dokmai.co.th", `<title>หน้าแรก | ดอกไม้สยาม</title>`, "ดอกไม้สยาม"},
		"get before the name":            {"getquill.com", `<title>The notebook that listens | Quill</title>`, "Quill"},
		"hq behind the name":             {"quillhq.com", `<meta property="og:site_name" content="Something Borrowed Ltd"><title>Quill</title>`, "Quill"},
		"letters left out":               {"qz.com", `<meta property="og:site_name" content="Quartz"><title>News for the rest of us</title>`, "Quartz"},
		"initials of words":              {"ucla.edu", `<title>University of California, Los Angeles</title>`, "University of California, Los Angeles"},
		"domain and ending":              {"theflip.africa", `<meta property="og:site_name" content="The Flip Africa">`, "The Flip Africa"},
		"with and without the ending":    {"bostonglobe.com", `<meta property="og:site_name" content="BostonGlobe.com"><meta name="application-name" content="Boston Globe"><title>News - Boston Globe</title>`, "Boston Globe"},
		"former name in brackets":        {"blip.com", `<meta property="og:site_name" content="Blip (formerly Blop)">`, "Blip"},
		"capitals as the text has them":  {"heron.com", `<meta property="og:site_name" content="heron"><title>All shows on Heron</title><p>Heron is home to shows. Heron pays.</p>`, "Heron"},
		"lower case as the text has it":  {"heron.com", `<meta property="og:site_name" content="heron"><title>all shows on heron</title><p>heron is home to shows.</p>`, "heron"},
		"a parent's name at large":       {"fieldpost.com", `<meta property="og:site_name" content="mediagroup"><script type="application/ld+json">{"@type":"Organization","name":"MediaGroup"}</script><title>News of the day | Fieldpost</title>`, "Fieldpost"},
		"a parent owns the copyright":    {"fieldpost.com", `<title>Fieldpost</title><footer>© 2024 Hartley Communications, Inc.</footer>`, "Fieldpost"},
		"copyright line only":            {"fernworks.com", `<title>Handmade things for your home and garden all year round</title><footer>© 2019–2024 Fern Works Ltd. All rights reserved.</footer>`, "Fern Works"},
		"copyright in the next element":  {"fernworks.com", `<footer><p>&copy; <span>2024</span> <b>Fern Works</b></p></footer>`, "Fern Works"},
		"words as the text writes them":  {"tidewaybooks.com", `<title>Reading by the river, since ages and ages</title><p>At Tideway Books we read. Visit Tideway Books today.</p>`, "Tideway Books"},
		"twitter app card":               {"tidewaybooks.com", `<title>Reading by the river, since ages and ages</title><meta name="twitter:app:name:iphone" content="Tideway Books">`, "Tideway Books"},
		"publisher meta":                 {"tidewaybooks.com", `<title>Reading by the river</title><meta name="publisher" content="Tideway Books">`, "Tideway Books"},
		"slogan of sentences":            {"harbor.com", `<title>Harbor.com. Spend less. Smile more. Ship everything.</title>`, "Harbor.com"},
		"not found":                      {"acme.com", `<title>404 Not Found</title>`, "Acme"},
		"challenge in another wording":   {"acme.com", `<title>Attention Required! | Cloudflare</title>`, "Acme"},
		"a generic word that is a brand": {"discover.com", `<title>Discover</title><meta property="og:site_name" content="Discover">`, "Discover"},
		"a post's number":                {"acme.com", `<title>880139124791029763</title>`, "Acme"},
		"embed":                          {"quill.fm", `<title>Quill Embed | #032 - A talk about pens</title>`, "Quill"},
		"personal site, JSON-LD person":  {"janedoe.net", `<script type="application/ld+json">{"@type":"Person","name":"Jane Doe","url":"https://janedoe.net/"}</script><title>Notes about code</title>`, "Jane Doe"},
		"legal name against short name":  {"acme.com", extracttest.Organization(`"name":"Acme","legalName":"Acme Holding International GmbH","url":"https://acme.com"`), "Acme"},
		"several commas of legal forms":  {"yokohama-tools.com", `<meta property="og:site_name" content="Yokohama Tools Co., Ltd."><title>Yokohama Tools</title>`, "Yokohama Tools"},
		"template not filled in":         {"acme.com", `<meta property="og:site_name" content="{{ site.title }}"><title>Acme</title>`, "Acme"},
		"builder of the site":            {"acme.com", `<meta name="application-name" content="Framer"><meta property="og:site_name" content="My Framer Site"><title>Acme Studio</title>`, "Acme Studio"},
		"the place named last":           {"quill.fm", `<title>Talk about pens on Quill</title>`, "Quill"},
		"holding in the copyright line":  {"quill.fm", `<footer>© 2024 QUILL Media Group</footer>`, "QUILL"},
		"a feed of a part":               {"quill.fm", `<link rel="alternate" type="application/rss+xml" title="Quill! RSS Pens" href="/rss">`, "Quill!"},
		"a feed of the site":             {"fernworks.com", `<link rel="alternate" type="application/atom+xml" title="RSS feed for Fern Works" href="/rss"><title>Things</title>`, "Fern Works"},
		"only the domain for a title":    {"fern-works.com", `<title>fern-works.com</title><p>Fern Works makes things.</p>`, "Fern Works"},
		"the bare domain, one alt":       {"kettle.de", `<title>Was hilft gegen Kalk im Wasser</title><a href="/"><img src="l.png" alt="Verlagshaus kett"></a><meta property="og:site_name" content="kettle.de">`, "kettle.de"},
		"the bare domain and more":       {"kettle.de", `<meta name="author" content="kettle.de Redaktion"><meta property="og:site_name" content="kettle.de"><title>Was hilft gegen Kalk im Wasser</title>`, "kettle.de"},
		"the bare domain and a claim":    {"kettle.de", `<meta property="og:site_name" content="kettle.de - Ratgeber und Marktplatz"><title>Kalk im Wasser - kettle.de</title>`, "kettle.de"},
		"a good name beats the domain":   {"kettle.de", `<meta property="og:site_name" content="kettle.de"><title>Kalk | The Kettle Works</title><footer>© 2024 The Kettle Works</footer>`, "The Kettle Works"},
		"Chinese next to the domain":     {"huayuan.com", `<meta property="og:site_name" content="花园网"><title>花园网 - huayuan.com</title>`, "花园网"},
		"several places, not the domain": {"nt-web.de", `<meta property="og:site_name" content="Norddeutsche Tagespost"><script type="application/ld+json">[{"@type":"Organization","name":"Norddeutsche Tagespost","url":"https://nt-web.de"},{"@type":"WebSite","name":"Norddeutsche Tagespost","url":"https://nt-web.de"}]</script><a href="/"><img src="l.png" alt="nt-web"></a><title>Flugplatzfest</title>`, "Norddeutsche Tagespost"},
		"the host before the domain":     {"kettle.de", `<meta property="og:site_name" content="www.kettle.de"><title>Was hilft gegen Kalk</title>`, "kettle.de"},
		"on the host":                    {"kettle.com", `<meta property="og:site_name" content="News and Opinion on www.kettle.com"><title>Tea for all of us today</title>`, "kettle.com"},
		"article behind logo":            {"kws.de", `<a href="/"><img src="l.png" alt="Logo der Karl Weber Stiftung"></a><title>Detail</title>`, "Karl Weber Stiftung"},
		"article behind logo, Italian":   {"collefiorito.it", `<a href="/"><img src="l.png" alt="Logo del Colle Fiorito"></a><title>Orario</title>`, "Colle Fiorito"},
		"an open compound":               {"lgv.de", `<a href="/"><img src="l.png" alt="Logo Lehrer- und Gartenverband (LGV)"></a><title>Startseite</title>`, "Lehrer- und Gartenverband (LGV)"},
		"a mail address":                 {"buero-lehm.de", `<meta name="publisher" content="Ute Lehm info@buero-lehm.de"><title>Baugutachten</title><p>Büro Lehm</p>`, "Büro Lehm"},
		"umlauts that the domain spells": {"mueller-bau.de", `<title>Zimmerei Berlin</title><h1>Zimmerei Berlin</h1><p>Müller Bau baut Dächer.</p>`, "Müller Bau"},
		"umlaut in a domain of one word": {"mueller.de", `<title>Angebote der Woche für die ganze Familie</title><p>Bei Müller, nur bei Müller.</p>`, "Müller"},
		"a template's variable":          {"acme.com", `<meta property="og:site_name" content="{$plugin.tx.site_name}"><meta name="application-name" content="navbar.site.acme.com"><title>Acme Tools</title>`, "Acme Tools"},
		"a handle for a name":            {"wbote.pl", `<meta name="twitter:site" content="@wBote_pl"><title>Jest zgoda na nową umowę handlową między nami</title>`, "Wbote"},
		"a holding":                      {"healthy.com", extracttest.Organization(`"name":"Healthy Media","url":"https://healthy.com"`) + `<meta property="og:site_name" content="Healthy"><title>Ten ways</title>`, "Healthy"},
		"a company name kept whole":      {"kappa.com", extracttest.Organization(`"name":"Kappa Technologies","url":"https://kappa.com"`) + `<title>Sensors for everyone</title>`, "Kappa Technologies"},
		"the country behind the name":    {"lavanza.de", extracttest.Organization(`"name":"Lavanza DE","url":"https://lavanza.de"`) + `<title>Kaffee | Lavanza</title>`, "Lavanza"},
		"Polish legal forms":             {"politika.pl", extracttest.Organization(`"name":"POLITIKA Sp. z o.o. S.K.A","url":"https://politika.pl"`), "POLITIKA"},
		"a domain with a legal form":     {"comparo.ch", `<meta name="copyright" content="comparo.ch AG"><header><a href="/"><img src="l.png" alt="comparo.ch"></a></header><title>Kredit oder Leasing im Vergleich</title>`, "comparo.ch"},
		"the platform under it":          {"fanbase.com", `<meta property="og:site_name" content="Fanbase powered by Acme"><title>Stars</title>`, "Fanbase"},
		"marks inside of a longer text":  {"osw.pl", extracttest.Organization(`"name":"Osrodek Studiow Wschodnich","url":"https://osw.pl"`) + `<meta property="og:site_name" content="OSW Ośrodek Studiów Wschodnich">`, "Ośrodek Studiów Wschodnich"},
		"an owner who is a person":       {"tagebuch.de", `<script type="application/ld+json">[{"@type":["Person","Organization"],"name":"Jana Tage","url":"https://tagebuch.de"},{"@type":"WebSite","name":"tagebuch.de","url":"https://tagebuch.de"}]</script><meta property="og:site_name" content="tagebuch.de"><title>15 Jahre</title>`, "tagebuch.de"},
		"a publisher who is a person":    {"der-fluss.com", `<meta name="publisher" content="Bea Rügger"><title>Ein Bote fliegt über das Land bis zum Meer</title>`, "Der Fluss"},
		"a short beginning of the label": {"jan-gross.de", `<meta name="publisher" content="Jan"><title>Wie man heute Dateien unter Linux tauscht</title>`, "Jan Gross"},
		"spelled with a slash":           {"acme.com", `<title>ACME // Instruments for people</title>`, "ACME"},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := extract.Name(extracttest.Read(c.domain, c.body))
			if got.Value != c.want {
				t.Errorf("name is %q by %s, want %q", got.Value, got.Method, c.want)
				for _, w := range extract.NamesWeighed(extracttest.Read(c.domain, c.body)) {
					t.Logf("%6.1f %q %s (%s)", w.Score, w.Value, w.Method, w.Note)
				}
			}
		})
	}
}

func TestName_OfTheSite_BeatsThatOfItsDomain(t *testing.T) {
	feed := func(title string) string {
		return `<link rel="alternate" type="application/rss+xml" title="` + title + ` &raquo; Feed" href="/feed/">`
	}
	for name, c := range map[string]struct{ domain, body, want string }{
		"title and heading":                 {"holz-aus-tirol.at", `<title>Tischlerei Obermoser &amp; Söhne GmbH &amp; Co. KG</title><h1>Tischlerei Obermoser &amp; Söhne</h1>`, "Tischlerei Obermoser & Söhne"},
		"a long title, feed and home link":  {"mzw.example", `<title>Malermeister Zacharias Wohlfahrt Werkstätten für Farbe | Kiel</title>` + feed("Malermeister Zacharias Wohlfahrt Werkstätten für Farbe") + `<header><a href="/">Malermeister Zacharias Wohlfahrt Werkstätten für Farbe</a></header>`, "Malermeister Zacharias Wohlfahrt Werkstätten für Farbe"},
		"the words of the domain in a text": {"bestcoffee.example", `<title>Rösterei Lindqvist | Kaffee</title><meta property="og:site_name" content="Rösterei Lindqvist"><p>We roast Best Coffee. Best Coffee!</p>`, "Rösterei Lindqvist"},
		"emoji around it":                   {"greens.example", `<title>🌿 Blattwerk &amp; Blüte 🌿</title><h1>Blattwerk &amp; Blüte</h1>`, "Blattwerk & Blüte"},
		"emoji between the parts":           {"blattwerk.example", `<title>Blattwerk 🌿 Pflanzen für Zuhause</title>`, "Blattwerk"},
	} {
		t.Run(name, func(t *testing.T) { checkName(t, c.domain, c.body, c.want) })
	}
}

func TestName_AddressOrIdentifier_IsRefused(t *testing.T) {
	for _, text := range []string{"www.hof-birke.example", "hof-birke.example/startseite", "header_logo", "logo-neu-2.png", "cropped-hofladen-300x120", "site_title", "startseite.html"} {
		t.Run(text, func(t *testing.T) {
			checkName(t, "hofladen.example", `<title>Birkenhof</title><meta property="og:site_name" content="`+text+`"><header><a href="/"><img src="l.png" alt="`+text+`"></a></header>`, "Birkenhof")
		})
	}
}

func TestName_Capitals_FollowThePagesOwnUses(t *testing.T) {
	checkName(t, "birkenhof.example", `<title>BIRKENHOF</title><p>Der Birkenhof liegt am See. Im Birkenhof wird gebacken. Birkenhof bleibt Birkenhof.</p>`, "Birkenhof")
	checkName(t, "birkenhof.example", `<title>BIRKENHOF</title><p>BIRKENHOF liegt am See. Im Birkenhof wird gebacken.</p>`, "BIRKENHOF")
	checkName(t, "stw.example", `<title>STW</title><p>Stw. Stw. Stw.</p>`, "STW")
}

func TestName_TaglineAsSiteName_IsTheDescription(t *testing.T) {
	body := `<title>Handmade candles with care from Leeds</title><meta property="og:site_name" content="Handmade candles with care from Leeds"><h1>Handmade candles with care from Leeds</h1><header><a href="/"><img src="l.png" alt="Wickwood"></a></header>`
	checkName(t, "wickwood-candles.example", body, "Wickwood")
	if got, _ := extract.Description(extracttest.Read("wickwood-candles.example", body)); got.Value != "Handmade candles with care from Leeds" {
		t.Errorf("description is %q by %s", got.Value, got.Method)
	}
	for _, name := range []string{"Museum of the Wide Sea", "Verein für das Leben", "Stiftung Haus der kleinen Forscher"} {
		checkName(t, "mws.example", `<title>`+name+`</title><meta property="og:site_name" content="`+name+`">`, name)
	}
}

func TestName_DeclarationThatThePageContradicts_IsIgnored(t *testing.T) {
	checkName(t, "oakvale.example", extracttest.Organization(`"name":"Cheap Pills Direct","url":"https://oakvale.example"`)+`<title>Dr. Hanne Brook</title><h1>Dr. Hanne Brook</h1><header><a href="/">Dr. Hanne Brook</a></header>`, "Dr. Hanne Brook")
	checkName(t, "oakvale.example", `<title>Praxis Brook</title><h1 style="display: none">Casino Royal Slots</h1>`, "Praxis Brook")
}

// checkName checks the name of a domain's home page.
func checkName(t *testing.T, domain, body, want string) {
	t.Helper()
	in := extracttest.Read(domain, body)
	if got, _ := extract.Name(in); got.Value != want {
		t.Errorf("name is %q by %s, want %q", got.Value, got.Method, want)
		for _, w := range extract.NamesWeighed(in) {
			t.Logf("%6.1f %q %s (%s)", w.Score, w.Value, w.Method, w.Note)
		}
	}
}

func TestName_InnerPage_IsRead(t *testing.T) {
	for name, c := range map[string]struct{ domain, address, body, want string }{
		"the headline is not the name":      {"fieldpost.com", "https://fieldpost.com/2024/long-story", `<title>Long story - Quarterly thoughts</title><h1>Long story</h1>`, "Quarterly thoughts"},
		"author of a personal site":         {"doe.net", "https://jane.doe.net/awk.html", `<title>Thoughts - awk for all</title><h1>awk for all</h1><meta name="author" content="Jane Doe">`, "Jane Doe"},
		"a publication on a shared domain":  {"paperstack.example", "https://janedoe.paperstack.example/p/agency", `<script type="application/ld+json">{"@type":"NewsArticle","publisher":{"@type":"Organization","name":"Water Maps","url":"https://janedoe.com"},"author":{"@type":"Person","name":"Jane Doe"}}</script><title>Agency - by Jane Doe</title><header><h1><a href="/">Water Maps</a></h1></header>`, "Water Maps"},
		"a publication in a folder":         {"paperstack.example", "https://paperstack.example/watermaps/agency", `<script type="application/ld+json">{"@type":"NewsArticle","publisher":{"@type":"Organization","name":"Water Maps","url":"https://paperstack.example/watermaps"}}</script><title>Agency | Water Maps | Paperstack</title><meta property="og:site_name" content="Paperstack">`, "Paperstack"},
		"the same name, another ending":     {"theherald.co.uk", "https://theherald.co.uk/2016/05/03/clouds", `<script type="application/ld+json">{"@type":"NewsArticle","publisher":{"@type":"Organization","name":"The Herald","url":"https://theherald.com"}}</script><title>Clouds and more</title>`, "The Herald"},
		"a part of the headline":            {"quillpod.de", "https://quillpod.de/2024/folge-70", `<title>Folge 70: Star Talk: Captain</title><meta property="og:title" content="Folge 70: Star Talk: Captain"><h1>Folge 70: Star Talk: Captain</h1>`, "Quillpod"},
		"a headline with the domain's word": {"autohof.de", "https://autohof.de/news/chefin", `<title>Chefin: "Der Autohof ist alternativlos" | autohof.de</title><meta property="og:title" content="Chefin: &quot;Der Autohof ist alternativlos&quot;"><h1>Chefin: "Der Autohof ist alternativlos"</h1><meta property="og:site_name" content="autohof.de">`, "autohof.de"},
		"a headline and the name behind":    {"quillflash.de", "https://quillflash.de/news/streit", `<title>Streit eskaliert - Jetzt schießt Otto gegen alle Quillflash</title><h1>Streit eskaliert - Jetzt schießt Otto gegen alle</h1>`, "Quillflash"},
		"the headline's feed":               {"silva.net", "https://silva.net/2024/wahl", `<title>Wahlzettel: Angriff | silva.net</title><h1>Wahlzettel: Angriff</h1><link rel="alternate" type="application/rss+xml" title="Wahlzettel Kommentar-Feed" href="/f">`, "Silva"},
		"one word of a Chinese headline":    {"banyue.org", "https://banyue.org/2024/a.html", `<title>益阳：数字是优长-半月谈</title><h1>益阳：数字是优长</h1>`, "半月谈"},
		"the site's name for a heading":     {"fouryears.eu", "https://fouryears.eu/archive/integers", `<title>Four Years Remaining » Interning of Integers</title><h1><a href="/">Four Years Remaining</a></h1><link rel="alternate" type="application/rss+xml" title="Four Years Remaining Feed" href="/f"><p>Four years, four years</p>`, "Four Years Remaining"},
		"an agency's article":               {"fieldpost.com", "https://fieldpost.com/2024/long-story", `<script type="application/ld+json">{"@type":"NewsArticle","publisher":{"@type":"Organization","name":"Agency Press","url":"https://agency.example"}}</script><title>Long story | Fieldpost</title>`, "Fieldpost"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, _ := extract.Name(readAt(c.domain, c.address, c.body)); got.Value != c.want {
				t.Errorf("name is %q by %s, want %q", got.Value, got.Method, c.want)
			}
		})
	}
}

func TestName_SecondPageAndManifest_CountLess(t *testing.T) {
	in := extracttest.Read("acme.com", `<title>Precision for everyone who measures</title>`)
	about := readAt("acme.com", "https://acme.com/about", `<meta property="og:site_name" content="Acme Instruments"><title>About</title>`)
	in.More = []*page.Page{about.Page}
	got, _ := extract.Name(in)
	if got.Value != "Acme Instruments" || got.Source != "https://acme.com/about" {
		t.Errorf("name is %q from %s", got.Value, got.Source)
	}
	in.Page = extracttest.Read("acme.com", `<meta property="og:site_name" content="Acme Tools"><title>Precision</title>`).Page
	in.Manifest = &manifest.Manifest{Name: "acme pwa"}
	if got, _ := extract.Name(in); got.Value != "Acme Tools" {
		t.Errorf("name is %q", got.Value)
	}
}

func TestWeighed_Names_WinnerFirst(t *testing.T) {
	in := extracttest.Read("acme.com", extracttest.Organization(`"name":"Acme","url":"https://acme.com","sameAs":["https://x.com/acme"]`)+`<title>Home | Acme</title><meta name="description" content="Acme makes instruments."><footer><a href="https://x.com/other">x</a></footer>`)
	name, _ := extract.Name(in)
	description, _ := extract.Description(in)
	for field, c := range map[string]struct {
		weighed []extract.Weighed
		want    string
	}{
		"name":        {extract.NamesWeighed(in), name.Value},
		"description": {extract.DescriptionsWeighed(in), description.Value},
		"links":       {extract.LinksWeighed(in), extract.Links(in).Value[0].URL},
	} {
		won := 0
		for i, w := range c.weighed {
			if w.Won {
				won++
			}
			if w.Won != (i == 0) || !strings.HasPrefix(w.Field, field) || w.Note == "" || w.Method == "" {
				t.Errorf("%s, place %d: %+v", field, i, w)
			}
		}
		if won != 1 || c.weighed[0].Value != c.want {
			t.Errorf("%s: %d won, first is %q, want %q", field, won, c.weighed[0].Value, c.want)
		}
	}
}
