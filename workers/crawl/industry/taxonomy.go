package industry

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"sync"

	"letterhead/eventschemas"
)

// Certainty of the two declared sources.
const (
	TypeScore        = 0.9  // the score of a schema.org type: declared by the site, but from another taxonomy
	SubIndustryScore = 0.95 // the score of a GICS sub-industry, assigned by an analyst
	BroadScore       = 0.7  // the score of a sub-industry with companies of several of our classes
)

// Class is one industry of the lower level.
type Class struct {
	Name, Slug, Emoji string
	parent            *Class // of the upper level
}

const idBytes = 8 // the length of the hash of a slug in an id: 64 bits avoid collisions among a few hundred slugs

// ID returns a hash of the slug and the parent's slug, stable as long as they are.
func (c *Class) ID() string {
	path := c.Slug
	if c.parent != nil {
		path = c.parent.Slug + "/" + path
	}
	sum := sha256.Sum256([]byte(path))
	return hex.EncodeToString(sum[:idBytes])
}

// Industry returns the class in the form of a record.
func (c *Class) Industry(score float64) eventschemas.Industry {
	return eventschemas.Industry{
		ID: c.ID(), Name: c.Name, Slug: c.Slug, Emoji: c.Emoji, Score: score,
		Parent: &eventschemas.IndustryParent{ID: c.parent.ID(), Name: c.parent.Name, Slug: c.parent.Slug,
			Emoji: c.parent.Emoji},
	}
}

// Weights of terms: almost sufficient alone, ordinary, and only supporting others.
const (
	tellingWeight = 3.0
	plainWeight   = 1.5
	weakWeight    = 0.5
)

// hit is the weight of a term for a class.
type hit struct {
	class  int // index in taxonomy.classes
	weight float64
}

// term is one term of the vocabulary.
type term struct {
	words  []string // folded; several words form a phrase
	prefix bool     // the last word is a prefix
	suffix bool     // a single word that may be a suffix: a German compound
	hits   []hit
}

type vocabulary struct {
	classes []*Class
	byType  map[string]*Class
	byGICS  map[string]*Class
	broad   map[string]bool // sub-industries

	exact  map[string][]*term // by the first word; phrases too
	prefix map[string][]*term
	suffix map[string][]*term
}

//go:embed taxonomy.txt
var taxonomyText string

var taxonomy = sync.OnceValue(func() *vocabulary {
	v := &vocabulary{
		byType: map[string]*Class{}, byGICS: map[string]*Class{}, broad: map[string]bool{},
		exact: map[string][]*term{}, prefix: map[string][]*term{}, suffix: map[string][]*term{},
	}
	terms := &termList{byKey: map[string]*term{}}
	var parent, class *Class
	for line := range strings.Lines(taxonomyText) {
		kind, rest, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			continue
		}
		switch kind {
		case "=":
			parent = newClass(rest, nil)
		case "-":
			class = newClass(rest, parent)
			v.classes = append(v.classes, class)
		case "t:":
			for t := range strings.FieldsSeq(rest) {
				v.byType[t] = class
			}
		case "g:":
			for g := range strings.SplitSeq(rest, ";") {
				name, broad := strings.CutSuffix(strings.TrimSpace(g), "?")
				v.byGICS[name], v.broad[name] = class, broad
			}
		case "w:":
			for text := range strings.FieldsSeq(rest) {
				terms.add(text, len(v.classes)-1)
			}
		}
	}
	v.index(terms.all)
	return v
})

func newClass(text string, parent *Class) *Class {
	i := strings.LastIndexByte(text, ' ')
	name := text[:i]
	return &Class{Name: name, Slug: slugOf(name), Emoji: text[i+1:], parent: parent}
}

// slugOf returns the slug of the name of a class.
func slugOf(name string) string {
	return strings.Join(words(strings.ReplaceAll(name, "&", " and ")), "-")
}

// termList holds the terms in the order of the file, on which sums of floats depend.
type termList struct {
	all   []*term
	byKey map[string]*term
}

// add parses a term of the taxonomy.
func (l *termList) add(text string, class int) {
	weight := plainWeight
	switch text[0] {
	case '!':
		weight, text = tellingWeight, text[1:]
	case '~':
		weight, text = weakWeight, text[1:]
	}
	t := &term{words: words(strings.ReplaceAll(strings.Trim(text, "*"), "_", " ")),
		prefix: strings.HasSuffix(text, "*"), suffix: strings.HasPrefix(text, "*")}
	key := fmt.Sprint(t.words, t.prefix, t.suffix) // música and musica are one term
	if l.byKey[key] == nil {
		l.byKey[key] = t
		l.all = append(l.all, t)
	}
	t = l.byKey[key]
	for i, h := range t.hits {
		if h.class == class {
			t.hits[i].weight = max(h.weight, weight)
			return
		}
	}
	t.hits = append(t.hits, hit{class, weight})
}

// index builds the indexes of the matcher. A term of several classes is weaker evidence for each: its weight is
// multiplied by the inverse of their number on a logarithmic scale, 1 for a term of one class.
func (v *vocabulary) index(terms []*term) {
	all := float64(len(v.classes))
	for _, t := range terms {
		idf := math.Log(all/float64(len(t.hits))) / math.Log(all)
		for i := range t.hits {
			t.hits[i].weight *= idf
		}
		first := t.words[0]
		if len(t.words) > 1 || !t.prefix && !t.suffix {
			v.exact[first] = append(v.exact[first], t)
			continue
		}
		if t.prefix {
			v.prefix[first] = append(v.prefix[first], t)
		}
		if t.suffix {
			v.suffix[first] = append(v.suffix[first], t)
		}
	}
}

// ByType returns the class of a schema.org type, or nil for types without one, such as Organization.
func ByType(name string) *Class { return taxonomy().byType[name] }

// BySlug returns the class with a slug, or nil.
func BySlug(slug string) *Class {
	for _, c := range taxonomy().classes {
		if c.Slug == slug {
			return c
		}
	}
	return nil
}

// ByName returns the class with a name, in any case, or nil.
func ByName(name string) *Class { return BySlug(slugOf(name)) }

// BySubIndustry returns the class of a GICS sub-industry and its certainty, or nil if it is unknown.
func BySubIndustry(name string) (*Class, float64) {
	v := taxonomy()
	if v.broad[name] {
		return v.byGICS[name], BroadScore
	}
	return v.byGICS[name], SubIndustryScore
}
