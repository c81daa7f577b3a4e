package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
)

// The format of a BoltDB file, version 2. Numbers are in the byte order of the machine.
const (
	boltMagic      = 0xED0CDAED
	boltVersion    = 2
	boltHeader     = 16 // bytes of the header of a page
	boltElement    = 16 // bytes of an element of a branch or leaf
	boltMetaBytes  = 64
	boltBranch     = 0x01
	boltLeaf       = 0x02
	boltFreelist   = 0x10
	boltIsBucket   = 0x01
	boltNoFreelist = ^uint64(0)
)

// BoltWalk is the result of reading all pages of a BoltDB file that the newest commit reaches.
type BoltWalk struct {
	file     *os.File
	size     int64
	pageSize int64
	// highest is the number of pages according to the commit.
	highest uint64
	seen    map[uint64]bool
	buckets map[string][]uint64
	// keysIn counts the keys of each bucket, and marked says that the file has the mark.
	keysIn map[string]int
	marked bool

	Flaws []Flaw
	// Unreadable says that BoltDB must not open the file.
	Unreadable bool
}

// Flaw is a fault of a file. Index is the index of the first entry that it affects; 0: unknown.
type Flaw struct {
	Index   uint64
	Problem string
}

// maxFlaws limits the flaws of a file, because a file with many flaws need not be described entry by entry.
const maxFlaws = 100

type boltMeta struct {
	pageSize             uint32
	root, freelist, high uint64
	tx                   uint64
}

// WalkBolt reads a BoltDB file. It returns an error only if the file cannot be read at all.
func WalkBolt(path string) (*BoltWalk, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the log store: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("open the log store: %w", err)
	}
	w := &BoltWalk{file: f, size: info.Size(), seen: map[uint64]bool{}, buckets: map[string][]uint64{}, keysIn: map[string]int{}}
	meta, ok := w.metas()
	if !ok {
		return w, nil
	}
	w.pageSize, w.highest = int64(meta.pageSize), meta.high
	if need := int64(meta.high) * w.pageSize; meta.high > uint64(w.size/w.pageSize) {
		w.damage(nil, "the file has %d bytes and should have %d: it was cut off", w.size, need)
		return w, nil
	}
	if meta.freelist != boltNoFreelist {
		w.freelist(meta.freelist)
	}
	w.bucket(meta.root, "")
	return w, nil
}

func (w *BoltWalk) damage(key []byte, format string, args ...any) {
	w.Unreadable = true
	f := Flaw{Problem: fmt.Sprintf(format, args...)}
	if len(key) == 8 {
		f.Index = binary.BigEndian.Uint64(key)
	}
	if len(w.Flaws) < maxFlaws {
		w.Flaws = append(w.Flaws, f)
	}
}

// Has reports whether the file has a bucket.
func (w *BoltWalk) Has(bucket string) bool { _, ok := w.buckets[bucket]; return ok }

// Indices returns the indices of the entries of the log, in order.
func (w *BoltWalk) Indices() []uint64 { return w.buckets[boltLogs] }

// metas reads the two meta pages, one of which names the newest commit. If one of them is damaged, BoltDB uses the
// other one without a message, and may lose a commit.
func (w *BoltWalk) metas() (boltMeta, bool) {
	var sound []boltMeta
	first, err := w.meta(0)
	size := int64(os.Getpagesize())
	if err == nil {
		size = int64(first.pageSize)
		sound = append(sound, first)
	} else {
		w.Flaws = append(w.Flaws, Flaw{Problem: "meta page 0 is damaged: " + err.Error() + "; the newest commit may be lost"})
	}
	second, err := w.meta(size)
	if err == nil {
		sound = append(sound, second)
	} else {
		w.Flaws = append(w.Flaws, Flaw{Problem: "meta page 1 is damaged: " + err.Error() + "; the newest commit may be lost"})
	}
	switch len(sound) {
	case 0:
		w.Unreadable = true
		return boltMeta{}, false
	case 2:
		if sound[1].tx > sound[0].tx {
			return sound[1], true
		}
	}
	return sound[0], true
}

func (w *BoltWalk) meta(at int64) (boltMeta, error) {
	page := make([]byte, boltHeader+boltMetaBytes)
	if _, err := w.file.ReadAt(page, at); err != nil {
		return boltMeta{}, fmt.Errorf("it cannot be read: %w", err)
	}
	b, order := page[boltHeader:], binary.NativeEndian
	sum := fnv.New64a()
	_, _ = sum.Write(b[:boltMetaBytes-8])
	m := boltMeta{pageSize: order.Uint32(b[8:]), root: order.Uint64(b[16:]), freelist: order.Uint64(b[32:]), high: order.Uint64(b[40:]), tx: order.Uint64(b[48:])}
	switch {
	case order.Uint32(b) != boltMagic:
		return m, errors.New("it does not begin as one of BoltDB")
	case order.Uint32(b[4:]) != boltVersion:
		return m, fmt.Errorf("version %d", order.Uint32(b[4:]))
	case order.Uint64(b[boltMetaBytes-8:]) != sum.Sum64():
		return m, errors.New("its checksum is wrong")
	case m.pageSize < 512 || m.pageSize > 1<<20:
		return m, fmt.Errorf("pages of %d bytes", m.pageSize)
	}
	return m, nil
}

