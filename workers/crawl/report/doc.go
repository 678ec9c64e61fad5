// Package report shows why a crawl decided as it did: every candidate with its score and what it is made of,
// and why the winner won. As text for a terminal, and as one HTML file with the images in it.
package report
