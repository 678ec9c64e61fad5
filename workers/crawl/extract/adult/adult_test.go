package adult_test

import (
	"net/http"
	"testing"

	"letterhead/workers/crawl/extract/adult"
	"letterhead/workers/crawl/extract/extracttest"
)

func TestSign_CertainWord_IsFound(t *testing.T) {
	for name, c := range map[string]struct{ domain, body, header string }{
		"a list of ratings":        {"acme.com", `<meta name="rating" content="adult, RTA-5042-1996-1400-1577-RTA">`, ""},
		"mature":                   {"acme.com", `<meta name="Rating" content="Mature">`, ""},
		"restricted":               {"acme.com", `<meta http-equiv="rating" content="restricted">`, ""},
		"RTA under another name":   {"acme.com", `<meta name="label" content="RTA-5042-1996-1400-1577-RTA">`, ""},
		"RTA as a property":        {"acme.com", `<meta property="rating" content="rta-5042-1996-1400-1577-rta">`, ""},
		"header":                   {"acme.com", ``, "adult"},
		"badge":                    {"acme.com", `<footer><a href="https://www.rtalabel.org/?content=x"><img src="/rta.gif"></a></footer>`, ""},
		"2257 in the footer":       {"acme.com", `<footer><a href="/legal">18 U.S.C. 2257</a></footer>`, ""},
		"2257 statement":           {"acme.com", `<a href="/2257.html">2257 Compliance Statement</a>`, ""},
		"2257 in words":            {"acme.com", `<p>18 U.S.C. § 2257 Record-Keeping Requirements Compliance Statement</p>`, ""},
		"exempt from 2257":         {"acme.com", `<p>All models were over 18. 18 USC 2257 exempt.</p>`, ""},
		"ending":                   {"acme.porn", ``, ""},
		"ending, sexy":             {"acme.sexy", ``, ""},
		"two terms in the title":   {"acme.com", `<title>Free porn videos and live sex cams</title>`, ""},
		"title and description":    {"acme.com", `<title>Hot MILF movies</title><meta name="description" content="Thousands of adult videos, updated daily.">`, ""},
		"one term and an age gate": {"acme.com", `<title>Hentai Haven</title><p>You must be 18 or older to enter.</p>`, ""},
		"German":                   {"acme.de", `<title>Kostenlose Pornos und Sexfilme</title>`, ""},
		"French":                   {"acme.fr", `<title>Vidéos X gratuites - plan cul près de chez vous</title>`, ""},
		"Spanish":                  {"acme.es", `<title>Videos de sexo gratis</title><h1>Porno en español</h1>`, ""},
		"Italian":                  {"acme.it", `<title>Video porno italiani</title><meta name="description" content="Video per adulti e video di sesso">`, ""},
		"Russian":                  {"acme.ru", `<title>Порно видео онлайн</title><p>Мне есть 18 лет</p>`, ""},
		"Japanese":                 {"acme.jp", `<title>無修正アダルト動画</title><h1>エッチなポルノ</h1>`, ""},
		"domain and text":          {"bestporntube.com", `<title>Best of</title><p>Blowjob, MILF, big tits, watch now.</p>`, ""},
		"escorts":                  {"acme.com", `<title>Escort girls in town</title><meta name="description" content="Call girls, erotic massages, 18+"><p>I am over 18</p>`, ""},
		"Japanese, compounds":      {"acme.jp", `<title>無料エロ動画とポルノサイト</title><p>18歳未満の方は入場できません</p>`, ""},
		"Korean":                   {"acme.kr", `<title>무료야동 사이트</title><p>19세 이상만 이용 가능</p>`, ""},
		"Chinese":                  {"acme.cn", `<title>色情网站，成人视频</title><p>未滿18歲請離開</p>`, ""},
		"German, two words":        {"acme.de", `<title>Huren und Nutten in deiner Nähe</title><p>Ab 18</p>`, ""},
		"slang and the mark":       {"acme.com", `<title>XXX naked girls</title>`, ""},
	} {
		in := extracttest.Read(c.domain, c.body)
		in.Header = http.Header{}
		if c.header != "" {
			in.Header["rating"] = []string{c.header}
		}
		if sign, yes := adult.Sign(in); !yes || !sign.Value || sign.Confidence < 0.5 || sign.Method == "" {
			t.Errorf("%s: not found (%+v)", name, sign)
		}
	}
}

