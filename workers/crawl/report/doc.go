// Package report explains the decisions of a crawl: every candidate with its score and the parts of the score. It
// writes text for a terminal, or one HTML file that includes the images.
package report
