package classify_test

import (
	"net/http"
	"net/url"
	"testing"

	"letterhead/workers/crawl/classify"
	"letterhead/workers/crawl/page"
	"letterhead/workers/crawl/site"
)

// checkAt classifies a response with status 200 of a domain.
func checkAt(t *testing.T, domain, body string, want classify.Kind) {
	t.Helper()
	header := http.Header{"Content-Type": {"text/html; charset=utf-8"}}
	of := site.New(domain)
	p := page.Parse([]byte(body), header.Get("Content-Type"), &url.URL{Scheme: "https", Host: domain, Path: "/"}, of)
	if got := classify.Home(classify.Answer{Status: 200, Header: header, Page: p, Site: of, Bytes: len(body)}); got.Kind != want {
		t.Errorf("got %s (%s), want %s; %d words: %q", got.Kind, got.Sign, want, p.Words, p.Text)
	}
}

const (
	icon      = `<link rel="icon" href="/f.png">`
	described = `<meta name="description" content="We make things for people who like good things.">`
)

func mark(name string) string {
	return `<header><a href="/"><img class="logo" src="/logo.png" alt="` + name + `"></a></header>`
}

// Good pages of owners whose name, or trade, sounds like a refusal.
func TestClassify_NameLikeRefusal_IsUsable(t *testing.T) {
	for name, c := range map[string]struct{ domain, body string }{
		"an agency":                   {"seo.com", `<title>Rankwell</title><p>Your website is working against you. We mend it.</p>`},
		"begins like a panel":         {"vestas.com", `<title>Vestas Wind Systems</title>` + icon + `<h1>Wind</h1><p>We build wind turbines.</p><a href=/about>About</a>`},
		"begins like a panel, bare":   {"hestia-home.co.uk", `<title>Hestia Home Care</title><h1>Care at home</h1><p>Nurses who come to you.</p>`},
		"begins like another":         {"webminster.com", `<title>Webminster Hotel</title><h1>Sleep by the abbey</h1>`},
		"a web server's name":         {"jetty.com", `<title>Jetty</title>` + mark("Jetty") + `<h1>Renters insurance</h1><a href=/quote>Quote</a>`},
		"a web server's, by logo":     {"golfcarts.com", `<title>Caddy</title>` + icon + described + mark("Caddy") + `<h1>Golf carts</h1>`},
		"a web server's, longer":      {"mousetraps.com", `<title>Tomcat mouse traps</title><h1>No more mice</h1>`},
		"placeholder":                 {"acme.com", `<title>Placeholder Pages Ltd</title>` + icon + described + `<h1>Placeholder Pages</h1><p>Print shop.</p>`},
		"404":                         {"404coffee.com", `<title>404 Coffee</title>` + mark("404 Coffee") + `<p>Open 7 to 5.</p>`},
		"404, elsewhere":              {"coffee.com", `<title>404 Coffee</title><h1>404 Coffee</h1><p>Open 7 to 5.</p>`},
		"500":                         {"500.co", `<title>500</title><h1>We back founders.</h1>`},
		"500 and a word":              {"startups.vc", `<title>500 Startups</title><h1>We back founders.</h1>`},
		"not found":                   {"vinyl.com", `<title>Not Found Records</title><h1>Vinyl</h1>`},
		"not found, by its domain":    {"notfound.com", `<title>Not Found</title><h1>Vinyl for the curious</h1>`},
		"site maintenance":            {"sitewise.com", `<title>Sitewise | Site maintenance and gardening</title>` + mark("Sitewise") + `<h1>Site maintenance and gardening</h1><p>Kent.</p>`},
		"site maintenance, bare":      {"sitewise.com", `<title>Sitewise</title>` + icon + described + `<h1>Site maintenance</h1><p>Kent.</p>`},
		"scheduled maintenance":       {"jets.com", `<title>Aircraft Maintenance Co</title>` + icon + described + `<h1>Scheduled maintenance for jets</h1>`},
		"maintenance in Spanish":      {"ruiz.es", `<title>Ascensores Ruiz</title><h1>Expertos en mantenimiento de ascensores</h1><p>Calle Mayor 4.</p>`},
		"maintenance, and the web":    {"ruiz.es", `<title>Ruiz</title><h1>Diseño web y expertos en mantenimiento</h1><p>Calle Mayor 4.</p><a href=/a>A</a>`},
		"construction in French":      {"bois.fr", `<title>Bois du Rhône</title><h1>Spécialiste en construction bois</h1><a href=/a>A</a>`},
		"building in German":          {"kraftwerk.de", `<title>Kraftwerk – Ihr Partner im Aufbau</title><h1>Muskeln im Aufbau, Schmerzen im Abbau</h1><a href=/a>A</a>`},
		"what is made in German":      {"bau.de", `<title>Hier entsteht Zukunft</title><h1>Wir bauen</h1><a href=/a>A</a>`},
		"theater":                     {"teatro.it", `<title>Teatro Verdi</title>` + icon + described + `<h1>Prossimamente</h1><p>Nabucco, 3 marzo.</p><a href=/a>A</a>`},
		"a new album":                 {"lanterns.com", `<title>The Lanterns</title>` + icon + described + `<h1>Coming soon: the new album</h1><p>Folk from Bristol.</p><a href=/a>A</a>`},
		"somebody is back":            {"boys.com", `<title>The Boys</title><h1>The boys are back</h1><p>On tour.</p><a href=/a>A</a>`},
		"toys":                        {"underconstructiontoys.com", `<title>Under Construction</title><h1>Under Construction</h1><p>Diggers and cranes.</p>`},
		"un instant":                  {"gourmand.fr", `<title>Un instant gourmand</title><h1>Restaurant</h1><p>Ouvert du mardi au samedi.</p>`},
		"a robot museum":              {"robotmuseum.org", `<title>Are you a robot? | The Robot Museum</title>` + icon + described + mark("Robot Museum") + `<h1>Robot Museum</h1><p>Open daily.</p>`},
		"a moment in Russian":         {"cafe.ru", `<title>Моменты — кафе</title><h1>Моменты</h1><p>Завтраки весь день.</p>`},
		"just a moment":               {"justamoment.com", `<title>Just a moment</title><h1>Weddings</h1><p>Devon.</p>`},
		"access denied":               {"escape.ie", `<title>Access Denied Escape Rooms</title><h1>Can you get out?</h1>`},
		"forbidden":                   {"forbidden.fr", `<title>Forbidden</title><h1>Perfume for the night</h1>`},
		"security check":              {"doors.lv", `<title>Security Check Doors</title><h1>Doors that hold</h1>`},
		"missing delivery":            {"basket.com", `<title>Basket</title>` + icon + described + mark("Basket") + `<h1>Groceries</h1><p>Enter your postcode. Not available in your area yet? Leave your mail.</p>`},
		"delivery, as a statement":    {"basket.com", `<title>Basket</title>` + icon + described + mark("Basket") + `<h1>Groceries</h1><p>We are not available in your area yet. Leave your mail.</p>`},
		"a country, as a question":    {"films.com", `<title>Films</title><h1>Films</h1><p>Not available in your country? Tell us.</p>`},
		"parked":                      {"parkedbythesea.com", `<title>Parked by the Sea | Campervans</title><h1>Parked by the Sea</h1>`},
		"hello, world":                {"helloworldschool.com", `<title>Hello World</title><h1>Hello World</h1><p>Courses for children.</p>`},
		"plumbers":                    {"itworksplumbing.com", `<title>It Works Plumbing</title><h1>It works!</h1><p>Call a plumber.</p>`},
		"a farm at Plesk":             {"lumen.io", `<title>Welcome to Plesk Valley Farm</title><h1>Farm</h1><p>Milk.</p>`},
		"an account for the disabled": {"accountdisabledvets.org", `<title>Disabled Veterans Account</title><h1>Give</h1>`},
		"error":                       {"errorstudio.co.uk", `<title>Error Studio</title><h1>Design by mistake</h1>`},
		"gateway timeout":             {"gatewaytimeout.fm", `<title>Gateway Timeout</title><h1>A podcast</h1><p>On servers.</p>`},
		"one moment":                  {"onemoment.yoga", `<title>One Moment, Please – Yoga in Bath</title>` + icon + described + `<h1>Breathe</h1>`},
		"upkeep in Dutch":             {"bakker.nl", `<title>Bakker</title><h1>Specialist in onderhoud van daken</h1><p>Bel ons.</p>`},
		"upkeep in Italian":           {"rossi.it", `<title>Rossi Caldaie</title><h1>Specializzati in manutenzione caldaie</h1><p>Chiamaci.</p>`},
		"building in Portuguese":      {"obras.pt", `<title>Obras Silva</title><h1>Líder em construção civil</h1><p>Lisboa</p>`},
		"a vineyard is a domain too":  {"domaine.fr", `<title>Domaine du Lac</title><h1>Domaine du Lac</h1><p>Ce domaine est réservé aux amateurs de vin.</p>` + icon + described},
		"security checkpoint":         {"checkpoint.gym", `<title>Security Checkpoint Training</title><h1>Courses for guards</h1>`},
		"captcha":                     {"captcha.band", `<title>Captcha</title><h1>New single</h1>`},
		"architects in Slovak":        {"nano.sk", `<title>V rekonštrukcii – architekti</title><h1>Domy</h1><p>Navrhujeme.</p>`},
		"opening soon":                {"openingsoon.events", `<title>Opening Soon Events</title><h1>We open doors</h1>`},
		"index of art":                {"indexof.art", `<title>Index of Art</title><h1>Gallery</h1>`},
		"coming soon, a festival":     {"comingsoon.film", `<title>Coming Soon Film Festival</title><h1>Twelve films</h1><p>Hull</p>`},
		"welcome back":                {"weareback.com", `<title>Backroads</title><h1>Welcome back</h1><p>Trips.</p>`},
		"robot check":                 {"robotcheck.de", `<title>Robot Check GmbH</title><h1>Wir prüfen Roboter</h1>`},
	} {
		t.Run(name, func(t *testing.T) { checkAt(t, c.domain, c.body, classify.Usable) })
	}
}

