package classify_test

import (
	"testing"

	"letterhead/workers/crawl/classify"
)

// parked are imitations of pages of parking services, markets and registrars.
var parked = map[string]string{
	"sedo":                      `<html><head><title>acme.com - acme Resources and Information.</title><meta name="description" content="acme.com is your first and best source for all of the information you’re looking for."></head><body><script src="https://img.sedoparking.com/templates/bg/arrows.js"></script><div id="sedo_footer">The domain may be for sale. Buy this domain</div><h2>Related Searches</h2></body></html>`,
	"adsense for domains":       `<html><head><title>acme.com</title></head><body><div id="rs"></div><script src="https://www.google.com/adsense/domains/caf.js?abp=1"></script></body></html>`,
	"key for ad blockers":       `<!doctype html><html data-adblockkey="MFwwDQYJKoZIhvcNAQEBBQADSwAwSAJBANDrp2lz7AOmADaN8tA50LsWcjLFyQFcb" lang="en" style="background:#2B2B2B;"><head><meta charset="utf-8"><title>acme.com</title></head><body><div id="target" style="opacity: 0"></div><script>window.park = "eyJ1dWlk";</script><script src="/bXkqPuYrE.js"></script></body></html>`,
	"godaddy lander":            `<!DOCTYPE html><html><head><script>window.onload=function(){window.location.href="/lander"}</script></head></html>`,
	"godaddy parked":            `<html><head><title>acme.com</title></head><body><h1>acme.com</h1><p>This Web page is parked for FREE, courtesy of GoDaddy.com.</p><a href="https://www.godaddy.com/">Search for domains</a></body></html>`,
	"afternic":                  `<html><head><title>acme.com</title></head><body><h1>acme.com is for sale</h1><p>Get a price in less than 24 hours. Fill out the form below. One of our domain experts will have a price to you within 24 business hours.</p><form><input name=name><input name=email></form></body></html>`,
	"dan":                       `<html><head><title>The domain name acme.com is for sale | Dan.com</title><meta property="og:title" content="The domain name acme.com is for sale"><meta property="og:image" content="https://cdn2.dan.com/x.png"><meta property="og:site_name" content="Dan.com"></head><body><h1>acme.com</h1><p>This domain is for sale: $4,995. Buy now. Lease to own.</p></body></html>`,
	"bodis":                     `<html><head><title>acme.com</title></head><body><iframe src="https://www.bodis.com/x"></iframe><script src="https://www.bodis.com/js/a.js"></script></body></html>`,
	"namecheap":                 `<html><head><title>Registrant WHOIS contact information verification | Namecheap.com</title></head><body><h1>acme.com</h1><p>acme.com was registered at Namecheap. Newly registered with Namecheap: this domain was recently registered at Namecheap. Please check back later!</p></body></html>`,
	"hugedomains redirect text": `<html><head><title>AcmeStore.com is for sale | HugeDomains</title></head><body><h1>acme.com is for sale</h1></body></html>`,
	"porkbun":                   `<html><head><title>acme.com | parked domain</title></head><body><h1>acme.com</h1><p>This domain is parked. A brand new domain!</p></body></html>`,
	"hostinger":                 `<html><head><title>Parked Domain name on Hostinger DNS system</title></head><body><h1>Parked Domain</h1><p>This domain is parked at Hostinger. Buy website hosting now.</p></body></html>`,
	"ionos in German":           `<html><head><title>acme.com</title></head><body><h1>Diese Domain ist bereits registriert.</h1><p>Diese Domain wurde erfolgreich eingerichtet.</p></body></html>`,
	"sedo in German":            `<html lang="de"><head><title>acme.com steht zum Verkauf</title></head><body><p>Der Inhaber bietet die Domain zum Kauf an.</p></body></html>`,
	"French registrar":          `<html lang="fr"><head><title>acme.com</title></head><body><h1>Ce domaine est réservé</h1><p>acme.com a été enregistré par un de nos clients.</p></body></html>`,
	"Spanish":                   `<html><head><title>acme.com</title></head><body><h1>Este dominio está aparcado</h1></body></html>`,
	"Italian":                   `<html><head><title>Dominio in vendita</title></head><body><h1>acme.com</h1></body></html>`,
	"Portuguese":                `<html><head><title>acme.com</title></head><body><h1>Este domínio está à venda</h1></body></html>`,
	"Dutch":                     `<html><head><title>Domeinnaam te koop: acme.com</title></head><body><h1>Deze domeinnaam is te koop</h1></body></html>`,
	"Swedish":                   `<html><head><title>acme.com</title></head><body><h1>Domänen är parkerad</h1><p>acme.com är registrerad hos oss.</p></body></html>`,
	"Polish":                    `<html><head><title>acme.com</title></head><body><h1>Domena na sprzedaż</h1></body></html>`,
	"Russian":                   `<html><head><title>acme.com</title></head><body><h1>Домен acme.com продаётся</h1><p>Домен acme.com продаётся. Узнать цену</p></body></html>`,
	"Japanese":                  `<html><head><title>acme.com</title></head><body><p>このドメインはお名前.comで取得されています。</p></body></html>`,
	"Chinese":                   `<html><head><title>acme.com域名出售</title></head><body><p>此域名正在出售</p></body></html>`,
	"expired":                   `<html><head><title>acme.com</title></head><body><h1>This domain has expired</h1><p>If you are the owner, renew it now.</p></body></html>`,
	"wix without a site":        `<html><head><title>acme.com</title></head><body><h1>Looks Like This Domain Isn't Connected To A Website Yet!</h1></body></html>`,
	"offer with own image":      `<html><head><title>acme.com – domain for sale</title><meta property="og:image" content="https://acme.com/x.png"></head><body><p>Make an offer on this domain.</p></body></html>`,
}

