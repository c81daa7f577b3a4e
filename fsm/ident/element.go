package ident

import (
	"strconv"
	"strings"

	"github.com/mindcoordinator/mind/fsm/kernel"
)

// An array is one job whose elements run one by one. The last place of each entry is kept for arrays, so that an array is
// known by its index alone, and the id of an element is a flag, that index and the number of the element:
//
//	array     index (46 bits) << 16 | 0xffff
//	element   1 << 63 | index (46 bits) << 17 | number (17 bits)
const (
	elementFlag   Job = 1 << 63
	elementBits       = 17
	arrayPlace        = kernel.MaxIDsPerEntry - 1
	maxArrayIndex     = 1<<46 - 1
	// MaxElement is the highest number that an element can have.
	MaxElement = 1<<elementBits - 1
)

// Array is the id of an array by its index; false: the index is too high for one.
func Array(index uint64) (Job, bool) {
	return Job(index<<kernel.IDPositionBits | arrayPlace), index <= maxArrayIndex
}

// MayBeArray says whether a job can be an array. (Jobs of old logs can have such an id, too.)
func (id Job) MayBeArray() bool { return id&elementFlag == 0 && id&arrayPlace == arrayPlace }

// ArrayIndex is the index of an array.
func (id Job) ArrayIndex() uint64 { return uint64(id) >> kernel.IDPositionBits }

// Created is the index of the entry that created a job. (An array may have the index of one that follows, when there were
// several in an entry.)
func (id Job) Created() uint64 { return id.Submitted().ArrayIndex() }

// At is the id of an element of an array.
func (id Job) At(number uint32) Job {
	return elementFlag | Job(id.ArrayIndex()<<elementBits) | Job(number)
}

// Element is the array that an element belongs to, and its number; false: it is no element.
func (id Job) Element() (array Job, number uint32, ok bool) {
	if id&elementFlag == 0 {
		return 0, 0, false
	}
	array, _ = Array(uint64(id&^elementFlag) >> elementBits)
	return array, uint32(id & MaxElement), true
}

// Submitted is the job that a user submitted: the array of an element, otherwise the job itself.
func (id Job) Submitted() Job {
	if array, _, ok := id.Element(); ok {
		return array
	}
	return id
}

// Older says whether a job comes before another one of its kind: by age, and the elements of an array after it, by number.
func (id Job) Older(than Job) bool {
	if a, b := id.Submitted(), than.Submitted(); a != b {
		return a < b
	}
	return id < than
}

func parseElement(array, rest string) (Job, bool) {
	digits, closed := strings.CutSuffix(rest, "]")
	number, err := strconv.ParseUint(digits, 10, 32)
	id, ok := kernel.ParseID(jobPrefix, array)
	if !ok || !closed || err != nil || number > MaxElement || strconv.FormatUint(number, 10) != digits {
		return 0, false
	}
	again, fits := Array(Job(id).ArrayIndex())
	return again.At(uint32(number)), fits && again == Job(id)
}
