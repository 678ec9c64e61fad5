package crawl

import (
	"slices"

	"letterhead/workers/crawl/extract"
	"letterhead/workers/crawl/extract/colors"
	"letterhead/workers/crawl/extract/company"
	"letterhead/workers/crawl/extract/fonts"
)

// weighed lists the candidates for all fields, to explain the decisions.
func weighed(in extract.Input, palettes []colors.Palette) []extract.Weighed {
	return slices.Concat(
		extract.NamesWeighed(in),
		extract.DescriptionsWeighed(in),
		extract.LinksWeighed(in),
		colors.Weighed(in, palettes),
		fonts.Weighed(in),
		company.IndustriesWeighed(in),
	)
}
