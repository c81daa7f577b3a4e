package series

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"slices"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// MaxFile limits the bytes of a file.
const MaxFile = 1 << 20

// The largest values in a file: a width that no task reaches, and the last millisecond of the year 9999.
const (
	maxWidth = 1 << 40
	maxTime  = 253_402_300_799_999
)

// A file consists of magic, a checksum of the rest, and a v1.TaskSeries. It is not synced, so it may be torn after a
// power cut.
var (
	magic      = []byte("mind series 1\n")
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// ErrDamaged is returned for a file that does not hold a valid Set.
var ErrDamaged = errors.New("damaged")

// Encode returns the Set as a file.
func (s *Set) Encode() ([]byte, error) {
	out := &v1.TaskSeries{MetricsOffset: s.MetricsOffset, Step: s.Step}
	for _, name := range slices.Sorted(maps.Keys(s.histories)) {
		out.Histories = append(out.Histories, s.histories[name].encode())
	}
	body, err := proto.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("encode series: %w", err)
	}
	return seal(body), nil
}

func seal(body []byte) []byte {
	data := make([]byte, 0, len(magic)+4+len(body))
	data = append(data, magic...)
	data = binary.BigEndian.AppendUint32(data, crc32.Checksum(body, castagnoli))
	return append(data, body...)
}

func (h *history) encode() *v1.NumberHistory {
	out := &v1.NumberHistory{Name: h.Name, Unit: h.Unit, Shared: h.Shared, NotFinite: h.notFinite, Width: h.width}
	var at, step int64
	for _, b := range h.buckets {
		out.Times, out.Steps = append(out.Times, b.at-at), append(out.Steps, b.step-step)
		at, step = b.at, b.step
		out.Counts, out.Mins, out.Maxs = append(out.Counts, b.count), append(out.Mins, b.min), append(out.Maxs, b.max)
		out.Means, out.Lasts = append(out.Means, b.mean), append(out.Lasts, b.last)
	}
	return out
}

// Decode reads a file, which the task may have written.
func Decode(data []byte) (*Set, error) {
	body, ok := bytes.CutPrefix(data, magic)
	if !ok || len(body) < 4 || len(data) > MaxFile {
		return nil, ErrDamaged
	}
	sum := binary.BigEndian.Uint32(body)
	file := &v1.TaskSeries{}
	if body = body[4:]; crc32.Checksum(body, castagnoli) != sum || proto.Unmarshal(body, file) != nil {
		return nil, ErrDamaged
	}
	s := New()
	s.MetricsOffset, s.Step = max(0, file.GetMetricsOffset()), max(NoStep, file.GetStep())
	for _, one := range file.GetHistories() {
		h, ok := decode(one)
		if _, twice := s.histories[h.Name]; !ok || twice {
			return nil, ErrDamaged
		}
		if h.Unit != "" {
			s.measured++
		}
		s.histories[h.Name] = h
	}
	if s.measured > MaxMeasured || len(s.histories)-s.measured > MaxReported {
		return nil, ErrDamaged
	}
	for _, h := range s.histories {
		h.fit(s.each())
	}
	return s, nil
}

func decode(in *v1.NumberHistory) (h *history, ok bool) {
	h = &history{
		Number:    Number{Name: in.GetName(), Unit: in.GetUnit(), Shared: in.GetShared()},
		notFinite: max(0, in.GetNotFinite()), width: in.GetWidth(),
	}
	n := len(in.GetTimes())
	for _, length := range []int{len(in.GetSteps()), len(in.GetCounts()), len(in.GetMins()), len(in.GetMaxs()), len(in.GetMeans()), len(in.GetLasts())} {
		if length != n {
			return h, false
		}
	}
	if !Nameable(h.Name) || len(h.Unit) > MaxName || h.width < 1 || h.width > maxWidth || n > MostBuckets {
		return h, false
	}
	var at, step int64
	for i := range n {
		at, step = at+in.GetTimes()[i], step+in.GetSteps()[i]
		b := bucket{
			at: at, step: step, count: in.GetCounts()[i], min: in.GetMins()[i], max: in.GetMaxs()[i], mean: in.GetMeans()[i], last: in.GetLasts()[i],
		}
		if b.at < 0 || b.at > maxTime || b.step < NoStep || b.count < 1 || b.count > h.width || !within(b.min, b.max, b.mean) || !within(b.min, b.max, b.last) {
			return h, false
		}
		h.buckets = append(h.buckets, b)
	}
	return h, true
}

// within reports whether low <= x <= high and all of them are finite.
func within(low, high, x float64) bool {
	return low <= x && x <= high && !math.IsInf(low, 0) && !math.IsInf(high, 0)
}

// Nameable reports whether a number can have a name.
func Nameable(name string) bool {
	if name == "" || len(name) > MaxName {
		return false
	}
	plain := true
	for i := range len(name) {
		plain = plain && ' ' <= name[i] && name[i] <= '~'
	}
	if plain || !utf8.ValidString(name) {
		return plain
	}
	for _, r := range name {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}
