package vp8l

// Predictors that are tried. The first suffice for flat areas and axis-aligned edges; the last is for gradients.
const (
	fromLeft     = 1
	fromAbove    = 2
	fromGradient = 12
)

const tileBits = 4

// tiles returns the number of tiles per side, each with its own predictor.
func tiles(side int) int { return (side + 1<<tileBits - 1) >> tileBits }

// predicted returns the predictor of each tile and sets the residuals, which are the differences between the
// pixels and their predictions.
func predicted(residuals, pixels []uint32, w, h int) (modes []uint32) {
	modes = make([]uint32, 0, tiles(w)*tiles(h))
	for top := 0; top < h; top += 1 << tileBits {
		for left := 0; left < w; left += 1 << tileBits {
			right, bottom := min(left+1<<tileBits, w), min(top+1<<tileBits, h)
			var cost [3]int
			for y := max(top, 1); y < bottom; y++ {
				for x := max(left, 1); x < right; x++ {
					i := y*w + x
					p, l, t := pixels[i], pixels[i-1], pixels[i-w]
					if p == l && p == t {
						cost[2] += size(minus(p, gradient(l, t, pixels[i-w-1])))
						continue
					}
					cost[0] += size(minus(p, l))
					cost[1] += size(minus(p, t))
					cost[2] += size(minus(p, gradient(l, t, pixels[i-w-1])))
				}
			}
			mode := fromLeft
			if cost[1] < cost[0] {
				mode = fromAbove
			}
			if cost[2] < min(cost[0], cost[1]) {
				mode = fromGradient
			}
			modes = append(modes, opaque|uint32(mode)<<8)
			for y := top; y < bottom; y++ {
				for x := left; x < right; x++ {
					i := y*w + x
					var from uint32
					switch {
					case i == 0:
						from = opaque
					case y == 0 || x > 0 && mode == fromLeft:
						from = pixels[i-1]
					case x == 0 || mode == fromAbove:
						from = pixels[i-w]
					default:
						from = gradient(pixels[i-1], pixels[i-w], pixels[i-w-1])
					}
					residuals[i] = minus(pixels[i], from)
				}
			}
		}
	}
	return modes
}

// minus subtracts the channels, each modulo 256.
func minus(a, b uint32) uint32 {
	const even = 0x00ff00ff
	return (even+a&^even-b&^even)&^even | (^uint32(even)+a&even-b&even)&even
}

// size returns the distance of a residual's channels from 0.
func size(p uint32) int {
	n := 0
	for range 4 {
		d := int(int8(p))
		n += max(d, -d)
		p >>= 8
	}
	return n
}

// gradient predicts each channel as left + above - corner, clamped to its range.
func gradient(left, above, corner uint32) uint32 {
	if above == corner {
		return left
	}
	if left == corner {
		return above
	}
	var out uint32
	for shift := 0; shift < 32; shift += 8 {
		v := int32(left>>shift&0xff) + int32(above>>shift&0xff) - int32(corner>>shift&0xff)
		out |= uint32(min(max(v, 0), 0xff)) << shift
	}
	return out
}