func TestClassify_ParkedPage_IsParked(t *testing.T) {
	for name, body := range parked {
		t.Run(name, func(t *testing.T) { check(t, 200, "", body, "", classify.Parked) })
	}
}

// placeholders are pages that are not set up.
var placeholders = map[string]string{
	"nginx":               `<!DOCTYPE html><html><head><title>Welcome to nginx!</title><style>html { color-scheme: light dark; }</style></head><body><h1>Welcome to nginx!</h1><p>If you see this page, the nginx web server is successfully installed and working. Further configuration is required.</p><p>For online documentation and support please refer to <a href="http://nginx.org/">nginx.org</a>.</p><p><em>Thank you for using nginx.</em></p></body></html>`,
	"apache it works":     `<html><body><h1>It works!</h1></body></html>`,
	"apache debian":       `<html><head><title>Apache2 Debian Default Page: It works</title></head><body><div class="main_page"><div class="page_header"><img src="/icons/openlogo-75.png" alt="Debian Logo"/><span>Apache2 Debian Default Page</span></div><p>This is the default welcome page used to test the correct operation of the Apache2 server after installation on Debian systems. If you can read this page, it means that the Apache HTTP server installed at this site is working properly.</p><a href="#about">About</a></div></body></html>`,
	"apache centos":       `<html><head><title>Apache HTTP Server Test Page powered by CentOS</title></head><body><h1>Testing 123..</h1><p>This page is used to test the proper operation of the Apache HTTP server after it has been installed.</p></body></html>`,
	"iis":                 `<html><head><title>IIS Windows Server</title></head><body><div id="container"><a href="http://go.microsoft.com/fwlink/?linkid=66138"><img src="iisstart.png" alt="IIS"></a></div></body></html>`,
	"iis 7":               `<html><head><title>IIS7</title></head><body><img src="welcome.png"></body></html>`,
	"plesk":               `<html><head><title>Web Server's Default Page</title></head><body><h1>Web Server's Default Page</h1><p>This page is generated by Plesk, the leading hosting automation software. You see this page because there is no Web site at this address.</p></body></html>`,
	"plesk domain":        `<html><head><title>Domain Default page</title></head><body><h1>Default Page</h1></body></html>`,
	"cpanel":              `<html><head><title>Default Web Site Page</title></head><body><h1>SORRY!</h1><p>If you are the owner of this website, please contact your hosting provider: webmaster@acme.com</p></body></html>`,
	"caddy":               `<html><head><title>Caddy works!</title></head><body><h1>Congratulations!</h1><p>Your web server is working. Now make it work for you.</p></body></html>`,
	"tomcat":              `<html><head><title>Apache Tomcat/9.0.50</title></head><body><h2>If you're seeing this, you've successfully installed Tomcat. Congratulations!</h2></body></html>`,
	"index of":            `<html><head><title>Index of /</title></head><body><h1>Index of /</h1><pre><a href="?C=N;O=D">Name</a> <a href="a/">a/</a> <a href="b/">b/</a> <a href="c/">c/</a> <a href="d/">d/</a> <a href="e/">e/</a></pre></body></html>`,
	"listing of python":   `<html><head><title>Directory listing for /</title></head><body><h1>Directory listing for /</h1><ul><li><a href="a">a</a></ul></body></html>`,
	"lighttpd":            `<html><head><title>lighttpd default page</title></head><body><h1>Placeholder page</h1></body></html>`,
	"openresty":           `<html><head><title>Welcome to OpenResty!</title></head><body><h1>Welcome to OpenResty!</h1></body></html>`,
	"hestia":              `<html><head><title>Success! Your new web server is ready to use.</title></head><body><h1>Success! Your virtual host is working</h1><p>This is the default index page.</p></body></html>`,
	"baota":               `<html><head><title>恭喜，站点创建成功！</title></head><body><h1>恭喜, 站点创建成功！</h1></body></html>`,
	"suspended":           `<html><head><title>Account Suspended</title></head><body><h1>Account Suspended</h1><p>This Account has been suspended. Contact your hosting provider for more information.</p></body></html>`,
	"expired website":     `<html><head><title>Website Expired</title></head><body><h1>Website Expired</h1><p>This account has expired.</p></body></html>`,
	"coming soon":         `<html><head><title>Acme</title></head><body><h1>Coming Soon</h1><p>Our new website is on its way. Follow us!</p></body></html>`,
	"maintenance":         `<html><head><title>Site under maintenance</title></head><body><h1>We'll be back soon!</h1><p>Sorry for the inconvenience but we're performing some maintenance at the moment.</p></body></html>`,
	"German soon":         `<html><head><title>Acme GmbH</title></head><body><h1>Hier entsteht eine neue Internetpräsenz</h1></body></html>`,
	"German maintenance":  `<html><head><title>Wartungsarbeiten</title></head><body><p>Wir sind bald wieder da.</p></body></html>`,
	"French soon":         `<html><head><title>Acme</title></head><body><h1>Site en construction</h1></body></html>`,
	"Spanish soon":        `<html><head><title>Acme</title></head><body><h1>Próximamente</h1></body></html>`,
	"Italian soon":        `<html><head><title>Sito in costruzione</title></head><body></body></html>`,
	"Portuguese soon":     `<html><head><title>Em breve</title></head><body><p>Novo site.</p></body></html>`,
	"Dutch soon":          `<html><head><title>Binnenkort online</title></head><body></body></html>`,
	"Polish soon":         `<html><head><title>Strona w budowie</title></head><body></body></html>`,
	"Russian soon":        `<html><head><title>Acme</title></head><body><h1>Сайт находится в разработке</h1></body></html>`,
	"Japanese soon":       `<html><head><title>Acme</title></head><body><h1>ただいま準備中です</h1></body></html>`,
	"Chinese maintenance": `<html><head><title>网站维护中</title></head><body></body></html>`,
	"create next app":     `<html><head><title>Create Next App</title><meta name="description" content="Generated by create next app"></head><body><main><p>Get started by editing src/app/page.tsx</p></main><script src="/_next/static/chunks/main.js"></script></body></html>`,
	"vite":                `<html><head><title>Vite + React</title></head><body><div id="root"></div><script type="module" src="/assets/index.js"></script></body></html>`,
	"hello world":         `<html><body><h1>Hello World!</h1></body></html>`,
	"404 with 200":        `<html><head><title>Page not found</title></head><body><h1>404</h1></body></html>`,
	"database error":      `<html><head><title>Database Error</title></head><body><h1>Error establishing a database connection</h1></body></html>`,
	"github without page": `<html><head><title>Site not found · GitHub Pages</title></head><body><h1>404</h1><p>There isn't a GitHub Pages site here.</p></body></html>`,
}