func TestSign_InnocentWord_IsIgnored(t *testing.T) {
	for name, c := range map[string]struct{ domain, body string }{
		"Essex":                       {"essex.ac.uk", `<title>University of Essex</title><h1>Sex, gender and society: a course</h1>`},
		"Sussex and Middlesex":        {"sussexcc.co.uk", `<title>Sussex Cricket v Middlesex</title><p>18+ in the bar. Essex next week.</p>`},
		"Scunthorpe":                  {"scunthorpe-united.co.uk", `<title>Scunthorpe United</title><p>Over 18s only in the lounge.</p>`},
		"cockpit":                     {"cockpitweekly.com", `<title>Cockpit Weekly</title><meta name="description" content="Cocktails, peacocks and cockpits">`},
		"analytics":                   {"analytics.com", `<title>Analytics for analysts</title>`},
		"sexual health":               {"sh24.org.uk", `<title>Sexual health, STI tests and contraception</title><meta name="description" content="Free tests. Anal sex, oral sex, porn and what to know."><h1>Sex education for all</h1>`},
		"sexual wellbeing":            {"acme.org", `<title>Sexual wellbeing advice</title><h1>Porn, blowjobs and consent</h1><p>For those over 18</p>`},
		"lingerie":                    {"lacyness.com", `<title>Sexy lingerie, bras and nudes for every skin</title><meta name="description" content="Erotic lace, sizes XS to XXX-Large, for big boobs too.">`},
		"breast cancer charity":       {"coppaboobs.org", `<title>Check your boobs | breast cancer charity</title><meta name="description" content="Know your tits, says our charity.">`},
		"adult education":             {"adult-learning.org", `<title>Adult education for mature students</title><p>You must be 18 or older.</p>`},
		"wine":                        {"nakedvines.com", `<title>Naked wines from naked grapes</title><p>You must be at least 18 years old to enter this site.</p>`},
		"vape":                        {"cloudvape.com", `<title>Cloud Vape</title><p>Are you over 18? Enter. Adults only.</p>`},
		"casino":                      {"luckyace.com", `<title>Lucky Ace Casino</title><p>18+ only. Play responsibly. Adults only.</p>`},
		"beer":                        {"fourx.com.au", `<title>XXX Gold lager</title><p>You must be 18 years or older to enter.</p>`},
		"furniture":                   {"xxxlmoebel.de", `<title>XXXL Möbel</title><p>Ab 18 Jahren.</p>`},
		"golf":                        {"swingers.club", `<title>Swingers | crazy golf</title><p>Our clubs are over 18s only.</p>`},
		"birds":                       {"birds.org", `<title>Great tits and blue tits</title><h1>Boobies, cocks and hens</h1>`},
		"cars":                        {"oldfords.com", `<title>Ford Escorts for sale</title><p>Drivers must be over 21.</p>`},
		"rugby":                       {"rugbypost.com", `<title>Hookers and props: the front row</title>`},
		"cum laude":                   {"gradgowns.com", `<title>Gowns for cum laude graduates</title>`},
		"a pornography law":           {"lawsite.com", `<title>New law on pornography and age checks</title><p>Sites must ask whether you are over 18.</p>`},
		"help with porn addiction":    {"pornhelp.org", `<title>Quit porn: help with porn addiction</title><h1>Stop watching porn and sex videos</h1>`},
		"a filter for children":       {"pornblocker.com", `<title>Block porn on every device</title><meta name="description" content="Parental controls that block adult videos and porn sites."><p>MILF, hentai and XXX sites are blocked.</p>`},
		"about the law 2257":          {"statutes.example", `<title>United States Code</title><a href="https://law.example/uscode/text/18/2257">Section 2257 of title 18, record keeping</a><p>18 U.S.C. 2257. Congress passed it in 1988.</p>`},
		"parents read about the mark": {"parents.org", `<title>Safe internet</title><p>Look for the <a href="https://www.rtalabel.org/">label that adult sites carry</a>.</p>`},
		"general rating":              {"acme.com", `<meta name="rating" content="general"><title>Acme</title>`},
		"safe for kids":               {"acme.com", `<meta name="rating" content="safe for kids"><title>Acme</title>`},
		"a number":                    {"xxx-olympiad.org", `<title>Games of the XXX Olympiad</title><p>Films and videos. XXX Olympiad, naked girls not shown.</p>`},
		"a novel":                     {"novels.com", `<title>Fifty erotica novels</title>`},
		"to rent in Dutch":            {"wielverhuur.nl", `<title>Auto huren in Utrecht</title><p>Bestuurders zijn minimaal 18 jaar.</p>`},
		"prepaid in Spanish":          {"movilplan.es", `<title>Planes prepagos para tu móvil</title><p>Solo mayores de 18 años.</p>`},
		"a golf club":                 {"swingersgolf.com", `<title>Swingers Club | mini golf in town</title><p>Adults only after eight: over 18s.</p>`},
		"yellow in Japanese":          {"kiiro.jp", `<title>イエローの無地シャツ</title><p>18歳以上の方</p>`},
		"a maker of bags":             {"kaban.jp", `<title>フェラガモのバッグ</title><p>18歳以上の方</p>`},
		"a maker of cars":             {"kuruma.jp", `<title>フェラーリ専門店</title><p>18歳以上の方</p>`},
		"etching":                     {"kako.jp", `<title>精密エッチング加工</title><p>採用は18歳以上の方</p>`},
		"trade in Chinese":            {"maoyi.cn", `<title>进出口交易平台</title><p>用户须年满18周岁。</p>`},
		"special circumstances":       {"tese.cn", `<title>地方特色情况介绍</title><p>用户须年满18周岁。</p>`},
		"exchange of help":            {"jiuyuan.cn", `<title>国际救援交流中心</title><p>用户须年满18周岁。</p>`},
		"noodles":                     {"men.jp", `<title>カップヌードルとエスニック</title><p>18歳以上の方</p>`},
		"trends of a field in Korean": {"donghyang.kr", `<title>기술분야동향 보고서</title><p>19세 이상</p>`},
		"courses for grown-ups":       {"kouza.jp", `<title>成人向け英会話講座</title><p>18歳以上の方</p>`},
		"sex and the city":            {"telly.com", `<title>Sex and the City, Sex Education, Naked Attraction: what to watch</title>`},
	} {
		in := extracttest.Read(c.domain, c.body)
		if sign, yes := adult.Sign(in); yes {
			t.Errorf("%s: false alarm by %s", name, sign.Method)
		}
	}
}

