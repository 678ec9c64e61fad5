package classify_test

import (
	"testing"

	"letterhead/workers/crawl/classify"
)

func TestClassify_SoftwareOfTheDomain_IsPlaceholder(t *testing.T) {
	password := `<form><input name=u><input type=password></form>`
	for name, body := range map[string]string{
		"nextcloud":                    `<title>Login – Nextcloud</title><meta property="og:site_name" content="Nextcloud"><meta name="application-name" content="Nextcloud"><link rel=icon href=/i.svg>` + password,
		"nextcloud, one word":          `<title>Nextcloud</title><meta property="og:site_name" content="Nextcloud"><noscript>This application requires JavaScript.</noscript><div id=content></div><script src=/a.js></script>`,
		"gitea":                        `<title>Gitea: Git with a cup of tea</title><meta name="author" content="Gitea - Git with a cup of tea"><meta name="description" content="Gitea (Git with a cup of tea) is a painless self-hosted Git service written in Go"><meta property="og:site_name" content="Gitea: Git with a cup of tea"><link rel=icon href=/i.svg><h1>Gitea: Git with a cup of tea</h1><a href="/explore/repos">Explore</a>`,
		"jenkins":                      `<title>Sign in [Jenkins]</title><link rel=icon href=/static/favicon.svg><h1>Sign in to Jenkins</h1>` + password,
		"grafana":                      `<title>Grafana</title><meta name="apple-mobile-web-app-capable" content="yes"><link rel=icon href=/public/img/fav32.png><div class="preloader">Loading Grafana</div><div id="reactRoot"></div><script src=/public/build/app.js></script>`,
		"phpmyadmin":                   `<title>phpMyAdmin</title><link rel=icon href=favicon.ico><h1>Welcome to phpMyAdmin</h1>` + password,
		"phpmyadmin with a version":    `<title>acme.com / localhost | phpMyAdmin 5.2.1</title>` + password,
		"cpanel":                       `<title>cPanel Login</title>` + password,
		"webmail of cpanel":            `<title>Webmail Login</title><meta name="application-name" content="cPanel">` + password,
		"plesk":                        `<title>Plesk Obsidian 18.0.50</title>` + password,
		"roundcube":                    `<title>Roundcube Webmail :: Welcome to Roundcube Webmail</title><img src=skins/elastic/images/logo.svg id=logo alt="Logo">` + password,
		"gitlab":                       `<title>Sign in · GitLab</title><meta property="og:site_name" content="GitLab"><meta name="description" content="GitLab Community Edition"><link rel=icon href=/i.png>` + password,
		"fresh wordpress":              `<title>acme.com</title><meta name=generator content="WordPress 6.6"><h1>Blog</h1><a href="/hello-world/">Hello world!</a><p>Welcome to WordPress. This is your first post. Edit or delete it, then start writing!</p><a href="/sample-page/">Sample Page</a><a href="/author/admin/">admin</a><a href="/category/uncategorized/">Uncategorized</a><a href="/feed/">Feed</a>`,
		"wordpress set-up":             `<title>WordPress &rsaquo; Installation</title><h1>Welcome</h1><p>Welcome to the famous five-minute WordPress installation process!</p><form><input name=weblog_title><input type=password></form>`,
		"laravel":                      `<title>Laravel</title><a href="https://laravel.com/docs">Documentation</a><a href="https://laracasts.com">Laracasts</a><p>Laravel has wonderful documentation.</p>`,
		"an unknown one, by link":      `<title>Login - Quorvex Desk</title>` + password + `<footer>Powered by <a href="https://www.quorvex.example/">Quorvex Desk</a></footer>`,
		"an unknown one, by generator": `<title>Quorvex | Sign in</title><meta name=generator content="Quorvex 4.1">` + password,
	} {
		t.Run(name, func(t *testing.T) { check(t, 200, "", body, "", classify.Placeholder) })
	}
	for name, c := range map[string]struct {
		body string
		want classify.Kind
	}{
		"named by its owner":                      {`<title>Login – Acme Cloud</title><meta property="og:site_name" content="Acme Cloud">` + password, classify.Gate},
		"the owner's logo":                        {`<title>Roundcube Webmail :: Welcome</title><img src=/logo.svg alt="Acme">` + password, classify.Gate},
		"owner's name in the title":               {`<title>Sign in · GitLab · Acme Works</title>` + password, classify.Gate},
		"a firm of that name":                     {`<title>Jenkins</title>` + own + words, classify.Usable},
		"a firm on another domain":                {`<title>Vesta</title><h1>Homes for sale</h1><a href="/homes">Homes</a><a href="/sell">Sell</a><a href="/agents">Agents</a><a href="/contact">Contact</a>` + words, classify.Usable},
		"signed in to by its owner":               {`<title>Sign in to Acme Works · GitLab</title>` + password, classify.Gate},
		"an app with the framework's title":       {`<title>Laravel</title><h1>Acme Instruments</h1><a href="/tools">Tools</a><a href="/shop">Shop</a>` + words, classify.Usable},
		"a site with one old post":                {`<title>Acme Plumbing</title><h1>Acme Plumbing</h1><a href="/heating">Heating</a><a href="/bathrooms">Bathrooms</a><a href="/prices">Prices</a><a href="/contact">Contact</a><p>Welcome to WordPress. This is your first post.</p>`, classify.Usable},
		"a log-in page that links to its company": {`<title>Contoso – Sign in</title>` + password + `<a href="https://contoso.example">Contoso</a>`, classify.Gate},
		"a page about it":                         {`<title>Nextcloud hosting by Acme</title>` + own + words, classify.Usable},
		"a link to a partner":                     {`<title>Acme – log in</title>` + password + `<a href="https://quorvex.example">Quorvex</a>`, classify.Gate},
	} {
		t.Run(name, func(t *testing.T) { check(t, 200, "", c.body, "", c.want) })
	}
}

