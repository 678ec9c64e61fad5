package eventschemas

import "slices"

// Record is a brand's data in events. It is the Brand of the API without the fields that are computed from other events
// (id, domain, urn, status, claimed, updatedAt). It contains asset ids instead of URLs, so that a change of the base
// URL needs no rebuild. An encoded record has no null instead of a list.
type Record struct {
	Name            *string      `json:"name"`
	Description     *string      `json:"description"`
	LongDescription *string      `json:"long_description"`
	Links           []Link       `json:"links"`
	Logos           []Logo       `json:"logos"`
	Colors          []Color      `json:"colors"`
	Fonts           []Font       `json:"fonts"`
	Images          []Image      `json:"images"`
	OGImage         *string      `json:"og_image"` // absolute URL on the site itself
	Company         *Company     `json:"company"`  // null only with a restriction
	QualityScore    float64      `json:"quality_score"`
	NSFW            bool         `json:"nsfw"`
	Restriction     *Restriction `json:"restriction"`
	Complete        bool         `json:"complete"` // ready if true, else partial
}

// Link is a profile of the brand on a known network.
type Link struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}

// TagReversed is the tag of a derived logo, which the brand did not publish. It is a single-color logo of the
// record, drawn in white or black instead, for pages on which the original would be invisible.
const TagReversed = "reversed"

// IsReversed reports whether the logo has TagReversed.
func (l Logo) IsReversed() bool { return slices.Contains(l.Tags, TagReversed) }

// Logo is one logo in every stored format.
type Logo struct {
	Type    string   `json:"type"`  // icon, symbol, logo, other
	Theme   *string  `json:"theme"` // of the logo's color: light, dark
	Formats []Asset  `json:"formats"`
	Tags    []string `json:"tags"`
}

// Asset is one stored file. ID is the lower-case hex SHA-256 of its bytes.
type Asset struct {
	ID         string  `json:"id"`
	Format     string  `json:"format"`     // svg, png, webp, jpeg
	Background *string `json:"background"` // transparent or null
	Width      *int    `json:"width"`      // pixels
	Height     *int    `json:"height"`     // pixels
	Size       int64   `json:"size"`       // bytes
}

// Color is one brand color. Brightness is round(0.2126 R + 0.7152 G + 0.0722 B) of the sRGB bytes.
type Color struct {
	Hex        string `json:"hex"`
	Type       string `json:"type"` // accent, dark, light, brand
	Brightness int    `json:"brightness"`
}

// Font is one typeface of the site.
type Font struct {
	Name     string  `json:"name"`
	Type     string  `json:"type"`   // title, body
	Origin   string  `json:"origin"` // google, adobe, custom, system
	OriginID *string `json:"origin_id"`
	Weights  []int   `json:"weights"`
}

// Image is an image from the site, stored as JPEG.
type Image struct {
	Type    string   `json:"type"` // banner, other
	Formats []Asset  `json:"formats"`
	Tags    []string `json:"tags"`
}

// Company holds the facts about the company behind the brand.
type Company struct {
	Employees   *int       `json:"employees"` // lower bound of a headcount bucket
	FoundedYear *int       `json:"founded_year"`
	Kind        *string    `json:"kind"`
	Location    *Location  `json:"location"`
	Industries  []Industry `json:"industries"`
	Ticker      *string    `json:"ticker"` // exchange:symbol
	Tickers     []string   `json:"tickers"`
}

// Location is the location of the company.
type Location struct {
	City        *string `json:"city"`
	State       *string `json:"state"`
	Country     *string `json:"country"`
	CountryCode *string `json:"country_code"` // ISO 3166-1 alpha-2
	Region      *string `json:"region"`
	Subregion   *string `json:"subregion"`
}

// Industry is one class of a two-level taxonomy, with the classifier's confidence.
type Industry struct {
	ID     string          `json:"id"`
	Name   string          `json:"name"`
	Slug   string          `json:"slug"`
	Emoji  string          `json:"emoji"`
	Score  float64         `json:"score"`
	Parent *IndustryParent `json:"parent"`
}

// IndustryParent is the upper level of the taxonomy.
type IndustryParent struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Slug  string `json:"slug"`
	Emoji string `json:"emoji"`
}

// Restriction is the reason why a record deliberately contains no data.
type Restriction struct {
	Code    string `json:"code"` // nsfw
	Message string `json:"message"`
}

// Evidence records the source of one field of a record.
type Evidence struct {
	Field      string  `json:"field"`
	Source     string  `json:"source"` // URL or data set
	Method     string  `json:"method"` // name of the rule, such as og:site_name
	Confidence float64 `json:"confidence"`
}

// IconsByConvention lists the icons of a site that were found only by convention: at a path that browsers try, or among
// the files of a theme.
type IconsByConvention struct {
	Assets []string `json:"assets"` // the id of each icon's first format
	Linked []string `json:"linked"` // registrable domains that the home page links to, sorted
}

// EmptyCompany returns the company of a record without any company data.
func EmptyCompany() *Company {
	return &Company{Industries: []Industry{}, Tickers: []string{}}
}

// HasLogo reports whether the record has at least one logo file. Only then is a credit charged.
func (r *Record) HasLogo() bool {
	return slices.ContainsFunc(r.Logos, func(l Logo) bool { return len(l.Formats) > 0 })
}
