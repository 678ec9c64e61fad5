// Package levenshtein counts the edits between two words.
package levenshtein

// Distance returns the number of bytes to insert, delete or replace to turn a into b.
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			edit := diagonal
			if a[i] != b[j] {
				edit++
			}
			diagonal = row[j+1]
			row[j+1] = min(edit, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