// A vendor of a program, or a firm that is called like one, is the brand of its domain.
func TestClassify_SoftwareOnItsOwnDomain_IsUsable(t *testing.T) {
	page := func(name string) string {
		return `<title>` + name + `</title><link rel=icon href=/f.png><h1>` + name + `</h1><p>We make good things for people who like them.</p><a href="/about">About</a><a href="/shop">Shop</a><a href="/team">Team</a><a href="/contact">Contact</a>`
	}
	for domain, name := range map[string]string{
		"grafana.com": "Grafana", "gitlab.com": "GitLab", "plex.tv": "Plex", "outlook.com": "Outlook", "element.io": "Synapse is running",
		"vesta.com": "Vesta", "airflow.com": "Airflow", "jenkins-joinery.com": "Jenkins", "guacamole-berlin.de": "Guacamole", "theexchange.co.uk": "Exchange",
	} {
		t.Run(domain, func(t *testing.T) { checkAt(t, domain, page(name), classify.Usable) })
	}
	for domain, name := range map[string]string{"cloud-acme.com": "Nextcloud", "metrics-acme.com": "Grafana"} {
		t.Run(domain, func(t *testing.T) { checkAt(t, domain, page(name), classify.Placeholder) })
	}
}

func TestClassify_WallWithStatus200_IsBlocked(t *testing.T) {
	for name, body := range map[string]string{
		"a cookie and a reload":   `<html><head><title>acme.com</title></head><body><script>var a=1;document.cookie="__t="+a+";path=/";location.reload();</script></body></html>`,
		"a cookie and a form":     `<html><head><title>www.acme.com</title></head><body><form id=f method=post></form><script>document.cookie="h=1";document.getElementById("f").submit()</script></body></html>`,
		"asks for scripts":        `<html><head><title>acme.com</title></head><body><p>Please enable JS and disable any ad blocker</p><script src="/7f3a9c/main.js"></script></body></html>`,
		"asks without scripts on": `<html><head><title></title></head><body><noscript>Please enable JavaScript to view the page content.</noscript><script src="/b1/x.js"></script></body></html>`,
		"kasada":                  `<html><head></head><body><script>window.KPSDK={};KPSDK.now=Date.now;KPSDK.start=KPSDK.now()</script><script src="/149e9513-01fa-4fb0-aad4-566afd725d1b/2d206a39-8ed7-437e-a3be-862e0f06eea3/ips.js"></script></body></html>`,
		"bunkerweb":               `<html><head><title>Bot Detection</title></head><body><h1>Bot Detection</h1><p>Please wait while we check if you are a human.</p></body></html>`,
		"siteground":              `<html><head><meta http-equiv="refresh" content="0;/.well-known/sgcaptcha/?r=%2F&y=ipc:1"></head></html>`,
		"f5":                      `<html><head><title>acme.com</title><script>window["bobcmd"]="111";</script><script src="/TSPD/08?type=7"></script></head><body></body></html>`,
		"imperva":                 `<html><head><noscript><title>Pardon Our Interruption</title></noscript><script>window.onProtectionInitialized=function(){}</script></head><body><div class="container"></div></body></html>`,
	} {
		t.Run(name, func(t *testing.T) { check(t, 200, "", body, "", classify.Blocked) })
	}
	for name, body := range map[string]string{
		"an app":                       `<title>acme.com</title><noscript>You need to enable JavaScript to run this app.</noscript><div id="root"></div><script src="/static/js/main.js"></script>`,
		"an app that stores its theme": `<title>acme.com</title><link rel=icon href=/i.svg><div id="app"></div><script>document.cookie="theme=1";if(x){location.reload()}</script>`,
	} {
		t.Run(name, func(t *testing.T) { check(t, 200, "", body, "", classify.Shell) })
	}
	check(t, 406, "", "<title>Sorry</title>", "", classify.Blocked)
	check(t, 404, "", "<title>Sorry</title>", "", classify.Missing)
}