// Refusals with parts of a good page: a brand's name, its logo, or an icon.
func TestClassify_RefusalWithBrandName_IsNotUsable(t *testing.T) {
	for name, c := range map[string]struct {
		domain, body string
		want         classify.Kind
	}{
		"wall with the brand's logo":    {"acme.com", `<title>acme.com</title>` + icon + mark("Acme") + `<p>Our systems have detected unusual traffic from your computer network.</p><form></form>`, classify.Blocked},
		"wall with the brand's name":    {"acme.com", `<title>Acme</title><p>Please complete the security check to access acme.com</p>`, classify.Blocked},
		"wall that describes itself":    {"acme.com", `<title>Security check</title>` + icon + `<meta name=description content="Please verify that you are a human to continue"><h1>Security check</h1>`, classify.Blocked},
		"wall with the name behind":     {"acme.com", `<title>Security check | Acme</title>` + mark("Acme") + `<h1>Security check</h1>`, classify.Blocked},
		"wall, Radware":                 {"acme.com", `<title>Radware Captcha Page</title><h1>We apologize for the inconvenience...</h1>`, classify.Blocked},
		"wall, IIS":                     {"acme.com", `<title>403 - Forbidden: Access is denied.</title><h2>403 - Forbidden: Access is denied.</h2>`, classify.Blocked},
		"wall in Polish":                {"acme.pl", `<title>Weryfikacja</title><h1>Potwierdź, że nie jesteś robotem</h1>`, classify.Blocked},
		"wall in Italian":               {"acme.it", `<title>Verifica di sicurezza</title><p>Attendere.</p>`, classify.Blocked},
		"wall in Turkish":               {"acme.com.tr", `<title>Bir dakika lütfen...</title><p>Robot olmadığınızı doğrulayın</p>`, classify.Blocked},
		"geo with the brand":            {"acme.com", `<title>Acme</title>` + icon + described + mark("Acme") + `<h1>Acme</h1><p>Acme is not available in your country.</p>`, classify.Blocked},
		"geo in Polish":                 {"acme.pl", `<title>Acme</title><h1>Serwis niedostępny w Twoim kraju</h1>`, classify.Blocked},
		"error with the name behind":    {"acme.com", `<title>Page not found | Acme</title>` + icon + mark("Acme") + `<h1>404</h1>`, classify.Placeholder},
		"error with a colon":            {"acme.com", `<title>404: This page could not be found.</title><h1>404</h1>`, classify.Placeholder},
		"error of IIS":                  {"acme.com", `<title>404 - File or directory not found.</title><h2>Server Error</h2>`, classify.Placeholder},
		"error in Polish":               {"acme.pl", `<title>Nie znaleziono strony</title><p>Strona nie istnieje.</p>`, classify.Placeholder},
		"error in Swedish":              {"acme.se", `<title>Sidan hittades inte - Acme</title><p>Tyvärr.</p>`, classify.Placeholder},
		"suspended in Spanish":          {"acme.es", `<title>Cuenta suspendida</title><p>Póngase en contacto.</p>`, classify.Placeholder},
		"suspended in French":           {"acme.fr", `<title>Site suspendu</title>`, classify.Placeholder},
		"nginx on Debian":               {"acme.com", `<title>Welcome to nginx on Debian!</title><h1>Welcome to nginx on Debian!</h1>`, classify.Placeholder},
		"Rocky Linux":                   {"acme.com", `<title>HTTP Server Test Page powered by: Rocky Linux</title><h1>HTTP Server Test Page</h1>`, classify.Placeholder},
		"panel":                         {"acme.com", `<title>Hestia Control Panel</title>` + icon + `<p>Welcome</p>`, classify.Placeholder},
		"Tomcat with an icon":           {"acme.com", `<title>Apache Tomcat/10.1.1</title>` + icon + `<h2>Manager App</h2>`, classify.Placeholder},
		"React as it comes":             {"acme.com", `<title>React App</title>` + icon + `<meta name=description content="Web site created using create-react-app"><div id=root></div><script src=/a.js></script>`, classify.Placeholder},
		"Next.js as it comes":           {"acme.com", `<title>Create Next App</title>` + icon + `<meta name=description content="Generated by create next app"><p>Get started</p>`, classify.Placeholder},
		"soon, with name, icon, words":  {"acme.com", `<title>Acme – Coming soon</title>` + icon + described + mark("Acme") + `<h1>Acme</h1>`, classify.Placeholder},
		"soon, with a colon":            {"acme.com", `<title>Coming soon: Acme</title><p>Stay tuned.</p>`, classify.Placeholder},
		"soon in a sentence":            {"acme.com", `<title>Acme</title><h1>The Acme website is currently under construction</h1>`, classify.Placeholder},
		"soon in an Italian sentence":   {"acme.it", `<title>Acme</title><h1>Il sito di Acme è in costruzione</h1><p>Torna presto.</p>`, classify.Placeholder},
		"soon in Swedish":               {"acme.se", `<title>Acme</title><h1>Webbplatsen är under uppbyggnad</h1>`, classify.Placeholder},
		"soon in Ukrainian":             {"acme.ua", `<title>Акме</title><h1>Сайт у розробці</h1>`, classify.Placeholder},
		"soon, German, in a part":       {"acme.de", `<title>Acme GmbH | Im Aufbau</title><p>Bald mehr.</p>`, classify.Placeholder},
		"maintenance":                   {"acme.com", `<title>Acme</title><h1>Scheduled maintenance</h1><p>Sorry.</p>`, classify.Placeholder},
		"parking page with icon, words": {"acme.com", `<title>acme.com</title>` + icon + described + `<h1>This domain is for sale</h1>`, classify.Parked},
		"wall in Czech":                 {"acme.cz", `<title>Ověření</title><h1>Nejsem robot</h1>`, classify.Blocked},
		"wall in Portuguese":            {"acme.pt", `<title>Verificação de segurança</title><p>Aguarde.</p>`, classify.Blocked},
		"wall in Dutch":                 {"acme.nl", `<title>Beveiligingscontrole</title><p>Even geduld.</p>`, classify.Blocked},
		"wall in Korean":                {"acme.kr", `<title>잠시만 기다리십시오…</title>`, classify.Blocked},
		"soon in Norwegian":             {"acme.no", `<title>Acme</title><h1>Nettsiden er under utvikling</h1>`, classify.Placeholder},
		"soon in Danish":                {"acme.dk", `<title>Acme</title><h1>Hjemmesiden er under opbygning</h1>`, classify.Placeholder},
		"soon in Hungarian":             {"acme.hu", `<title>Acme</title><h1>Az oldal karbantartás alatt áll</h1>`, classify.Placeholder},
		"soon in Czech":                 {"acme.cz", `<title>Acme</title><h1>Stránky jsou ve výstavbě</h1>`, classify.Placeholder},
		"soon in Romanian":              {"acme.ro", `<title>Acme</title><h1>Site în construcție</h1>`, classify.Placeholder},
		"soon in a French sentence":     {"acme.fr", `<title>Acme</title><h1>Notre site est en cours de construction</h1>`, classify.Placeholder},
		"soon in a German sentence":     {"acme.de", `<title>Acme</title><h1>Diese Seite befindet sich im Aufbau</h1>`, classify.Placeholder},
		"error in Spanish":              {"acme.es", `<title>Error 404: página no encontrada</title>`, classify.Placeholder},
		"error in Italian":              {"acme.it", `<title>Errore 404</title><p>La pagina non esiste</p>`, classify.Placeholder},
		"soon in Turkish":               {"acme.com.tr", `<title>Acme</title><h1>Sitemiz yapım aşamasındadır</h1>`, classify.Placeholder},
		"upkeep in Portuguese":          {"acme.pt", `<title>Acme</title><h1>Site em manutenção</h1>`, classify.Placeholder},
		"upkeep in French":              {"acme.fr", `<title>Acme</title><h1>Site en maintenance</h1><p>Nous revenons vite</p>`, classify.Placeholder},
		"soon in Spanish":               {"acme.es", `<title>Acme</title><h1>Estamos en construcción</h1>`, classify.Placeholder},
		"soon in Italian":               {"acme.it", `<title>Acme</title><h1>Sito web in allestimento</h1>`, classify.Placeholder},
		"back soon":                     {"acme.com", `<title>Acme</title><h1>We&rsquo;ll be back soon!</h1><p>Sorry for the inconvenience, maintenance.</p>`, classify.Placeholder},
		"something soon":                {"acme.com", `<title>Acme</title><h1>Something awesome is coming soon</h1>`, classify.Placeholder},
		"a new site soon":               {"acme.com", `<title>Acme</title><h1>Our new website is coming soon. Stay tuned</h1>`, classify.Placeholder},
		"launching soon":                {"acme.com", `<title>Launching Soon - Acme Store</title><h1>Acme</h1>`, classify.Placeholder},
		"opening soon":                  {"acme.com", `<title>Opening soon – Acme</title><h1>Acme</h1><form><input type=password></form>`, classify.Placeholder},
		"coming soon to the domain":     {"acme.com", `<title>Acme</title><h1>Coming Soon to Acme.com</h1>`, classify.Placeholder},
	} {
		t.Run(name, func(t *testing.T) { checkAt(t, c.domain, c.body, c.want) })
	}
}
