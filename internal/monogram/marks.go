package monogram

// Marks are drawn on a tile of 16 units, with straight edges on whole units, so that these are sharp at 16 pixels and
// all its multiples. They avoid signs with a meaning: no star, cross, crescent or arrow.
const grid = 16

// marks are the shapes. Some of them look the same in every rotation.
var marks = [...]func(p *pen){
	func(p *pen) { p.disc(8, 8, 5, false) },
	func(p *pen) { p.disc(8, 8, 5, false).disc(8, 8, 2, true) },
	func(p *pen) { // diamond
		p.move(8, 2.5).line(13.5, 8).line(8, 13.5).line(2.5, 8).close()
	},
	func(p *pen) { // leaf
		p.move(3, 3).line(8, 3).quarter(false, 13, 8).line(13, 13).line(8, 13).quarter(false, 3, 8).close()
	},
	func(p *pen) { // two bars, one offset
		p.block(3, 4, 8, 3).block(5, 9, 8, 3)
	},
	func(p *pen) { // four dots, one of them a square
		p.disc(5.5, 5.5, 2.5, false).disc(10.5, 10.5, 2.5, false).disc(5.5, 10.5, 2.5, false).block(8.5, 3, 4.5, 4.5)
	},
	func(p *pen) { // two domes
		p.move(3, 8).quarter(true, 8, 3).quarter(false, 13, 8).close()
		p.move(3, 13).quarter(true, 8, 8).quarter(false, 13, 13).close()
	},
	func(p *pen) { // fan
		p.move(3, 3).quarter(false, 13, 13).line(3, 13).close()
	},
	func(p *pen) { // quarter of a ring, with its disc
		p.move(3, 3).quarter(false, 13, 13).line(10, 13).quarter(true, 3, 6).close()
		p.move(3, 8).quarter(false, 8, 13).line(3, 13).close()
	},
	func(p *pen) { // two halves of a disc, moved apart along the cut
		p.move(7, 3).line(7, 11).quarter(false, 3, 7).quarter(true, 7, 3).close()
		p.move(9, 5).quarter(false, 13, 9).quarter(true, 9, 13).close()
	},
}

// markOf returns a domain's mark on a tile of the given side.
func markOf(d digest, side float64) outline {
	var p pen
	marks[d.mark()%len(marks)](&p)
	unit := side / grid
	out := p.done.moved(unit, unit, 0, 0)
	for range d.turn() % 4 {
		out = out.turned(side)
	}
	return out
}

// turned returns the outline rotated by a quarter turn on a tile of the given side.
func (o outline) turned(side float64) outline {
	return o.mapped(func(p point) point { return point{side - p.y, p.x} })
}
