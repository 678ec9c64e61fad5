package classify

import (
	"slices"
	"strings"

	"letterhead/internal/lazyregexp"
	"letterhead/workers/crawl/page"
)

// emptyTitles matches the complete first part of the titles of default pages of
// web servers, panels and builders: "Caddy works!" matches, "Caddy" does not.
var emptyTitles = lazyregexp.New(`(?i)^(welcome to (nginx|openresty|tengine|caddy|centos|apache|our server|lighttpd|your new (web ?)?site|plesk|cpanel|[\w .-]{0,30}default( page| server| site)?|jetty|jboss.{0,20}|wildfly.{0,20})( on [\w .]{1,20})?|(apache2? )?.{0,20}default page: it works|apache(2| http server)? .{0,30}(test|default) page( powered by.*)?|test page for .{0,30}(apache|nginx|http server)( .*)?|iis ?\d*( windows.*)?|microsoft internet information services( \d.*)?|windows server( \d{4}.*)?|index of /.*|it works|caddy works|your caddy server( .{1,40})?|default (web ?site|web|server|parallels|plesk|host) page|(web|http) server'?s default page|(web server'?s |domain |website )?default page|plesk( obsidian| onyx)?( [\d.]+)?|cpanel( login)?|account (suspended|disabled)|(this |sorry, this )?(web ?site|account|site|shop|store) (is |has been |has )?(currently |temporarily )?(suspended|disabled|deactivated|inactive|offline|expired|unavailable)|(this )?site (is )?not (found|published)( yet)?|future home of .{1,60}|placeholder page|http server test page( powered by.*)?|lighttpd( default page|/[\d.]+)?|congratulations[!,.]? your (new )?(web ?site|(web ?)?server|site|domain|hosting|account|virtual host)\b.*|hosting .{0,30}default( page)?|success! .{0,40}(virtual host|server|hosting|site) is (working|ready).*|vite \+ \w+( \+ \w+)?|(vite|react|nuxt|angular|vue|svelte|sveltekit|create next|create react) app|my wordpress blog|just another wordpress site|parallels (plesk|h-sphere).*|(hestia|vesta)( control panel|cp)|(cyberpanel|directadmin|ispconfig|froxlor|webmin|virtualmin|aapanel)( login| [\d.]+)?|login to (webmin|virtualmin|cyberpanel)|apache tomcat(/[\d.]+.*)?|tomcat/[\d.]+.*|jetty[ :/-]*\d.*|powered by jetty.*|glassfish server( .*)?|localhost|default site|no website configured.*|(website|domain) (is )?not (yet )?configured.*|hello,? world` +
	`|hier entsteht( (gerade|demnächst|bald|in kürze|eine?|unsere?|die|der|das|ihre?|neue[nrs]?))*( (internet|web|home|online|seite|site|shop).*)?|(dieses? |diese )?(web ?seite|website|konto|account|internetseite|seite|shop) (ist |wurde )?(derzeit |momentan |vorübergehend )?(gesperrt|deaktiviert|abgeschaltet|nicht erreichbar)|(ce |cette |votre )?(site|compte|boutique)( web)? (est |a été )?(suspendue?|désactivée?|indisponible|hors ligne|expirée?)|(este |esta |su |tu )?(cuenta|sitio|p[aá]gina|tienda)( web)? (est[aá] |ha sido )?(suspendid[oa]|desactivad[oa]|deshabilitad[oa]|caducad[oa])|(questo |il |l'|il tuo )?(account|sito|negozio)( web)? ([eè] |[eè] stato )?(sospeso|disattivato|scaduto|non disponibile)|(esta? |sua )?(conta|site|loja|p[aá]gina) (est[aá] |foi )?(suspens[oa]|desativad[oa]|expirad[oa])|(deze |dit )?(website|site|account|winkel) (is )?(opgeschort|geblokkeerd|uitgeschakeld|offline|niet beschikbaar)|(to |ta )?(konto|strona)( zosta[lł][oa])?( jest)? (zawieszon[ea]|zablokowan[ea]|wy[lł][aą]czon[ea])|(kontot|webbplatsen|kontoen|siden) (är |er )?(avstängt?|avstängd|suspenderet|suspendert|sperret)|(hesap|site) ask[iı]ya al[iı]nd[iı]|(сайт|аккаунт|акаунт|хостинг)( временно)? (заблокирован|отключ[её]н|приостановлен|недоступен|призупинено|заблоковано)|没有找到站点|恭喜[，,] ?站点创建成功|站点创建成功|网站已(暂停|关闭|到期))[\s.…!！]*$`)

