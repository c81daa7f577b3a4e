package main

import (
	"math"
	"math/rand/v2"
)

// The learning rate depends only on the step, not on the number of steps: a training of 20 steps that is then resumed
// up to 40 must equal one of 40.
const (
	peakRate = 4e-3
	warmup   = 20
	halfLife = 400.0

	beta1   = 0.9
	beta2   = 0.99
	epsilon = 1e-8
	smooth  = 0.95
)

// trainer has the state of a training, which a checkpoint keeps (the weights, both moments, Step and Loss), and its
// working memory.
type trainer struct {
	corpus *corpus
	seed   uint64
	model  *model

	Step  int
	Loss  float64 // in nats, smoothed over about twenty steps
	first []float64
	moved []float64

	gradient []float64
	parts    weights
	places   []int
	scratch  *scratch
}

func newTrainer(c *corpus, seed uint64, batch int) *trainer {
	m := newModel(len(c.letters), seed)
	t := &trainer{
		corpus: c, seed: seed, model: m,
		first: make([]float64, len(m.params)), moved: make([]float64, len(m.params)),
		gradient: make([]float64, len(m.params)), places: make([]int, batch), scratch: m.newScratch(),
	}
	t.parts = partsOf(t.gradient, m.letters)
	return t
}

// rate returns the learning rate of a step; the first step is 1.
func rate(step int) float64 {
	if step < warmup {
		return peakRate * float64(step) / warmup
	}
	return peakRate / math.Sqrt(1+float64(step-warmup)/halfLife)
}

// step makes one step of gradient descent.
func (t *trainer) step() {
	t.Step++
	clear(t.gradient)
	t.corpus.batch(t.seed, t.Step, t.places)
	loss := 0.0
	for _, at := range t.places {
		seen, next := t.corpus.train[at:at+context], t.corpus.train[at+context]
		loss += t.model.learn(seen, next, 1/float64(len(t.places)), &t.parts, t.scratch)
	}
	loss /= float64(len(t.places))
	if t.Step == 1 {
		t.Loss = loss
	}
	t.Loss = smooth*t.Loss + (1-smooth)*loss
	t.adam(rate(t.Step))
}

func (t *trainer) adam(rate float64) {
	rate *= math.Sqrt(1-math.Pow(beta2, float64(t.Step))) / (1 - math.Pow(beta1, float64(t.Step)))
	params, first, moved := t.model.params, t.first[:len(t.gradient)], t.moved[:len(t.gradient)]
	for i, g := range t.gradient {
		first[i] = beta1*first[i] + (1-beta1)*g
		moved[i] = beta2*moved[i] + (1-beta2)*g*g
		params[i] -= rate * first[i] / (math.Sqrt(moved[i]) + epsilon)
	}
}

// evaluate returns the loss on the text that the model has not learned from.
func (t *trainer) evaluate() float64 {
	held, sum, n := t.corpus.held, 0.0, 0
	for at := 0; at+context < len(held); at++ {
		t.model.predict(held[at:at+context], t.scratch)
		sum -= math.Log(t.scratch.p[held[at+context]])
		n++
	}
	return sum / float64(max(n, 1))
}

// write returns n characters with which the model continues the first characters of the text.
func (t *trainer) write(n int) string {
	const coolness = 0.8 // below 1 probable letters become more probable
	seen := append([]uint8(nil), t.corpus.train[:context]...)
	random := rand.New(rand.NewPCG(t.seed, uint64(t.Step)))
	var text []rune
	for range n {
		t.model.predict(seen, t.scratch)
		for i, p := range t.scratch.p {
			t.scratch.p[i] = math.Log(p) / coolness
		}
		softmax(t.scratch.p)
		pick, left := 0, random.Float64()
		for i, p := range t.scratch.p {
			pick, left = i, left-p
			if left < 0 {
				break
			}
		}
		text = append(text, t.corpus.letters[pick])
		seen = append(seen[1:], uint8(pick))
	}
	return string(text)
}