func TestClassify_UnfinishedSite_IsPlaceholder(t *testing.T) {
	for name, body := range placeholders {
		t.Run(name, func(t *testing.T) { check(t, 200, "", body, "", classify.Placeholder) })
	}
}

func TestClassify_LoginOrAgePage_IsGate(t *testing.T) {
	for name, c := range map[string]struct {
		at, body string
		want     classify.Kind
	}{
		"log-in by redirect":     {"https://app.acme.com/login?next=/", `<title>Acme</title><meta property="og:site_name" content="Acme"><form><input name=email></form>`, classify.Gate},
		"log-in with a password": {"", `<title>Log in | Acme</title><link rel=icon href=/i.svg><form><input type=password></form>`, classify.Gate},
		"log-in in German":       {"", `<title>Anmelden - Acme Portal</title><form><input type=text><input type=password></form>`, classify.Gate},
		"log-in in Japanese":     {"", `<title>ログイン | アクメ</title><form><input type=text></form>`, classify.Gate},
		"log-in with recaptcha":  {"", `<title>Acme</title><form><input type=password></form><script src="https://www.google.com/recaptcha/api.js"></script>`, classify.Gate},
		"age":                    {"", `<title>Acme Brewery</title><meta property="og:image" content="/a.jpg"><h1>Are you 21 or older?</h1><a href="/yes">Yes</a><a href="/no">No</a>`, classify.Gate},
		"age in French":          {"", `<title>Château Acme</title><p>Avez-vous l'âge légal pour consommer de l'alcool ?</p>`, classify.Gate},
		"age in German":          {"", `<title>Acme Gin</title><h2>Bist du über 18 Jahre alt?</h2><button>Ja</button>`, classify.Gate},
		"date of birth":          {"", `<title>Acme Whisky</title><p>Please enter your date of birth to continue.</p><select><option>1</select>`, classify.Gate},
		"react":                  {"", `<title>Acme</title><meta name=description content="Tools"><noscript>You need to enable JavaScript to run this app.</noscript><div id="root"></div><script src="/static/js/main.js"></script>`, classify.Shell},
		"angular":                {"", `<title>Acme</title><base href="/"><app-root></app-root><script src="runtime.js" type="module"></script><script src="main.js" type="module"></script>`, classify.Shell},
		"vue, loading":           {"", `<title>Acme</title><div id="app"><div class="spinner">Loading…</div></div><script src="/js/app.js"></script>`, classify.Shell},
		"flutter":                {"", `<title>acme</title><link rel="manifest" href="manifest.json"><body><script src="flutter_bootstrap.js" async></script></body>`, classify.Shell},
	} {
		t.Run(name, func(t *testing.T) { check(t, 200, "", c.body, c.at, c.want) })
	}
}
