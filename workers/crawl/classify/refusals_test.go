package classify_test

import (
	"testing"

	"letterhead/workers/crawl/classify"
)

// refusals are imitations of pages of bot walls, with status 200 by default.
var refusals = map[string]struct {
	status int
	header string
	body   string
}{
	"cloudflare managed challenge": {200, "", `<!DOCTYPE html><html lang="en-US"><head><title>Just a moment...</title><meta http-equiv="Content-Type" content="text/html; charset=UTF-8"><meta name="robots" content="noindex,nofollow"><meta http-equiv="refresh" content="390"></head><body><div class="main-wrapper" role="main"><div class="main-content"><noscript><div class="h2"><span id="challenge-error-text">Enable JavaScript and cookies to continue</span></div></noscript></div></div><script>(function(){window._cf_chl_opt={cvId:'3',cZone:"acme.com",cType:'managed'};var a=document.createElement('script');a.src='/cdn-cgi/challenge-platform/h/b/orchestrate/chl_page/v1?ray=1';document.getElementsByTagName('head')[0].appendChild(a);}());</script></body></html>`},
	"cloudflare in German":         {200, "", `<html lang="de"><head><title>Nur einen Moment…</title></head><body><script>window._cf_chl_opt={cType:'interactive'}</script></body></html>`},
	"cloudflare old iuam":          {503, "", `<html><head><title>Just a moment...</title></head><body><div id="cf-content"><h1><span data-translate="checking_browser">Checking your browser before accessing</span> acme.com.</h1><p>This process is automatic. Your browser will redirect to your requested content shortly.</p></div></body></html>`},
	"cloudflare block with 200":    {200, "", `<html><head><title>Attention Required! | Cloudflare</title></head><body><div id="cf-wrapper"><h1>Sorry, you have been blocked</h1><h2>You are unable to access acme.com</h2><h2>Why have I been blocked?</h2><p>This website is using a security service to protect itself from online attacks. The action you just performed triggered the security solution. There are several actions that could trigger this block including submitting a certain word or phrase, a SQL command or malformed data.</p><h2>What can I do to resolve this?</h2><p>You can email the site owner to let them know you were blocked. Please include what you were doing when this page came up and the Cloudflare Ray ID found at the bottom of this page.</p></div></body></html>`},
	"cloudflare turnstile page":    {200, "", `<html><head><title>acme.com</title><script src="https://challenges.cloudflare.com/turnstile/v0/api.js" async></script></head><body><form><div class="cf-turnstile"></div></form></body></html>`},
	"datadome interstitial":        {403, "X-Datadome: protected", `<html lang="en"><head><title>acme.com</title><style>#cmsg{animation: A 1.5s;}</style></head><body style="margin:0"><p id="cmsg">Please enable JS and disable any ad blocker</p><script data-cfasync="false">var dd={'rt':'i','cid':'AHr','hsh':'F4','b':1,'s':17434,'host':'geo.captcha-delivery.com'}</script><script data-cfasync="false" src="https://ct.captcha-delivery.com/i.js"></script></body></html>`},
	"datadome with 200":            {200, "", `<html><head><title>acme.com</title></head><body><p id="cmsg">Please enable JS and disable any ad blocker</p><script>var dd = {'cid':'A','host':'geo.captcha-delivery.com'}</script><script src="https://ct.captcha-delivery.com/c.js"></script></body></html>`},
	"perimeterx":                   {200, "", `<!DOCTYPE html><html lang="en"><head><title>Access to this page has been denied</title><meta name="description" content="px-captcha"></head><body><section class="container"><h1>Before we continue...</h1><p>Press &amp; Hold to confirm you are<br>a human (and not a bot).</p><div id="px-captcha"></div></section><script>window._pxVid='';window._pxUuid='1';window._pxAppId='PX1';window._pxHostUrl='/1/xhr';</script></body></html>`},
	"imperva frame":                {200, "", `<html style="height:100%"><head><META NAME="ROBOTS" CONTENT="NOINDEX, NOFOLLOW"><meta name="viewport" content="initial-scale=1.0"></head><body style="margin:0px;height:100%"><iframe id="main-iframe" src="/_Incapsula_Resource?CWUDNSAI=9&xinfo=1-2-0&incident_id=3&edet=12&rpinfo=0" frameborder=0 width="100%">Request unsuccessful. Incapsula incident ID: 1-2</iframe></body></html>`},
	"imperva script only":          {200, "", `<html><head><title></title><script src="/_Incapsula_Resource?SWJIYLWA=719d34d31c8e3a6e6fffd425f7e032f3"></script></head><body></body></html>`},
	"akamai denied":                {403, "Server: AkamaiGHost", `<HTML><HEAD><TITLE>Access Denied</TITLE></HEAD><BODY><H1>Access Denied</H1>You don't have permission to access "http&#58;&#47;&#47;www&#46;acme&#46;com&#47;" on this server.<P>Reference&#32;&#35;18&#46;2f</BODY></HTML>`},
	"akamai bot manager check":     {200, "", `<html><head><title>&nbsp;</title></head><body><div id="sec-if-cpt-container"></div><div id="sec-text-if">Powered and protected by Akamai</div><script src="/_sec/cp_challenge/sec-4-4.js"></script></body></html>`},
	"akamai verify":                {200, "", `<html><head><meta http-equiv="refresh" content="5; URL='/?bm-verify=AAQ'"></head><body><script>var i=1;var j=i+Number("1"+"2");xhr.send(JSON.stringify({"bm-verify":"AAQ","pow":j}));</script></body></html>`},
	"aws waf 202":                  {202, "X-Amzn-Waf-Action: challenge", ``},
	"aws waf page":                 {405, "", `<html><head><title>Human Verification</title></head><body><script>window.awsWafCookieDomainList=[];window.gokuProps={"key":"AQ","iv":"E","context":"q"}</script><script src="https://1.eu-west-1.token.awswaf.com/1/challenge.js"></script><div id="captcha-container"></div></body></html>`},
	"aws waf without its header":   {202, "", `<!DOCTYPE html><html lang="en"><head><title></title><script>window.gokuProps={"key":"AQ"};</script></head><body><div id="challenge-container"></div><script>AwsWafIntegration.saveReferrer();AwsWafIntegration.checkForceRefresh().then((f)=>{})</script><noscript><h1>JavaScript is disabled</h1>In order to continue, we need to verify that you're not a robot.</noscript></body></html>`},
	"cloudfront":                   {403, "", `<HTML><HEAD><TITLE>ERROR: The request could not be satisfied</TITLE></HEAD><BODY><H1>403 ERROR</H1><H2>The request could not be satisfied.</H2><HR>Request blocked. We can't connect to the server for this app or website at this time.<PRE>Generated by cloudfront (CloudFront)</PRE></BODY></HTML>`},
	"anubis":                       {200, "", `<!doctype html><html lang="en"><head><title>Making sure you&#39;re not a bot!</title><link rel="stylesheet" href="/.within.website/x/xess/xess.min.css"><script id="anubis_version" type="application/json">"v1.18"</script><script id="anubis_challenge" type="application/json">{"rules":{"algorithm":"fast"},"challenge":"1"}</script></head><body><main><h1 id="title">Making sure you&#39;re not a bot!</h1><img src="/.within.website/x/cmd/anubis/static/img/pensive.webp"><p id="status">Loading...</p><script async type="module" src="/.within.website/x/cmd/anubis/static/js/main.mjs"></script><details><summary>Why am I seeing this?</summary><p>You are seeing this because the administrator of this website has set up Anubis to protect the server against the scourge of AI companies aggressively scraping websites.</p></details></main></body></html>`},
	"vercel":                       {429, "X-Vercel-Mitigated: challenge", `<!DOCTYPE html><html><head><title>Vercel Security Checkpoint</title></head><body><p>We're verifying your browser</p></body></html>`},
	"sucuri block":                 {403, "", `<html><head><title>Sucuri WebSite Firewall - Access Denied</title></head><body><h1>Access Denied - Sucuri Website Firewall</h1><p>If you are the site owner (or you manage this site), please whitelist your IP or if you think this block is an error please open a support ticket.</p></body></html>`},
	"sucuri script":                {200, "", `<html><title>You are being redirected...</title><noscript>Javascript is required. Please enable javascript before you are allowed to see this page.</noscript><script>var s={},u,c,U,r,i,l=0,a,e=eval,w=String.fromCharCode,sucuri_cloudproxy_js='',S='cT0i';</script></html>`},
	"ddos-guard":                   {403, "", `<!doctype html><html><head><title>DDoS-Guard</title></head><body><h1>Checking your browser before accessing acme.com</h1></body></html>`},
	"kasada":                       {429, "Cf-Mitigated: challenge", `<html><head></head><body><script>window.KPSDK={};KPSDK.now=typeof performance!=='undefined'</script><script src="/149/ips.js"></script></body></html>`},
	"kasada with 200":              {200, "", `<html><head></head><body><script>window.KPSDK={};KPSDK.start=KPSDK.now();</script><script src="/149e9513-01fa-4fb0-aad4-566afd725d1b/ips.js?x=1"></script></body></html>`},
	"siteground captcha":           {202, "", `<html><head><link rel="icon" href="data:;"><meta http-equiv="refresh" content="0;/.well-known/sgcaptcha/?r=%2F&y=ipc:1"></head></html>`},
	"siteground header":            {202, "Sg-Captcha: challenge", ``},
	"f5":                           {200, "", `<html><head><title>Request Rejected</title></head><body>The requested URL was rejected. Please consult with your administrator.<br><br>Your support ID is: 123456<br><br><a href='javascript:history.back();'>[Go Back]</a></body></html>`},
	"f5 tspd":                      {200, "", `<html><head><meta http-equiv="Pragma" content="no-cache"><script src="/TSPD/08f1?type=8"></script></head><body><noscript>Please enable JavaScript to view the page content.<br/>Your support ID is: 1.</noscript></body></html>`},
	"distil":                       {200, "", `<html><head><title>Pardon Our Interruption</title></head><body><h1>Pardon Our Interruption...</h1><p>As you were browsing something about your browser made us think you were a bot. There are a few reasons this might happen: You've disabled JavaScript in your web browser. You're a power user moving through this website with super-human speed.</p></body></html>`},
	"radware":                      {200, "", `<html><head><title>Radware Captcha Page</title><script src="https://validate.perfdrive.com/fb803c746e9148689b3984a31fccd902/script.js"></script></head><body><h2>We apologize for the inconvenience...</h2></body></html>`},
	"wordfence":                    {503, "", `<html><head><title>Your access to this site has been limited by the site owner</title></head><body><h1>Your access to this site has been limited by the site owner</h1><p>Your access to this service has been limited. (HTTP response code 503)</p><p>Generated by Wordfence at Sat, 21 Nov 2026</p></body></html>`},
	"azure front door":             {403, "X-Azure-Ref: 1", `<html><head><title>The request is blocked</title></head><body><h2>The request is blocked.</h2></body></html>`},
	"fastly challenge":             {200, "", `<html><head><title>Client Challenge</title></head><body><noscript>JavaScript is disabled in your browser.</noscript><script src="/_fs-ch-1T1wmsGaOgGaSxcX/script.js"></script></body></html>`},
	"amazon robot check":           {200, "", `<html><head><title dir="ltr">Robot Check</title></head><body><h4>Enter the characters you see below</h4><p>Sorry, we just need to make sure you're not a robot. For best results, please make sure your browser is accepting cookies.</p><form action="/errors/validateCaptcha"><input type=text></form></body></html>`},
	"google sorry":                 {429, "Cf-Mitigated: challenge", `<html><head><title>https://acme.com/</title></head><body><form id="captcha-form"><script src="https://www.google.com/recaptcha/enterprise.js"></script></form>Our systems have detected unusual traffic from your computer network.</body></html>`},
	"recaptcha before everything":  {200, "", `<html><head><title>acme.com</title><script src="https://www.google.com/recaptcha/api.js"></script></head><body><form method="post"><div class="g-recaptcha" data-sitekey="6L"></div><button>Continue</button></form></body></html>`},
	"hcaptcha before everything":   {200, "", `<html><head><title></title><script src="https://js.hcaptcha.com/1/api.js"></script></head><body><h2>Please complete the security check to access acme.com</h2><div class="h-captcha"></div></body></html>`},
	"aliyun":                       {200, "", `<html><script>var arg1='4D';function setCookie(name,value){}var x="acw_sc__v2=";</script></html>`},
	"human verification in words":  {200, "", `<html><head><title>Verification</title></head><body><h1>Are you human?</h1><p>To protect our site, please confirm that you are human by ticking the box.</p><input type=checkbox></body></html>`},
	"French wall":                  {200, "", `<html><head><title>Vérification de sécurité</title></head><body><p>Veuillez vérifier que vous êtes humain.</p></body></html>`},
	"mod_security":                 {406, "", `<head><title>Not Acceptable!</title></head><body><h1>Not Acceptable!</h1><p>This error was generated by Mod_Security.</p></body>`},
	"smart captcha in Russian":     {200, "", `<html lang="ru"><head><title>Вы не робот?</title></head><body><h1>Подтвердите, что запросы отправляли вы, а не робот</h1><div class="SmartCaptcha"></div></body></html>`},
	"Spanish wall":                 {200, "", `<html lang="es"><head><title>Verificación</title></head><body><label><input type=checkbox> No soy un robot</label></body></html>`},
	"Chinese firewall":             {405, "", `<html><head><title>405</title></head><body>很抱歉，您的访问被阻断。</body></html>`},
	"401":                          {401, `Www-Authenticate: Basic realm="staging"`, `<h1>401 Authorization Required</h1>`},
	"linkedin":                     {999, "", `<html><head><script>window.onload=function(){}</script></head></html>`},
	"451":                          {451, "", `<html><head><title>451: Unavailable due to legal reasons</title></head><body><h1>451: Unavailable due to legal reasons</h1><p>We recognize you are attempting to access this website from a country belonging to the European Economic Area (EEA) including the EU which enforces the General Data Protection Regulation (GDPR) and therefore access cannot be granted at this time.</p></body></html>`},
	"geo block with 200":           {200, "", `<html><head><title>Acme</title><meta property="og:site_name" content="Acme"></head><body><img src="/logo.svg"><h1>Acme is not available in your country</h1><p>Due to licensing restrictions, we cannot offer our service where you are.</p></body></html>`},
	"geo block in Spanish":         {200, "", `<html><head><title>Acme</title></head><body><p>Lo sentimos, este servicio no está disponible en su país.</p></body></html>`},
	"geo block, European":          {200, "", `<html><head><title>acme.com</title></head><body><h1>We're sorry</h1><p>Our website is currently unavailable in most European countries. We are engaged on the issue and committed to looking at options that support our full range of digital offerings to your market.</p></body></html>`},
	"geo block by region":          {200, "", `<html><head><title>Access restricted</title></head><body><h1>Access from your region is restricted</h1></body></html>`},
}

