package main

import (
	"errors"
	"math/rand/v2"
	"slices"
)

// corpus is a text whose characters are numbers. The model does not learn from the last tenth; evaluate uses it.
type corpus struct {
	letters []rune // in order; the number of a letter is its index
	train   []uint8
	held    []uint8
}

func newCorpus(text string) (*corpus, error) {
	runes := []rune(text)
	letters := slices.Clone(runes)
	slices.Sort(letters)
	letters = slices.Compact(letters)
	if len(runes) < 20*context {
		return nil, errors.New("the text is too short to learn from: give it a thousand characters or more")
	}
	if len(letters) > 256 {
		return nil, errors.New("the text has more than 256 kinds of characters: a plainer one is wanted")
	}
	numbers := make([]uint8, len(runes))
	for i, r := range runes {
		n, _ := slices.BinarySearch(letters, r)
		numbers[i] = uint8(n)
	}
	cut := len(numbers) * 9 / 10
	return &corpus{letters: letters, train: numbers[:cut], held: numbers[cut:]}, nil
}

// batch fills places with the positions at which the contexts of a step begin. They depend only on seed and step, so a
// resumed training gets the same batches as one that never stopped.
func (c *corpus) batch(seed uint64, step int, places []int) {
	random := rand.New(rand.NewPCG(seed, uint64(step)))
	for i := range places {
		places[i] = random.IntN(len(c.train) - context)
	}
}
