package accountnames

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"letterhead/internal/searchindex"
	"letterhead/internal/sqlstore"
)

const (
	// maxWords limits the words of a name, or of a text to search, that are used, and maxWordBytes each of them.
	maxWords     = 16
	maxWordBytes = 64
	// maxCandidates limits the entries with a word that Search compares with the other words: some milliseconds.
	maxCandidates = 10_000
)

const (
	// holder_words is an index of holders by the words of names. Nodes of an earlier release, which may run beside this
	// one on PostgreSQL, do not write it: what they erase is erased here too, and what they write has not yet been
	// indexed, because their rows have a checksum that differs from the one in indexed.
	createWords = `CREATE TABLE IF NOT EXISTS holder_words (word TEXT NOT NULL, ` +
		`id TEXT NOT NULL REFERENCES holders (id) ON UPDATE CASCADE ON DELETE CASCADE, PRIMARY KEY (word, id)) ` +
		sqlstore.ByKey
	createWordIDs   = `CREATE INDEX IF NOT EXISTS holder_words_id ON holder_words (id, word)`
	createUnindexed = `CREATE INDEX IF NOT EXISTS holders_unindexed ON holders (id) WHERE ` + notIndexed

	notIndexed  = `indexed IS DISTINCT FROM checksum`
	unindexed   = `WHERE ` + notIndexed + ` ORDER BY id LIMIT $1`
	allIndexed  = `SELECT NOT EXISTS (SELECT 1 FROM holders WHERE ` + notIndexed + `)`
	markIndexed = `UPDATE holders SET indexed = checksum WHERE id IN (SELECT id FROM holders ` + unindexed + `)`

	eraseWords = `DELETE FROM holder_words WHERE id = CAST($1 AS TEXT)`
	// candidates are the rows of the words with a beginning; the parameters are the limits of these words.
	candidates = `SELECT word, id FROM holder_words WHERE word >= $1 AND word < $2 `
	inOrder    = `ORDER BY word, id LIMIT $3`
	alsoHas    = ` AND EXISTS (SELECT 1 FROM holder_words o WHERE o.id = c.id AND o.word >= $%d AND o.word < $%d)`
	wholeNames = `WHERE id IN (SELECT id FROM holder_words WHERE word = $1) ORDER BY id LIMIT $2`
	countThem  = `SELECT count(*) FROM (` + candidates + `LIMIT $3) c`
)

// end follows the beginning of words in the first text after them.
const end = "\U0010FFFF"

// Marks precede words in the index: emailMark those of addresses for sign-in links, and wholeMark, after it, all words
// of a name or address.
const emailMark, wholeMark = "@", "="

// wordsOf returns the words of a text as the index has them, after a mark: normalized as names of brands are, and
// divided at dots; and all of them as one.
func wordsOf(mark, text string) (words []string, whole string) {
	words = strings.Fields(searchindex.Fold(strings.ReplaceAll(text, ".", " ")))
	entry := func(word string) string {
		return mark + strings.ToValidUTF8(word[:min(len(word), maxWordBytes)], "")
	}
	whole = entry(wholeMark + strings.Join(words, " "))
	words = words[:min(len(words), maxWords)]
	for i, word := range words {
		words[i] = entry(word)
	}
	slices.Sort(words)
	return slices.Compact(words), whole
}

// words returns the words by which a row is found: none if it is damaged, or the destination of notices.
func (e Entry) words() []string {
	mark := ""
	switch {
	case e.Damaged():
		return nil
	case strings.HasPrefix(e.ID, EmailPrefix):
		mark = emailMark
	case strings.Contains(e.ID, ":"):
		return nil
	}
	words, whole := wordsOf(mark, e.Name)
	return append(words, whole)
}

// writeWords replaces the words of rows.
func writeWords(ctx context.Context, tx *sqlstore.Tx, rows []Entry) error {
	for part := range slices.Chunk(idsOf(rows), namesPerQuery) {
		query := "DELETE FROM holder_words WHERE id IN " + sqlstore.In(1, len(part))
		if _, err := tx.ExecContext(ctx, query, arguments(part)...); err != nil {
			return err
		}
	}
	var values []any
	for _, one := range rows {
		for _, word := range one.words() {
			values = append(values, word, one.ID)
		}
	}
	return sqlstore.Insert(ctx, tx, "holder_words (word, id)", 2, "ON CONFLICT (word, id) DO NOTHING", values)
}

