// Package postal recognizes countries and postal addresses: codes and names of the 249 countries and territories of ISO
// 3166-1, their UN M49 region and sub-region, and the patterns that distinguish the addresses of some thirty countries
// from other text.
package postal
