package main

import (
	"math"
	"math/rand/v2"
)

const (
	context = 24  // characters that the model sees
	embed   = 12  // length of a character's embedding
	hidden  = 128 // units of the hidden layer
)

// model is Bengio's neural language model: the concatenated embeddings of the last characters, one hidden layer, and a
// softmax over the next character. All weights are in one slice, so that the optimizer and the checkpoint need not know
// the parts.
type model struct {
	letters int
	params  []float64
	weights
}

// weights has the parts of a slice of all weights, or of their gradient.
type weights struct {
	embedding []float64 // letters x embed
	w1        []float64 // context*embed x hidden
	b1        []float64 // hidden
	w2        []float64 // hidden x letters
	b2        []float64 // letters
}

func sizeOf(letters int) int {
	return letters*embed + context*embed*hidden + hidden + hidden*letters + letters
}

func partsOf(flat []float64, letters int) weights {
	take := func(n int) []float64 {
		part := flat[:n:n]
		flat = flat[n:]
		return part
	}
	return weights{
		embedding: take(letters * embed),
		w1:        take(context * embed * hidden),
		b1:        take(hidden),
		w2:        take(hidden * letters),
		b2:        take(letters),
	}
}

func newModel(letters int, seed uint64) *model {
	m := &model{letters: letters, params: make([]float64, sizeOf(letters))}
	m.weights = partsOf(m.params, letters)
	random := rand.New(rand.NewPCG(seed, math.MaxUint64)) // no step uses this sequence
	fill := func(w []float64, spread float64) {
		for i := range w {
			w[i] = random.NormFloat64() * spread
		}
	}
	fill(m.embedding, 0.5)
	fill(m.w1, 1/math.Sqrt(context*embed))
	fill(m.w2, 0.1/math.Sqrt(hidden))
	return m
}

// scratch has the memory of predict and learn: what a prediction computes is used for its gradient.
type scratch struct {
	x, h, p    []float64
	dh, dx, dz []float64
}

func (m *model) newScratch() *scratch {
	return &scratch{
		x: make([]float64, context*embed), h: make([]float64, hidden), p: make([]float64, m.letters),
		dh: make([]float64, hidden), dx: make([]float64, context*embed), dz: make([]float64, m.letters),
	}
}

// predict sets s.p to the probabilities of all letters after seen, which has context letters.
func (m *model) predict(seen []uint8, s *scratch) {
	for i, letter := range seen {
		copy(s.x[i*embed:(i+1)*embed], m.embedding[int(letter)*embed:])
	}
	copy(s.h, m.b1)
	for i, x := range s.x {
		axpy(s.h, x, m.w1[i*hidden:(i+1)*hidden])
	}
	for i, a := range s.h {
		s.h[i] = math.Tanh(a)
	}
	copy(s.p, m.b2)
	for i, h := range s.h {
		axpy(s.p, h, m.w2[i*m.letters:(i+1)*m.letters])
	}
	softmax(s.p)
}

// learn adds to g the gradient of the loss of one prediction, times weight, and returns that loss in nats.
func (m *model) learn(seen []uint8, next uint8, weight float64, g *weights, s *scratch) float64 {
	m.predict(seen, s)
	loss := -math.Log(s.p[next])
	for i, p := range s.p {
		s.dz[i] = p * weight
	}
	s.dz[next] -= weight

	add(g.b2, s.dz)
	for i, h := range s.h {
		row := m.w2[i*m.letters : (i+1)*m.letters]
		s.dh[i] = dot(row, s.dz) * (1 - h*h)
		axpy(g.w2[i*m.letters:(i+1)*m.letters], h, s.dz)
	}
	add(g.b1, s.dh)
	for i, x := range s.x {
		s.dx[i] = dot(m.w1[i*hidden:(i+1)*hidden], s.dh)
		axpy(g.w1[i*hidden:(i+1)*hidden], x, s.dh)
	}
	for i, letter := range seen {
		add(g.embedding[int(letter)*embed:(int(letter)+1)*embed], s.dx[i*embed:(i+1)*embed])
	}
	return loss
}

func softmax(z []float64) {
	highest := z[0]
	for _, v := range z {
		highest = max(highest, v)
	}
	sum := 0.0
	for i, v := range z {
		z[i] = math.Exp(v - highest)
		sum += z[i]
	}
	for i := range z {
		z[i] /= sum
	}
}

// axpy adds a*x to y.
func axpy(y []float64, a float64, x []float64) {
	x = x[:len(y)]
	for i := range y {
		y[i] += a * x[i]
	}
}

func add(y, x []float64) {
	x = x[:len(y)]
	for i := range y {
		y[i] += x[i]
	}
}

// dot returns the scalar product. It keeps four sums, because with one each addition would wait for the one before it.
func dot(a, b []float64) float64 {
	b = b[:len(a)]
	var s0, s1, s2, s3 float64
	for len(a) >= 4 && len(b) >= 4 {
		s0 += a[0] * b[0]
		s1 += a[1] * b[1]
		s2 += a[2] * b[2]
		s3 += a[3] * b[3]
		a, b = a[4:], b[4:]
	}
	for i := range a {
		s0 += a[i] * b[i]
	}
	return s0 + s1 + s2 + s3
}