func TestClassify_Refusal_IsBlocked(t *testing.T) {
	for name, c := range refusals {
		t.Run(name, func(t *testing.T) { check(t, c.status, c.header, c.body, "", classify.Blocked) })
	}
}

func TestClassify_LoginService_IsNotBrand(t *testing.T) {
	body := `<html><head><title>Sign in to your account</title><link rel="shortcut icon" href="https://aadcdn.msftauth.net/favicon.ico"></head><body><form><input type="email"><input type="password"></form></body></html>`
	check(t, 200, "", body, "https://login.microsoftonline.com/common/oauth2/authorize?client_id=1", classify.Blocked)
	check(t, 200, "", body, "https://acme.okta.com/login", classify.Blocked)
}

const shop = `<header><a href="/"><img src="/logo.svg" alt="Acme"></a><nav><a href="/tools">Tools</a><a href="/about">About</a><a href="/help">Help</a><a href="/contact">Contact</a></nav></header>`

// good are brands' own pages with elements that refusals also have.
var good = map[string]struct {
	header string
	body   string
	want   classify.Kind
}{
	"recaptcha in a form":            {"", `<title>Acme tools</title>` + shop + `<form><div class="g-recaptcha"></div></form><script src="https://www.google.com/recaptcha/api.js"></script>`, classify.Usable},
	"recaptcha, few words, icon":     {"", `<title>Acme</title><link rel=icon href=/i.png><p>Ask us anything.</p><script src="https://www.google.com/recaptcha/api.js?render=6L"></script>`, classify.Shell},
	"hcaptcha on a landing page":     {"", `<title>Acme</title><meta name=description content="Tools for curious people"><h1>Join the list</h1><form><input type=email></form><script src="https://js.hcaptcha.com/1/api.js"></script>`, classify.Usable},
	"turnstile on a contact page":    {"", `<title>Acme</title>` + shop + `<div class="cf-turnstile"></div><script src="https://challenges.cloudflare.com/turnstile/v0/api.js"></script>`, classify.Usable},
	"cloudflare detections":          {"Server: cloudflare", `<title>Acme</title>` + shop + `<script>(function(){var d=b.createElement('script');d.innerHTML="window.__CF$cv$params={r:'1'};var a=document.createElement('script');a.src='/cdn-cgi/challenge-platform/scripts/jsd/main.js';"})()</script>`, classify.Usable},
	"cloudflare detections, shell":   {"Server: cloudflare", `<title>Acme</title><link rel=icon href=/i.svg><div id=root></div><script src=/app.js></script><script src="/cdn-cgi/challenge-platform/scripts/jsd/main.js"></script>`, classify.Shell},
	"imperva in a shop":              {"X-Iinfo: 1-2", `<title>Acme</title>` + shop + `<script src="/_Incapsula_Resource?SWJIYLWA=719d34d31c8e3a6e"></script>`, classify.Usable},
	"imperva in an app":              {"X-Cdn: Imperva", `<title>Acme</title><meta name=description content="Tools"><div id=app></div><script src=/app.js></script><script src="/_Incapsula_Resource?SWJIYLWA=719d34d31c8e3a6e"></script>`, classify.Shell},
	"datadome tag":                   {"Set-Cookie: datadome=1", `<title>Acme</title>` + shop + `<script>window.ddjskey='A1';window.ddoptions={}</script><script src="https://js.datadome.co/tags.js"></script>`, classify.Usable},
	"datadome tag in an app":         {"", `<title>Acme – Tools</title><link rel="apple-touch-icon" href=/t.png><div id=app></div><script>window.ddjskey='A1'</script><script src="https://js.datadome.co/tags.js"></script>`, classify.Shell},
	"perimeterx tag":                 {"Set-Cookie: _px3=1", `<title>Acme</title>` + shop + `<script>window._pxAppId='PX1';</script><script src="https://client.px-cloud.net/PX1/main.min.js"></script>`, classify.Usable},
	"akamai cookie":                  {"Set-Cookie: _abck=1~-1~", `<title>Acme</title>` + shop, classify.Usable},
	"aws waf tag":                    {"", `<title>Acme</title>` + shop + `<script src="https://1.edge.sdk.awswaf.com/1/challenge.js" defer></script><script>AwsWafIntegration.getToken()</script>`, classify.Usable},
	"kasada tag":                     {"", `<title>Acme</title>` + shop + `<script src="/149e9513-01fa-4fb0-aad4-566afd725d1b/p.js"></script><script>window.KPSDK&&KPSDK.configure([])</script>`, classify.Usable},
	"words about captchas":           {"", `<title>Acme: the captcha that people like</title>` + shop + words + `<p>Verify you are human without a puzzle. Complete the CAPTCHA in a second.</p>`, classify.Usable},
	"a firm for bot walls":           {"", `<title>Bot Verification by Acme</title><meta property="og:site_name" content="Acme">` + shop + `<h1>Stop bots. Welcome humans.</h1>` + words, classify.Usable},
	"a security firm, short":         {"", `<title>Security Checkpoint</title><meta property="og:site_name" content="Security Checkpoint"><h1>We guard your gates</h1>` + words, classify.Usable},
	"says forbidden":                 {"", `<title>Forbidden Planet</title>` + shop + words, classify.Usable},
	"says access denied":             {"", `<title>Acme</title>` + shop + words + `<h2>Access denied? Reference # on your letter</h2>`, classify.Usable},
	"cookie wall in front":           {"", `<title>Acme</title><meta property="og:site_name" content="Acme"><div id="onetrust-banner-sdk" class="cookie-wall"><p>We value your privacy. Accept all cookies or pay.</p><button>Accept</button></div><header><img src=/logo.svg alt=Acme></header><h1>News</h1>`, classify.Usable},
	"cookie wall in the way":         {"", `<title>Acme – Nachrichten</title><meta name="description" content="Nachrichten aus aller Welt"><h1>Weiterlesen mit Werbung</h1><p>Besuchen Sie acme.com wie gewohnt mit Werbung und Tracking. Oder nutzen Sie acme.com mit dem PUR-Abo.</p><button>Akzeptieren und weiter</button>`, classify.Usable},
	"age gate over a page":           {"", `<title>Acme Brewery</title>` + shop + words + `<div class="age-gate">Are you of legal drinking age? <button>Yes</button></div>`, classify.Usable},
	"log-in form on a home page":     {"", `<title>Acme</title>` + shop + words + `<form><input type=email><input type=password></form>`, classify.Usable},
	"a bank with a log-in":           {"", `<title>Acme Bank</title><meta property="og:site_name" content="Acme Bank">` + shop + `<a href="/cards">Cards</a><a href="/loans">Loans</a><a href="/savings">Savings</a><a href="/branches">Branches</a><form><input type=password></form>`, classify.Usable},
	"shop that does not ship there":  {"", `<title>Acme</title>` + shop + words + `<p>Some products are not available in your country.</p>`, classify.Usable},
	"law firm for geo blocking":      {"", `<title>Geo-blocking law | Acme</title>` + shop + words, classify.Usable},
	"page about parking":             {"", `<title>Acme Parking – city car parks</title>` + shop + words + `<p>Your car is parked for free.</p>`, classify.Usable},
	"registrar":                      {"", `<title>Acme Domains – register a domain</title>` + shop + words + `<p>Is your domain taken? Make an offer on this domain. Domain parking is free.</p>`, classify.Usable},
	"registrar with an offer above":  {"", `<title>Buy this domain with Acme</title>` + shop + words, classify.Usable},
	"a house for sale":               {"", `<title>Villa Acme is for sale</title>` + shop + words, classify.Usable},
	"advertisement with adsense":     {"", `<title>Acme Blog</title>` + shop + words + `<script src="https://pagead2.googlesyndication.com/pagead/js/adsbygoogle.js"></script>`, classify.Usable},
	"film that is coming soon":       {"", `<title>Acme Pictures</title>` + shop + words + `<h1>Coming soon</h1>`, classify.Usable},
	"builders under construction":    {"", `<title>Acme Bau – Wir bauen</title>` + shop + words + `<h1>Im Aufbau: unser neues Quartier</h1>`, classify.Usable},
	"maintenance is what they sell":  {"", `<title>Acme site maintenance</title>` + shop + words, classify.Usable},
	"small page of one person":       {"", `<title>Ann Acme</title><h1>Ann Acme</h1><p>I build instruments.</p><a href="mailto:ann@acme.com">Write to me</a>`, classify.Usable},
	"small page with a script":       {"", `<title>Ann Acme</title><h1>Ann Acme</h1><p>I build instruments.</p><script src="/stats.js"></script>`, classify.Usable},
	"page of images":                 {"", `<title>Acme Photos</title><a href="/one"><img src=1.jpg></a><a href="/two"><img src=2.jpg></a><a href="/three"><img src=3.jpg></a><a href="/four"><img src=4.jpg></a><script src=/s.js></script>`, classify.Usable},
	"welcome to a town":              {"", `<title>Welcome to Acme</title>` + shop + words, classify.Usable},
	"nginx is what they write about": {"", `<title>Welcome to nginx! A course by Acme</title><meta property="og:site_name" content="Acme">` + shop + words, classify.Usable},
	"frames of a maps service":       {"", `<title>Acme</title>` + shop + words + `<iframe src="https://www.google.com/maps/embed?pb=1"></iframe>`, classify.Usable},
	"vite app that is filled":        {"", `<title>Acme</title><div id=root>` + shop + words + `</div><script type=module src="/assets/index.js"></script>`, classify.Usable},
	"non-latin":                      {"", `<title>株式会社アクメ</title>` + shop + `<p>` + "精密機器を作る会社です。" + `</p>`, classify.Usable},
}

func TestClassify_GoodPage_IsUsable(t *testing.T) {
	for name, c := range good {
		t.Run(name, func(t *testing.T) { check(t, 200, c.header, c.body, "", c.want) })
	}
}
