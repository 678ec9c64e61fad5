package crawl

import (
	"slices"

	"letterhead/workers/crawl/extract"
)

// weighed lists the candidates for all fields, for those who ask why the winner won.
func weighed(in extract.Input, palettes []extract.Palette) []extract.Weighed {
	return slices.Concat(
		extract.NamesWeighed(in),
		extract.DescriptionsWeighed(in),
		extract.LinksWeighed(in),
		extract.ColorsWeighed(in, palettes),
		extract.FontsWeighed(in),
		extract.IndustriesWeighed(in),
	)
}
