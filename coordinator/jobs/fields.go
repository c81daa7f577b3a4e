package jobs

import (
	"google.golang.org/protobuf/reflect/protoreflect"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
)

// maxPageBytes bounds the jobs of a page, so that its JSON is about a mebibyte at most: a page of larger jobs ends early. A
// page has one job at least, however large.
const maxPageBytes = 512 << 10

const (
	// fieldNameBytes is about what the name of a field adds to the JSON of a job, and taskBytes what those of a task add.
	fieldNameBytes = 24
	taskBytes      = 128
)

// fields are the fields of a job that a list answers with.
type fields struct {
	all    bool
	wanted map[protoreflect.FieldNumber]bool
	// names is about how many bytes the names of the fields add to the JSON of each job.
	names int
}

var jobFieldDescriptors = (&v1.Job{}).ProtoReflect().Descriptor().Fields()

// jobFields reads the names of fields; none: all fields.
func jobFields(names []string) (*fields, error) {
	f := &fields{all: len(names) == 0, wanted: map[protoreflect.FieldNumber]bool{}}
	for _, name := range names {
		d := jobFieldDescriptors.ByName(protoreflect.Name(name))
		if d == nil {
			return nil, call.Bad("fields", "a job has no field %.64q", name)
		}
		f.wanted[d.Number()] = true
	}
	f.names = len(f.wanted) * fieldNameBytes
	if f.all {
		f.names = jobFieldDescriptors.Len() * fieldNameBytes
	}
	return f, nil
}

// only clears all fields that are not wanted.
func (f *fields) only(job *v1.Job) {
	if f.all {
		return
	}
	m := job.ProtoReflect()
	m.Range(func(d protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		if !f.wanted[d.Number()] {
			m.Clear(d)
		}
		return true
	})
}
