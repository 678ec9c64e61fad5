package eventschemas

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	gojson "github.com/goccy/go-json"
)

// SymbolPattern matches the symbol of a listed share without its exchange. The characters are those that exchanges use:
// letters and digits (7203 in Tokyo, 0700 in Hong Kong), a period before a class (BRK.B) and at the end of short
// symbols in London (BP.), a hyphen (BF-B, BAJAJ-AUTO), & and * in Mumbai and Mexico (M&M, WALMEX*), a slash in Toronto
// and on terminals (BRK/B), and the suffixes + = ^ # * of nasdaqtrader.com's symbol convention (CQSSymbolConvention).
// The longest are the 12 of Mexico; the limit leaves room. The JSON Schema of records and the description of the API
// repeat the pattern.
const SymbolPattern = `^[A-Z0-9][A-Z0-9.&*/+=^#-]{0,15}$`

// maxClass limits the class of a share after a space, in bytes.
const maxClass = 2

var symbolPattern = regexp.MustCompile(SymbolPattern)

// BareSymbol returns the symbol in a text such as NASDAQ:AAPL, XNYS:BRK.B, aapl or VOLV B. A space before a class, as
// in Stockholm, becomes a hyphen. It reports false if the text is not a symbol.
func BareSymbol(text string) (string, bool) {
	words := strings.Fields(strings.ToUpper(text[strings.LastIndexByte(text, ':')+1:]))
	if len(words) > 2 || len(words) == 2 && len(words[1]) > maxClass {
		return "", false
	}
	symbol := strings.Join(words, "-")
	return symbol, symbolPattern.MatchString(symbol)
}

// BareSymbols returns the symbols in texts, each once, in the order of their first occurrence. It omits texts that are
// not symbols. The result is not nil.
func BareSymbols(texts []string) []string {
	symbols := make([]string, 0, len(texts))
	for _, text := range texts {
		if symbol, ok := BareSymbol(text); ok && !slices.Contains(symbols, symbol) {
			symbols = append(symbols, symbol)
		}
	}
	return symbols
}

func (c *Company) bareSymbols() {
	if c != nil {
		c.Tickers = BareSymbols(c.Tickers)
	}
}

func (ev *FieldOverridden) bareSymbols() error {
	if ev.Field != "company" {
		return nil
	}
	var c *Company
	if err := gojson.Unmarshal(ev.Value, &c); err != nil {
		return err
	}
	c.bareSymbols()
	value, err := marshal(c)
	ev.Value = value
	return err
}

// bareSymbols is the change of an event whose tickers become bare. The previous release reads these, too.
func bareSymbols[T Event](edit func(*T) error) Change {
	return Change{
		Format: 3,
		Up: func(body []byte) ([]byte, error) {
			// Most records have no tickers, and a replay decodes each event. Quotes in texts are escaped.
			if !bytes.Contains(body, []byte(`"tickers"`)) || bytes.Contains(body, []byte(`"tickers":[]`)) {
				return body, nil
			}
			var ev T
			if err := gojson.Unmarshal(body, &ev); err != nil {
				return nil, err
			}
			if err := edit(&ev); err != nil {
				return nil, err
			}
			return marshal(ev)
		},
	}
}