// panelLogIns are whole titles of panels.
var panelLogIns = lazyregexp.New(`(?i)^(hestia|vesta) - login$`)

// emptyTexts matches the texts of such pages without a typical title.
var emptyTexts = lazyregexp.New(`(?i)^(it works!?$|caddy works|hello,? world!?$|if you('re| are) (seeing|reading) this (page|message)|if you see this page, the (nginx|openresty|tengine) web server|this is the default (welcome|index|web|page|server|vhost)|default backend - 404|your website is (ready|up and running|working)( properly| correctly| now)?([.!]|$)|this page is used to test the proper operation|(welcome|success)! your (new )?(site|website|(web )?server|virtual host) is (ready|working)|placeholder( page)?\.?$)`)

// The wordings of pages that announce a new or repaired site. Words that builders, mechanics and theaters also use
// ("expertos en mantenimiento", "prossimamente") count only as a complete part of a title or a heading, or about a
// site.
const (
	// soonPlain is sufficient at the end of a text.
	soonPlain = `coming (very )?soon|under construction|launching soon|opening soon|under (scheduled )?maintenance|(down|closed|offline) for (scheduled )?maintenance|undergoing (scheduled )?maintenance|be right back( soon| shortly)?|be back (very )?(soon|shortly|later|online)|maintenance mode|maintenance in progress`
	// soonOthers are phrases of other languages, and short ones.
	soonOthers = `en construction|en cours de (construction|cr[ée]ation|maintenance)|bient[oô]t (disponible|en ligne|de retour)|en maintenance|en travaux|en construcci[oó]n|en mantenimiento|pr[oó]ximamente|im aufbau|in bearbeitung|in kürze|demnächst|wartungs(arbeiten|modus)|wegen wartung|in wartung|em constru[cç][aã]o|em breve|em manuten[cç][aã]o|in costruzione|in allestimento|prossimamente|in manutenzione|(onder|in) (constructie|aanbouw)|binnenkort( online| beschikbaar| live| terug)?|in onderhoud|under (konstruktion|uppbyggnad|ombyggnad|opbygning|oppbygging|utvikling|arbeid|udvikling)|kommer snart|(on )?tulossa pian|työn alla|rakenteilla|w budowie|w przebudowie|wkr[oó]tce|prace techniczne|ve v[yý]stavb[eě]|ji[zž] brzy|ve v[yý]robe|hamarosan( indulunk| nyitunk)?|fel[uú]j[ií]t[aá]s alatt|[eé]p[ií]t[eé]s alatt|karbantart[aá]s alatt|[iî]n construc[tț]ie|[iî]n cur[aâ]nd|yap[ıi]m a[sş]amas[ıi]nda|yap[ıi]m a[sş]amas[ıi]ndad[ıi]r|bak[ıi]mda|yak[ıi]nda|υπό κατασκευή|σύντομα( κοντά σας)?|в разработке|на реконструкции|скоро|у розробці|на реконструкції|незабаром|u izradi|uskoro`
	// soonSites are words for a site.
	soonSites = `web ?site|site|web ?page|page|sitio|web|p[aá]gina|sito|seite|webseite|homepage|internetseite|internetauftritt|shop|webshop|boutique|tienda|loja|negozio|winkel|strona|str[aá]nky|honlap|oldal|web ?sayfas[ıi]|(web ?)?sitemiz|sayfam[ıi]z|hjemmeside\p{L}*|nettsted\p{L}*|nettside\p{L}*|webbplats\p{L}*|hemsida\p{L}*|sivusto\p{L}*|ιστοσελίδα|сайт|страница|сторінка|магазин`
	// soonFill are filler words around them.
	soonFill = `our|the|this|my|we|we're|are|is|currently|sorry,?|new|still|notre|votre|le|la|cette|ce|est|actuellement|nouveau|nuestr[oa]|est[ea]|el|est[aá]|actualmente|nuev[oa]|unsere?|neue[rs]?|die|diese|ist|befindet|sich|noch|derzeit|momentan|zurzeit|il|nostro|questo|è|attualmente|nuovo|nosso|nossa|o|nov[oa]|onze|de|deze|nog|nieuwe|vår|den|är|er|ny|nye|w|je|jest|nasza|nowa|наш|находится|новый|новий|wir|sind|nous sommes|en ce moment|estamos|siamo|stiamo|wij zijn|jesteśmy|jsou|sú|sunt|suntem|vi|hier|here|aquí|ici|qui|aqui|online|ще|ещё|еще`
	// soonVerbs connect a site with its state.
	soonVerbs = `is|est|est[aá]|é|è|ist|är|er|je|jest|находится|is op dit moment`
)

