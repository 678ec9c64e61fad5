package company

import (
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"letterhead/internal/lazyregexp"
	"letterhead/workers/crawl/page"
)

// Topic is the topic of a page that may state facts about the company.
type Topic int

const (
	About   Topic = iota // states the history and size of the company
	Imprint              // states its legal form and address; required by law in several countries
	Contact              // states its address, for sites without an imprint
	Press                // states its name and description for the press
	noTopic
)

// Topics is the number of topics.
const Topics = int(noTopic)

// topics are the words of paths and link texts, in the languages of the thirty
// largest economies. SEP between words is a space, a hyphen or an underscore.
var topics = []struct {
	topic Topic
	words *lazyregexp.Regexp
}{
	{Imprint, topicWords("imprint topics")},
	{Contact, topicWords("contact topics")},
	{About, topicWords("about topics")},
	{Press, topicWords("press topics")},
}

func topicWords(section string) *lazyregexp.Regexp {
	return lazyregexp.New(`(?i)^(?:` + strings.ReplaceAll(tables.Any(section), "SEP", `[-_ ]`) + `)$`)
}

const (
	maxTopicWords = 5 // limits the text of a link to such a page: a longer one is a headline
	maxTopicParts = 4 // limits the topics that a text joins
)

// TopicOf determines the topic of a page by the last segment of its path, or else by the text of a link to it or its
// title, which may join two topics, as in "Impressum & Datenschutz". ok is false if it has none.
func TopicOf(u *url.URL, text string) (topic Topic, ok bool) {
	if t := topicOfWords(lastSegment(u)); t != noTopic {
		return t, true
	}
	text = strings.Trim(text, " .…»›→>:|")
	if len(strings.Fields(text)) > maxTopicWords {
		return noTopic, false
	}
	parts := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune("&/|+·,–—｜|?", r) })
	best := topicOfWords(strings.Trim(text, " -.?¿"))
	for _, part := range parts[:min(len(parts), maxTopicParts)] {
		if t := topicOfWords(strings.Trim(part, " -.?¿")); t == Imprint || best == noTopic {
			best = t
		}
	}
	return best, best != noTopic
}

// IsAboutItself reports whether the text of a link is an article and a word of
// the brand's name, or a word for companies: "The mill", of Thornbeck Mill.
func IsAboutItself(text, name string) bool {
	words := spokenWords(text)
	if len(words) != 2 || !definite[words[0].folded] && !ours[words[0].folded] && !leading[words[0].folded] {
		return false
	}
	return companies[words[1].folded] || slices.ContainsFunc(spokenWords(name), func(w spoken) bool {
		return w.folded == words[1].folded && utf8.RuneCountInString(w.folded) >= minPartOfName-1
	})
}

func topicOfWords(text string) Topic {
	if text == "" || len(text) > maxTopicBytes {
		return noTopic
	}
	text = apostrophes.Replace(text)
	for _, t := range topics {
		if t.words.MatchString(text) {
			return t.topic
		}
	}
	return noTopic
}

// apostrophes separates the elided article of "l'azienda" from its noun.
var apostrophes = strings.NewReplacer("'", " ", "’", " ")

const maxTopicBytes = 100 // limits the texts that are compared with the words of topics

// lastSegment returns the last segment of a path without a leading number and a
// file extension: about-us for /company/2-about-us.html.
func lastSegment(u *url.URL) string {
	if u == nil {
		return ""
	}
	last := strings.Trim(u.Path, "/")
	last = last[strings.LastIndexByte(last, '/')+1:]
	last, _, _ = strings.Cut(last, ".")
	return strings.TrimLeft(last, "0123456789-_")
}

// evidenceOf returns the URL of a page as the source of a fact, or "" if it is unknown. Evidence is stored for ever,
// and a path or a query can hold the name of a person. So the path is kept only if all of its segments are known words
// or codes of languages.
func evidenceOf(p *page.Page) string {
	if p == nil || p.URL == nil {
		return ""
	}
	u := url.URL{Scheme: p.URL.Scheme, Host: p.URL.Host, Path: "/"}
	segments := strings.FieldsFunc(p.URL.Path, func(r rune) bool { return r == '/' })
	if len(segments) > 0 && !slices.ContainsFunc(segments, func(s string) bool { return !isImpersonal(s) }) {
		u.Path = p.URL.Path
	}
	return u.String()
}

// isImpersonal reports whether a segment of a path is the code of a language, or a word for a topic.
func isImpersonal(segment string) bool {
	name, ending, dotted := strings.Cut(segment, ".")
	if dotted && strings.ContainsFunc(ending, func(r rune) bool { return r > unicode.MaxASCII }) {
		return false
	}
	return languageCode.MatchString(segment) ||
		pathWords.MatchString(name) && (!dotted || pageEnding.MatchString(ending)) ||
		topicOfWords(name) != noTopic && (!dotted || pageEnding.MatchString(ending))
}

var (
	languageCode = lazyregexp.New(`(?i)^[a-z]{2}(?:[-_][a-z]{2})?$`)
	pageEnding   = lazyregexp.New(`(?i)^(?:html?|php|aspx?|jsp)$`)
	pathWords    = lazyregexp.New(
		`(?i)^(?:home|index|main|start|default|pages?|site|web|info|service|footer|static|content)$`)
)