// index writes the words of the rows that an earlier release wrote.
func (t *Table) index(ctx context.Context) error {
	for done := 0; ; {
		var rows []Entry
		err := t.store.WriteDurable(ctx, func(tx *sqlstore.Tx) (err error) {
			if rows, err = entriesOf(ctx, tx, unindexed, MaxPage); err != nil || len(rows) == 0 {
				return err
			}
			if err := writeWords(ctx, tx, rows); err != nil {
				return err
			}
			_, err = tx.ExecContext(ctx, markIndexed, MaxPage)
			return err
		})
		if err != nil || len(rows) == 0 {
			return err
		}
		done += len(rows)
		t.logger.Info("names of holders are indexed for searches", "rows", done)
	}
}

// indexed reports whether all rows are indexed.
func (t *Table) indexed(ctx context.Context) (all bool, err error) {
	err = t.store.Read().QueryRowContext(ctx, allIndexed).Scan(&all)
	return all, err
}

// Search returns the rows whose names have, for each word of a text, a word that begins with it: at most limit, those
// with the same words as the text first, then those with the first such words. A text with @ matches only the whole of a
// name, in upper or lower case. With emails it searches the addresses for sign-in links instead. It reports whether
// there may be more, also because Watch has not yet indexed all rows. A text without letters and digits finds nothing.
// Errors: as Names.
func (t *Table) Search(ctx context.Context, text string, emails bool, limit int) (rows []Entry, more bool, err error) {
	rows, more, err = t.search(ctx, text, emails, limit)
	if sqlstore.IsUndefinedTable(err) { // a read-only file of 0.1.0; New creates the table otherwise
		return nil, true, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("search the names of holders: %w", sqlstore.Classify(err))
	}
	return rows, more, nil
}

func (t *Table) search(ctx context.Context, text string, emails bool, limit int) (rows []Entry, more bool, err error) {
	mark := ""
	if emails {
		mark = emailMark
	}
	words, whole := wordsOf(mark, text)
	if len(words) == 0 {
		return nil, false, nil
	}
	if rows, err = entriesOf(ctx, t.store.Read(), wholeNames, whole, limit+1); err != nil {
		return nil, false, err
	}
	more = len(rows) > limit
	if strings.Contains(text, "@") {
		rows = slices.DeleteFunc(rows, func(e Entry) bool { return !strings.EqualFold(e.Name, strings.TrimSpace(text)) })
	} else if !more {
		others, many, err := t.begin(ctx, words, limit+1)
		if err != nil {
			return nil, false, err
		}
		found := idsOf(rows)
		slices.Sort(found)
		for _, e := range others {
			if _, twice := slices.BinarySearch(found, e.ID); !twice {
				rows = append(rows, e)
			}
		}
		more = many || len(rows) > limit
	}
	indexed, err := t.indexed(ctx)
	return t.used(rows[:min(len(rows), limit)]), more || !indexed, err
}

// begin returns at most limit rows that have, for each of some words, a word that begins with it, and reports whether
// more than it compared may.
func (t *Table) begin(ctx context.Context, words []string, limit int) ([]Entry, bool, error) {
	rarest, fewest := 0, maxCandidates+1
	for i, word := range words {
		var n int
		row := t.store.Read().QueryRowContext(ctx, countThem, word, word+end, maxCandidates)
		if err := row.Scan(&n); err != nil {
			return nil, false, err
		}
		if n < fewest {
			rarest, fewest = i, n
		}
	}
	words[0], words[rarest] = words[rarest], words[0]
	query := "JOIN (SELECT c.id, min(c.word) AS word FROM (" + candidates + inOrder + ") c WHERE 1 = 1"
	args := []any{words[0], words[0] + end, maxCandidates}
	for _, word := range words[1:] {
		query += fmt.Sprintf(alsoHas, len(args)+1, len(args)+2)
		args = append(args, word, word+end)
	}
	query += fmt.Sprintf(" GROUP BY c.id ORDER BY 2, 1 LIMIT $%d) f USING (id) ORDER BY f.word, id", len(args)+1)
	rows, err := entriesOf(ctx, t.store.Read(), query, append(args, limit)...)
	return rows, fewest == maxCandidates, err
}