// page reads a page that its parent names, with its overflow pages.
func (w *BoltWalk) page(id uint64, key []byte) ([]byte, bool) {
	if id < 2 || id >= w.highest {
		w.damage(key, "a page is said to be number %d of %d", id, w.highest)
		return nil, false
	}
	head := make([]byte, boltHeader)
	if _, err := w.file.ReadAt(head, int64(id)*w.pageSize); err != nil {
		w.damage(key, "page %d cannot be read: %v", id, err)
		return nil, false
	}
	order := binary.NativeEndian
	if self := order.Uint64(head); self != id {
		w.damage(key, "page %d says that it is page %d", id, self)
		return nil, false
	}
	more := uint64(order.Uint32(head[12:]))
	if id+more >= w.highest {
		w.damage(key, "page %d goes on for %d pages, beyond the end of the file", id, more)
		return nil, false
	}
	for n := id; n <= id+more; n++ {
		if w.seen[n] {
			w.damage(key, "page %d is used twice", n)
			return nil, false
		}
		w.seen[n] = true
	}
	page := make([]byte, int64(more+1)*w.pageSize)
	if _, err := w.file.ReadAt(page, int64(id)*w.pageSize); err != nil {
		w.damage(key, "page %d cannot be read: %v", id, err)
		return nil, false
	}
	return page, true
}

// freelist checks the list of free pages.
func (w *BoltWalk) freelist(id uint64) {
	page, ok := w.page(id, nil)
	if ok && binary.NativeEndian.Uint16(page[8:]) != boltFreelist {
		w.damage(nil, "page %d is not the list of free pages", id)
	}
}

// bucket walks the tree below a root page. name is "" for the root bucket, whose values are the other buckets.
func (w *BoltWalk) bucket(root uint64, name string) {
	if page, ok := w.page(root, nil); ok {
		w.tree(page, root, name, nil, nil)
	}
}

// tree walks a page whose keys must be at least low and less than high.
func (w *BoltWalk) tree(page []byte, id uint64, name string, low, high []byte) {
	order := binary.NativeEndian
	flags, count := order.Uint16(page[8:]), int(order.Uint16(page[10:]))
	if flags != boltBranch && flags != boltLeaf {
		w.damage(low, "page %d is neither branch nor leaf (%#x)", id, flags)
		return
	}
	if boltHeader+count*boltElement > len(page) || flags == boltBranch && count == 0 {
		w.damage(low, "page %d is said to have %d elements", id, count)
		return
	}
	keys := make([][]byte, count)
	for i := range count {
		at := boltHeader + i*boltElement
		e := page[at : at+boltElement]
		pos, size, value := order.Uint32(e), order.Uint32(e[4:]), uint32(0)
		if flags == boltLeaf {
			pos, size, value = order.Uint32(e[4:]), order.Uint32(e[8:]), order.Uint32(e[12:])
		}
		from := uint64(at) + uint64(pos)
		if from+uint64(size)+uint64(value) > uint64(len(page)) {
			w.damage(low, "element %d of page %d lies outside of the page", i, id)
			return
		}
		keys[i] = page[from : from+uint64(size)]
		before := low
		if i > 0 {
			before = keys[i-1]
		}
		above := bytes.Compare(keys[i], before)
		if before != nil && (above < 0 || above == 0 && i > 0) || high != nil && bytes.Compare(keys[i], high) >= 0 {
			w.damage(low, "the keys of page %d are out of order at element %d", id, i)
			return
		}
		if flags == boltLeaf {
			w.leaf(name, id, order.Uint32(e), keys[i], page[from+uint64(size):from+uint64(size)+uint64(value)])
		}
	}
	if flags == boltLeaf {
		return
	}
	for i := range count {
		child := order.Uint64(page[boltHeader+i*boltElement+8:])
		until := high
		if i+1 < count {
			until = keys[i+1]
		}
		if below, ok := w.page(child, keys[i]); ok {
			w.tree(below, child, name, keys[i], until)
		}
	}
}

// leaf records one key with its value.
func (w *BoltWalk) leaf(name string, id uint64, flags uint32, key, value []byte) {
	switch {
	case name == "" && flags&boltIsBucket != 0:
		if len(value) < 16 {
			w.damage(nil, "bucket %q is cut off", key)
			return
		}
		w.buckets[string(key)] = []uint64{}
		if root := binary.NativeEndian.Uint64(value); root != 0 {
			w.bucket(root, string(key))
		} else if inline := value[16:]; len(inline) < boltHeader {
			w.damage(nil, "bucket %q is cut off", key)
		} else {
			w.tree(inline, id, string(key), nil, nil)
		}
	case (name == boltVotes || name == walVotes) && flags == boltIsBucket && string(key) == mark:
		w.marked = true
	case name == "" || flags != 0:
		w.damage(nil, "page %d has a key %q that does not belong there", id, key)
	case name == boltLogs && len(key) != 8:
		w.damage(nil, "page %d has an entry whose index has %d bytes", id, len(key))
	case name == boltLogs:
		w.buckets[name] = append(w.buckets[name], binary.BigEndian.Uint64(key))
	default:
		w.keysIn[name]++
	}
}