var (
	soonEnds   = lazyregexp.New(`(?i)(^|[^\p{L}])(` + soonPlain + `)([ ,]+(in|on|at|this) .{1,20})?[\s.…!]*$`)
	soonAlone  = lazyregexp.New(`(?i)^((` + soonFill + `|` + soonSites + `)\s+)*(` + soonOthers + `|` + soonPlain + `)(\s+(` + soonFill + `|` + soonSites + `))*[\s.…!]*$`)
	soonOfSite = lazyregexp.New(`(?i)(^|[^\p{L}])(` + soonSites + `)\s+([^.!?|]{0,30}\s(` + soonVerbs + `)\s+)?((` + soonFill + `)\s+)*(` + soonOthers + `|` + soonPlain + `)($|[^\p{L}])`)
	// soonService matches wordings that also name a service.
	soonService = lazyregexp.New(`(?i)^(scheduled|planned|site|web ?site|server) maintenance[\s.…!]*$`)
	// soonSays matches unambiguous sentences, and words of scripts without word boundaries.
	soonSays = lazyregexp.New(`(?i)\b(we('ll| will) be (right )?back( soon| shortly)?[.!]?$|(web)?site is being (built|updated|redesigned)|new (web)?site (is )?(coming|on its way|under way)|hier entsteht (eine|unsere|demnächst|in kürze|bald))\b|hier entsteht$|скоро (открытие|откроемся|будет)|технические работы|準備中|工事中|近日公開|メンテナンス中|建设中|維護中|维护中|敬请期待|준비 ?중|점검 ?중`)
	// soonPlainly matches soonPlain anywhere: sufficient for a page with almost no other content.
	soonPlainly = lazyregexp.New(`(?i)\b(` + soonPlain + `)\b`)
)

// promises reports whether the title or headings of a page announce it for later.
func promises(a Answer) bool {
	own := presents(a.Page)
	for _, part := range titleParts(a.Page.Title) {
		if saysAny(a, part, soonEnds, soonAlone, soonOfSite, soonSays) || !own && says(a, soonService, part) {
			return true
		}
	}
	for _, heading := range a.Page.Headings {
		if saysAny(a, heading, soonEnds, soonOfSite, soonSays) || !own && saysAny(a, heading, soonAlone, soonService) {
			return true
		}
	}
	return false
}

// titleParts returns the parts of a title, split also at colons.
func titleParts(title string) []string {
	var out []string
	for _, part := range parts(title) {
		out = append(out, strings.Split(part, ": ")...)
	}
	return out
}

// saysAny is says for any of some patterns.
func saysAny(a Answer, text string, patterns ...*lazyregexp.Regexp) bool {
	return slices.ContainsFunc(patterns, func(p *lazyregexp.Regexp) bool { return says(a, p, text) })
}

// errorPhrases are phrases of error pages.
const errorPhrases = `page not found|not found|file not found|file or directory not found|site not found|(this |the )?page (.{0,30})?(could not be|cannot be|can't be|was not|isn't|is not) found|no such (app|site|bucket)|domain not (found|configured|claimed)|there isn't a github pages site here|database error|error establishing a database connection|internal server error|bad gateway|gateway time-?out|service (temporarily )?unavailable|application error|fatal error|runtime error|server error.{0,40}|(die )?(angeforderte )?seite (wurde )?nicht gefunden|(cette )?page (introuvable|non trouv[ée]e)|p[aá]gina no encontrada|pagina (non trovata|niet gevonden)|p[aá]gina n[aã]o encontrada|(nie znaleziono( strony)?|strona nie (istnieje|została znaleziona))|sidan (hittades inte|finns inte|kunde inte hittas)|siden (blev ikke fundet|ble ikke funnet|findes ikke|finnes ikke)|sivua ei (löydy|löytynyt)|str[aá]nka (nebyla )?nenalezena|az oldal nem tal[aá]lhat[oó]|pagina nu (a fost g[aă]sit[aă]|exist[aă])|sayfa bulunamad[ıi]|(страница|ничего) не найден[ао]|сторінку не знайдено|η σελίδα δεν βρέθηκε|ページが見つかりません|页面(不存在|未找到)|找不到(页面|網頁)|페이지를 찾을 수 없습니다`