func TestSign_Page_AdultOrNot(t *testing.T) {
	for name, c := range map[string]struct {
		domain, body, header string
		want                 bool
	}{
		"rating":          {"acme.com", `<meta name="rating" content="adult">`, "", true},
		"RTA":             {"acme.com", `<meta name="RATING" content="RTA-5042-1996-1400-1577-RTA">`, "", true},
		"header":          {"acme.com", ``, "RTA-5042-1996-1400-1577-RTA", true},
		"ending":          {"acme.xxx", ``, "", true},
		"general":         {"acme.com", `<meta name="rating" content="general">`, "", false},
		"Essex":           {"essex.ac.uk", `<title>University of Essex</title><p>sex education</p>`, "", false},
		"Scunthorpe":      {"scunthorpe.co.uk", `<title>Scunthorpe</title>`, "", false},
		"lingerie":        {"lingerie.com", `<title>Lingerie</title><meta name="description" content="Sexy lingerie">`, "", false},
		"adult education": {"adult-education.org", `<title>Adult education</title>`, "", false},
	} {
		in := extracttest.Read(c.domain, c.body)
		in.Header = http.Header{}
		if c.header != "" {
			in.Header.Set("Rating", c.header)
		}
		if sign, got := adult.Sign(in); got != c.want || got != (sign.Method != "") || got != (sign.Confidence > 0) {
			t.Errorf("%s: %t by %q, want %t", name, got, sign.Method, c.want)
		}
	}
}
