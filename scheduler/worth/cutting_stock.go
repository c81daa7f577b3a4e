package worth

import "math"

// whole is a GPU in thousandths.
const whole = 1000

// remainders returns the worth of each remainder of a GPU, from 0 to a whole GPU, if fractions of these sizes arrive
// with these weights: remainders(...)[190] is small if few of them fit into 190 thousandths.
func remainders(sizes []int, weights []float64) [whole + 1]float64 {
	var worth [whole + 1]float64
	if len(sizes) > 0 {
		worth = fill(sizes, prices(sizes, weights))
	}
	worth[whole] = 1
	return worth
}

// fill returns, for each remainder, the largest total price of items with these sizes and prices that fit into it.
func fill(sizes []int, price []float64) [whole + 1]float64 {
	var best [whole + 1]float64
	for r := 1; r <= whole; r++ {
		best[r] = best[r-1]
		for i, d := range sizes {
			if d <= r {
				best[r] = max(best[r], price[i]+best[r-d])
			}
		}
	}
	return best
}

// prices solves the cutting-stock problem by column generation (Gilmore and Gomory, 1961): cut as few GPUs as possible
// into items of each size, in the proportion of the weights. It returns the dual prices: the part of a GPU that one
// more item of each size costs.
func prices(sizes []int, weights []float64) []float64 {
	m := len(sizes)
	inverse, amount := make([][]float64, m), make([]float64, m)
	for i := range m {
		n := float64(whole / sizes[i])
		inverse[i] = make([]float64, m)
		inverse[i][i] = 1 / n
		amount[i] = weights[i] / n
	}
	y, way := make([]float64, m), make([]float64, m)
	for range 20 * m {
		for j := range m {
			y[j] = 0
			for i := range m {
				y[j] += inverse[i][j]
			}
		}
		pattern := bestPattern(sizes, y)
		if pattern == nil {
			break
		}
		out, least := -1, math.Inf(1)
		for i := range m {
			way[i] = 0
			for j, n := range pattern {
				way[i] += inverse[i][j] * n
			}
			if way[i] > 1e-9 && amount[i]/way[i] < least {
				out, least = i, amount[i]/way[i]
			}
		}
		if out < 0 {
			break
		}
		pivot(inverse, amount, way, out, least)
	}
	for i := range y {
		y[i] = max(0, y[i])
	}
	return y
}

// pivot replaces a pattern of the basis by another one.
func pivot(inverse [][]float64, amount, way []float64, out int, step float64) {
	for i := range amount {
		amount[i] -= step * way[i]
	}
	amount[out] = step
	for j := range inverse[out] {
		inverse[out][j] /= way[out]
	}
	for i := range inverse {
		if by := way[i]; i != out && by != 0 {
			for j := range inverse[i] {
				inverse[i][j] -= by * inverse[out][j]
			}
		}
	}
}

// bestPattern returns the most valuable way to cut a GPU at these prices; nil if none is worth more than a GPU.
func bestPattern(sizes []int, price []float64) []float64 {
	best := fill(sizes, price)
	if best[whole] <= 1+1e-9 {
		return nil
	}
	pattern := make([]float64, len(sizes))
	for r := whole; r > 0; {
		if best[r] == best[r-1] {
			r--
			continue
		}
		for i, d := range sizes {
			if d <= r && best[r] == price[i]+best[r-d] {
				pattern[i]++
				r -= d
				break
			}
		}
	}
	return pattern
}
