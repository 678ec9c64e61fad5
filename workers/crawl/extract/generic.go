package extract

import (
	"strings"

	"letterhead/internal/lazyregexp"
)

// genericNames are folded page names that do not identify the owner.
var genericNames = FoldedSet(
	"home", "home page", "homepage", "index", "index of", "welcome", "main", "main page", "front page", "website", "web site", "site", "untitled", "untitled document", "untitled page", "document", "page",
	"default", "default page", "start", "start page", "title", "name", "null", "undefined", "none", "false", "true", "test", "demo", "example", "object object", "n/a",
	"login", "log in", "sign in", "sign up", "register", "menu", "main menu", "header", "footer", "logo", "our logo", "site logo", "company logo", "brand", "image", "picture", "photo", "banner", "icon", "close", "open", "toggle navigation", "toggle menu", "more", "read more", "learn more", "back", "next",
	"blog", "news", "shop", "store", "online shop", "online store", "app", "web app", "my app", "my application", "react app", "vite app", "vite react", "vite react ts", "vite vue", "create react app", "create next app", "next app", "next.js", "nuxt", "nuxt app", "nuxt.js project", "vue app", "angular app", "angular", "svelte app", "sveltekit", "gatsby", "remix", "new remix app", "astro", "expo", "flutter", "ionic app", "laravel", "django", "the django project", "rails",
	"error", "oops", "404", "404 not found", "not found", "page not found", "403 forbidden", "forbidden", "access denied", "unauthorized", "401 unauthorized", "500 internal server error", "internal server error", "bad gateway", "503 service unavailable", "service unavailable", "temporarily unavailable", "site not found", "domain not found", "suspended", "account suspended", "website is under construction",
	"just a moment", "one moment", "one moment please", "please wait", "attention required", "are you a human", "are you a robot", "human verification", "security check", "security verification", "verification", "verifying your browser", "checking your browser", "ddos protection", "captcha", "robot check", "bot verification", "client challenge", "please verify you are human", "access to this page has been denied", "loading", "redirecting", "redirect", "moved permanently", "object moved", "enable javascript", "javascript is disabled", "javascript required", "unsupported browser", "cookies",
	"coming soon", "under construction", "maintenance", "under maintenance", "maintenance mode", "parked domain", "domain for sale", "this domain is for sale", "domain parking", "welcome to nginx", "apache2 ubuntu default page", "apache2 debian default page", "it works", "iis windows server", "iis windows", "test page",
	"wordpress", "my site", "my website", "my wordpress blog", "my blog", "my store", "my shop", "my shopify store", "new site", "your site", "your site title", "site title", "blog title", "just another wordpress site", "company name", "your company", "your company name", "your business", "your name", "business name", "sitename", "site name", "store name", "brand name",
	"main navigation", "navigation", "breadcrumb", "skip to content", "skip to main content", "skip navigation", "search", "contact", "contact us", "about", "about us", "products", "services", "our services", "official", "official site", "official website", "english", "deutsch", "français", "español", "overview", "dashboard", "landing page", "landing", "discover", "explore", "article", "articles", "post", "story", "podcast", "episode", "video", "videos", "profile", "topic", "category", "archive", "newsletter", "subscribe", "press release", "press releases",
	// German, Dutch, Scandinavian
	"startseite", "willkommen", "herzlich willkommen", "hauptseite", "übersicht", "aktuelles", "nachrichten", "kontakt", "über uns", "impressum", "anmelden", "zur startseite", "onlineshop", "offizielle website", "offizielle seite", "seite nicht gefunden", "welkom", "startpagina", "homepagina", "voorpagina", "thuis", "hjem", "forside", "forsiden", "hem", "startsida", "välkommen", "velkommen", "etusivu", "tervetuloa", "heim", "forsíða",
	// Romance
	"accueil", "page d'accueil", "bienvenue", "actualités", "nous contacter", "à propos", "boutique", "site officiel", "page introuvable", "inicio", "página principal", "portada", "bienvenido", "bienvenidos", "bienvenida", "noticias", "tienda", "tienda online", "quiénes somos", "contacto", "sitio oficial", "início", "página inicial", "bem-vindo", "bem vindo", "loja", "loja virtual", "notícias", "home page ufficiale", "benvenuti", "benvenuto", "pagina iniziale", "notizie", "chi siamo", "sito ufficiale", "negozio", "acasă", "bun venit", "inici", "pàgina d'inici",
	// Slavic, Baltic, Hungarian, Turkish, Greek
	"strona główna", "witamy", "aktualności", "sklep", "o nas", "úvod", "domů", "hlavní stránka", "hlavní strana", "vítejte", "domov", "úvodná stránka", "početna", "naslovna", "naslovnica", "početna stranica", "kezdőlap", "főoldal", "címlap", "üdvözöljük", "pradžia", "sākums", "avaleht", "ana sayfa", "anasayfa", "hoş geldiniz", "haberler", "αρχική", "αρχική σελίδα", "καλώς ήρθατε", "нова", "главная", "главная страница", "на главную", "добро пожаловать", "новости", "интернет-магазин", "официальный сайт", "головна", "головна сторінка", "новини", "начало", "начална страница", "почетна", "насловна", "бош саҳифа", "басты бет",
	// Asian and others
	"首页", "首頁", "主页", "主頁", "网站首页", "網站首頁", "官网", "官網", "官方网站", "欢迎", "新闻", "登录", "關於我們", "关于我们", "ホーム", "トップ", "トップページ", "ホームページ", "公式", "公式サイト", "公式ホームページ", "ニュース", "お問い合わせ", "ログイン", "メニュー", "홈", "홈페이지", "메인", "메인 페이지", "메인페이지", "공식 홈페이지", "로그인", "trang chủ", "beranda", "halaman utama", "laman utama", "utama", "หน้าแรก", "หน้าหลัก", "ยินดีต้อนรับ", "मुखपृष्ठ", "होम", "হোম", "முகப்பு", "الرئيسية", "الصفحة الرئيسية", "مرحبا", "أخبار", "صفحه اصلی", "خانه", "דף הבית", "עמוד הבית", "בית", "ראשי",
)