// errorTitles matches the complete first part of the titles of error pages with
// status 200: "404 Not Found" matches, "404 Coffee" does not.
var errorTitles = lazyregexp.New(`(?i)^((http )?(error|erreur|fehler|errore|erro|b[lł][aą]d|ошибка|помилка|hata)?[ :]*(404|410|500|502|503)([ :.!,–-]*(error|page|seite|fehler))?([ :.!,–-]*(` + errorPhrases + `))?|(404|410|500|502|503):.*|(error[: -]+)?(` + errorPhrases + `))[\s.…!]*$`)

// listing matches the beginning of a directory listing.
var listing = lazyregexp.New(`^(Index of /|Directory listing for /|Verzeichnis von /|Directory: /)`)

func placeholderSign(a Answer) string {
	p := a.Page
	said := first(p.Title)
	if said == "" && len(p.Headings) > 0 {
		said = p.Headings[0]
	}
	whole := strings.TrimSpace(p.Title)
	switch {
	case (emptyTitles.MatchString(said) || emptyTitles.MatchString(whole) || panelLogIns.MatchString(whole)) && !calledSo(a, said) && saysNothing(p, placeholderWords*2) && !drawnApp(a, said):
		return "default page"
	case says(a, emptyTexts, p.Text) && saysNothing(p, placeholderWords*2):
		return "default page"
	case (errorTitles.MatchString(said) || errorTitles.MatchString(whole)) && !calledSo(a, said) && saysNothing(p, placeholderWords):
		return "error page"
	case p.Words < placeholderWords && innerLinks(p) < ownLinks && promises(a):
		return "coming soon"
	case p.Words < soonWords && innerLinks(p) == 0 && p.Meta("description", "og:description") == "" && saysAny(a, p.Text, soonPlainly, soonEnds, soonAlone, soonOfSite, soonSays):
		return "coming soon"
	case (listing.MatchString(p.Text) || listing.MatchString(p.Title)) && !declaresOwner(p):
		return "directory listing"
	}
	return ""
}

// appTitles are titles of templates that an app keeps when its scripts have drawn it.
var appTitles = lazyregexp.New(`(?i)^(vite \+ \w+( \+ \w+)?|(vite|react|nuxt|angular|vue|svelte|sveltekit|create next|create react) app)$`)

// templateText matches what the templates themselves show.
var templateText = lazyregexp.New(`(?i)save to (test hmr|reload)|\bedit (src|app|pages)/|learn (react|next\.js|vue|angular|svelte)\b|click on the vite|count is \d|you did it!|congratulations! your app is running|welcome to your new|get started by editing`)

// drawnWords is the least number of words of an app that was drawn.
const drawnWords = 8

// drawnApp reports whether scripts have drawn more than the template of an app whose title was never changed.
func drawnApp(a Answer, title string) bool {
	return a.Drawn && appTitles.MatchString(title) && !templateText.MatchString(a.Page.Text) && a.Page.Words >= drawnWords && (len(a.Page.Headings) > 0 || len(a.Page.Images)+len(a.Page.InlineSVGs) > 0 || innerLinks(a.Page) > 0)
}

// soonWords limits the words of a page that announces itself only in its text.
const soonWords = 25

// TrivialRefresh reports whether a page only redirects with an immediate meta refresh.
func TrivialRefresh(p *page.Page) bool {
	return p.Refresh != nil && p.Refresh.Seconds <= maxRefreshSeconds && p.Words < challengeWords && !speaks(p)
}

// maxRefreshSeconds is the longest wait of a meta refresh that is followed.
const maxRefreshSeconds = 5
