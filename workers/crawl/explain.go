package crawl

import (
	"slices"

	"letterhead/workers/crawl/judge"
)

// weighed lists the candidates for all fields, for those who ask why the winner won.
func weighed(in judge.Input, palettes []judge.Palette) []judge.Weighed {
	return slices.Concat(
		judge.NamesWeighed(in),
		judge.DescriptionsWeighed(in),
		judge.LinksWeighed(in),
		judge.ColorsWeighed(in, palettes),
		judge.FontsWeighed(in),
		judge.IndustriesWeighed(in),
	)
}