// hostNames are providers whose name on a page names its host.
var hostNames = FoldedSet(
	"wordpress", "wordpress.com", "wordpress.org", "wix", "wix.com", "wixsite", "editorx", "squarespace", "shopify", "weebly", "godaddy", "go daddy", "webflow", "blogger", "blogspot", "tumblr", "ghost", "substack", "medium",
	"netlify", "vercel", "heroku", "herokuapp", "github pages", "gitlab pages", "cloudflare", "cloudflare pages", "namecheap", "bluehost", "hostinger", "hostgator", "siteground", "dreamhost", "ionos", "1&1 ionos", "strato", "ovh", "ovhcloud", "gandi", "one.com", "loopia", "plesk", "cpanel", "directadmin", "litespeed", "nginx", "apache", "iis",
	"jimdo", "webnode", "strikingly", "duda", "site123", "yola", "tilda", "tilda publishing", "framer", "carrd", "notion", "linktree", "beacons", "bigcommerce", "big cartel", "prestashop", "woocommerce", "magento", "opencart", "shopware", "joomla", "drupal", "typo3", "contao", "elementor", "divi", "astra", "google sites", "google", "bitrix24", "hubspot", "unbounce", "leadpages", "clickfunnels", "kajabi", "teachable", "thinkific", "gumroad", "patreon", "etsy", "ecwid", "bubble", "softr", "glide", "replit", "firebase", "aws", "amazon web services", "azure", "microsoft azure", "sedo", "afternic", "dan.com", "hugedomains", "incapsula", "imperva", "datadome", "perimeterx", "akamai", "sucuri",
)

// packageName matches a developer's name for the program that generates the
// site, which frameworks use by default: acme-web, acme_frontend.
var packageName = lazyregexp.New(`^[a-z0-9]+(?:[-_][a-z0-9]+)*[-_](?:web|app|webapp|frontend|front|website|client|ui|www|site|spa|pwa|nuxt|next|react|vue|angular|svelte|storefront|theme|landing|portal|v\d+)$`)

// statusName is the title of an error page.
var statusName = lazyregexp.New(`^(4|5)\d\d\b|^(http )?error \d+|^index of /|^(just a moment|attention required|checking your browser|verify(ing)? you|access denied|page not found|site not found|welcome to nginx|apache2? .*default page|are you (a )?(human|robot))\b`)

// generic reports whether a name identifies no brand.
func generic(name string) bool {
	f := Folded(name)
	return f == "" || genericNames[f] || statusName.MatchString(strings.ToLower(strings.TrimSpace(name)))
}

// hostedName reports whether a name belongs to a site builder, on a site of somebody else.
func hostedName(name string, in Input) bool {
	return hostNames[Folded(name)] && in.fit(name) < StrongFit
}

// slogan matches a name that addresses the visitor: "Your partner for …", "Ihr Partner rund um …".
var slogan = lazyregexp.New(`(?i)^(your|ihre?|dein|votre|su|tu|il (tuo|vostro)|la (tua|vostra)|uw|jouw|din|deres|tw[oó]j|wasz|váš|seu|sua|ваш)\s+\S+\s+\S+`)
