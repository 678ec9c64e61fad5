// Package postal knows countries and how postal addresses are written: codes and names of the 249
// countries and territories of ISO 3166-1, their UN M49 region and sub-region, and the patterns by which
// the addresses of some thirty countries are told from other text.
package postal
