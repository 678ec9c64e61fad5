package classify_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"letterhead/internal/testmust"
	"letterhead/workers/crawl/classify"
	"letterhead/workers/crawl/page"
	"letterhead/workers/crawl/site"
)

// own is typical content of a real page.
const own = `<meta property="og:site_name" content="Acme"><nav><a href="/a">A</a><a href="/b">B</a><a href="/c">C</a><a href="/d">D</a></nav>`

var words = "<p>" + strings.Repeat("We make careful instruments for curious people. ", 40) + "</p>"

func TestClassify_Response_DecidesKind(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		header string // "Name: value"
		body   string
		at     string // final URL
		want   classify.Kind
	}{
		"good":                              {200, "", "<title>Acme</title>" + own + words, "", classify.Usable},
		"good and short":                    {200, "", "<title>Acme</title><h1>Acme</h1>", "", classify.Usable},
		"app shell":                         {200, "", `<title>Acme</title><div id="root"></div><script src="/app.js"></script>`, "", classify.Shell},
		"good, loads recaptcha":             {200, "", "<title>Acme</title>" + own + words + `<script src="https://www.google.com/recaptcha/api.js"></script><div class="g-recaptcha"></div>`, "", classify.Usable},
		"good and short, loads recaptcha":   {200, "", `<title>Acme</title><h1>Acme</h1><p>Call us.</p><script src="https://www.google.com/recaptcha/api.js"></script>`, "", classify.Usable},
		"good, sets a bot cookie":           {200, "Set-Cookie: _abck=1", "<title>Acme</title>" + own, "", classify.Usable},
		"good, cloudflare beacon":           {200, "Server: cloudflare", "<title>Acme</title>" + own + `<script src="/cdn-cgi/challenge-platform/scripts/jsd/main.js"></script>`, "", classify.Usable},
		"good, says captcha":                {200, "", "<title>Acme Captcha</title>" + own + words + "<p>Complete the CAPTCHA to prove you are not a robot.</p>", "", classify.Usable},
		"cookie wall only":                  {200, "", `<title>Acme</title><div id="onetrust-consent">We use cookies</div>`, "", classify.Usable},
		"login page":                        {200, "", `<title>Sign in - Acme</title><form><input type=password></form>`, "", classify.Gate},
		"403":                               {403, "", "<title>Acme</title>" + own, "", classify.Blocked},
		"401":                               {401, "", "", "", classify.Blocked},
		"451":                               {451, "", "", "", classify.Blocked},
		"999":                               {999, "", "", "", classify.Blocked},
		"429":                               {429, "", "", "", classify.Limited},
		"429 with challenge":                {429, "Cf-Mitigated: challenge", "", "", classify.Blocked},
		"cloudflare header on 200":          {200, "cf-mitigated: challenge", own, "", classify.Blocked},
		"vercel header":                     {429, "X-Vercel-Mitigated: challenge", "", "", classify.Blocked},
		"aws waf 202":                       {202, "X-Amzn-Waf-Action: challenge", "", "", classify.Blocked},
		"cloudflare 503":                    {503, "", `<title>Just a moment...</title><script>window._cf_chl_opt={}</script>`, "", classify.Blocked},
		"akamai":                            {400, "", `<title>Access Denied</title><h1>Access Denied</h1>You don't have permission. Reference #18.2f`, "", classify.Blocked},
		"akamai with 200":                   {200, "", `<h1>Access Denied</h1><p>You don't have permission to access this server.<p>Reference #18.2f`, "", classify.Blocked},
		"cloudfront":                        {504, "", `<title>ERROR: The request could not be satisfied</title>`, "", classify.Blocked},
		"datadome":                          {200, "", `<title>acme.com</title><script>var dd={'cid':'x'}</script><script src="https://ct.captcha-delivery.com/c.js"></script>`, "", classify.Blocked},
		"perimeterx":                        {200, "", `<title>Access to this page has been denied</title><div id="px-captcha"></div>`, "", classify.Blocked},
		"imperva":                           {200, "", `<iframe src="/_Incapsula_Resource?x=1"></iframe>Request unsuccessful. Incapsula incident ID: 1`, "", classify.Blocked},
		"anubis":                            {200, "", `<title>Making sure you're not a bot!</title><script id="anubis_challenge" type="application/json">{}</script>`, "", classify.Blocked},
		"vercel checkpoint":                 {200, "", `<title>Vercel Security Checkpoint</title>`, "", classify.Blocked},
		"captcha page":                      {200, "", `<title>Are you a human?</title><h1>Please verify you are a human</h1><p>Complete the CAPTCHA to continue.</p>`, "", classify.Blocked},
		"500":                               {500, "", "<title>Internal Server Error</title>", "", classify.Failed},
		"503":                               {503, "", "<title>Service Unavailable</title>", "", classify.Failed},
		"404":                               {404, "", "<title>Acme</title>" + own, "", classify.Missing},
		"410":                               {410, "", "", "", classify.Missing},
		"redirect without a place":          {302, "", "", "", classify.Missing},
		"empty":                             {200, "", "", "", classify.Missing},
		"json":                              {200, "Content-Type: application/json", `{"a":1}`, "", classify.Missing},
		"image":                             {200, "Content-Type: image/png", "\x89PNG", "", classify.Missing},
		"plain text":                        {200, "Content-Type: text/plain", "hello", "", classify.Missing},
		"html called text":                  {200, "Content-Type: text/plain", "<title>Acme</title>" + own, "", classify.Usable},
		"xhtml":                             {200, "Content-Type: application/xhtml+xml", "<title>Acme</title>", "", classify.Usable},
		"sedo":                              {200, "", `<title>acme.com</title><script src="https://img.sedoparking.com/templates/x.js"></script>`, "", classify.Parked},
		"godaddy lander":                    {200, "", `<title>acme.com</title><script src="https://img1.wsimg.com/parking-lander/static/js/main.js"></script>`, "", classify.Parked},
		"offer in title":                    {200, "", `<title>acme.com is for sale | HugeDomains</title>`, "", classify.Parked},
		"offer in title, domain for sale":   {200, "", `<title>acme.com - This domain is for sale</title>`, "", classify.Parked},
		"offer in text":                     {200, "", `<title>acme.com</title><p>acme.com</p><p>This domain has been registered. Buy this domain.</p>`, "", classify.Parked},
		"offer in heading":                  {200, "", `<title>Great name</title><h1>This domain name is for sale</h1>`, "", classify.Parked},
		"offer in German":                   {200, "", `<title>acme.com steht zum Verkauf</title><h1>Diese Domain steht zum Verkauf</h1>`, "", classify.Parked},
		"parked for free":                   {200, "", `<title>acme.com</title><h1>This Web page is parked free, courtesy of a registrar</h1>`, "", classify.Parked},
		"redirect to a market":              {200, "", `<title>Acme</title>` + own + words, "https://www.hugedomains.com/domain_profile.cfm?d=acme.com", classify.Parked},
		"a firm that sells domains":         {200, "", "<title>Nameshop</title>" + own + words + "<p>Every domain for sale here: buy this domain today.</p>", "", classify.Usable},
		"a shop with a sale":                {200, "", "<title>Acme sale</title>" + own + "<h1>Everything for sale</h1>" + words, "", classify.Usable},
		"nginx":                             {200, "", "<title>Welcome to nginx!</title><h1>Welcome to nginx!</h1>", "", classify.Placeholder},
		"apache":                            {200, "", "<title>Apache2 Ubuntu Default Page: It works</title>", "", classify.Placeholder},
		"iis":                               {200, "", "<title>IIS Windows Server</title>", "", classify.Placeholder},
		"directory":                         {200, "", "<title>Index of /</title><h1>Index of /</h1>", "", classify.Placeholder},
		"it works":                          {200, "", "<title></title><h1>It works!</h1>", "", classify.Placeholder},
		"coming soon":                       {200, "", "<title>Acme - Coming Soon</title><p>We are working on it.</p>", "", classify.Placeholder},
		"under construction":                {200, "", "<title>Acme</title><h1>This site is under construction</h1>", "", classify.Placeholder},
		"404 with status 200":               {200, "", "<title>404 Not Found</title><h1>Not Found</h1>", "", classify.Placeholder},
		"no such app":                       {200, "", "<title>No such app</title>", "", classify.Placeholder},
		"a game that is coming soon":        {200, "", "<title>Acme Games</title>" + own + words + "<h2>Coming soon: Acme 2</h2>", "", classify.Usable},
		"a builder firm under construction": {200, "", "<title>Acme Construction | Under Construction Insurance</title>" + own + words, "", classify.Usable},
		"staging page":                      {200, "", `<title>Acme</title><meta name="robots" content="noindex">` + own, "", classify.Usable},
		"language chooser":                  {200, "", `<title>Acme</title><a href="/en/">English</a><a href="/de/">Deutsch</a>`, "", classify.Usable},
	} {
		t.Run(name, func(t *testing.T) {
			check(t, c.status, c.header, c.body, c.at, c.want)
		})
	}
}

// check classifies a response of acme.com.
func check(t *testing.T, status int, line, body, address string, want classify.Kind) {
	t.Helper()
	header := http.Header{"Content-Type": {"text/html; charset=utf-8"}}
	if k, v, ok := strings.Cut(line, ": "); ok {
		header.Set(k, v)
	}
	if address == "" {
		address = "https://acme.com/"
	}
	at := testmust.Get(url.Parse(address))(t)
	of := site.New("acme.com")
	p := page.Parse([]byte(body), header.Get("Content-Type"), at, of)
	got := classify.Home(classify.Answer{Status: status, Header: header, Page: p, Site: of, Bytes: len(body)})
	if got.Kind != want {
		t.Errorf("got %s (%s), want %s; %d words: %q", got.Kind, got.Sign, want, p.Words, p.Text[:min(len(p.Text), 200)])
	}
	if got.Kind != classify.Usable && got.Sign == "" {
		t.Error("the sign has no name")
	}
}
