package wire

import (
	"fmt"
	"strconv"
	"strings"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

var nameMissing = Fault{Field: "name", Message: "is required: a label for people, such as \"support-lora-v3\""}

// DecodeJob is like Decode, for a job, which needs a name.
func DecodeJob(body []byte, job *v1.SubmitJobRequest) (faults []Fault, ignored []string) {
	text, fault := validJSON(body)
	if fault != nil {
		return []Fault{*fault}, nil
	}
	d := decoder{text: text}
	d.space()
	if !d.named(job) {
		d.faults = append(d.faults, nameMissing)
	}
	return d.faults, d.ignored
}

// named decodes a job and reports whether it has a name.
func (d *decoder) named(job *v1.SubmitJobRequest) bool {
	named := true
	d.value(func() {
		r := job.ProtoReflect()
		named = d.object(r, schemaOf(r.Descriptor()))&nameField != 0
	}, '{', "an object")
	return named
}

// nameField is the bit of SubmitJobRequest.name among the present fields.
const nameField = 1 << 1

// Batch is a body of POST /jobs/batch, job by job. An invalid job gets its own fault and does not keep the others from
// being submitted.
type Batch struct {
	Request *v1.SubmitJobsRequest // the valid jobs
	Items   []BatchItem
	sent    int // jobs in the body, more than items when there are too many
}

// BatchItem is one job of a batch.
type BatchItem struct {
	Faults  []Fault  // of the job, which is then not sent
	Ignored []string // names of fields that have no effect
}

// DecodeBatch returns the faults of the body as a whole, or the batch with the faults of each job.
func DecodeBatch(body []byte, most int) (*Batch, []Fault) {
	text, fault := validJSON(body)
	if fault != nil {
		return nil, []Fault{*fault}
	}
	b := &Batch{Request: &v1.SubmitJobsRequest{}}
	d := decoder{text: text}
	d.space()
	s := schemaOf(b.Request.ProtoReflect().Descriptor())
	d.value(func() {
		d.members(func(name string) {
			f := s.fields[name]
			if f == nil {
				d.unknown(s, name)
				return
			}
			d.push(step{name: name})
			if name == "jobs" {
				d.value(func() { b.readJobs(&d, most) }, '[', "a list of jobs")
			} else {
				d.field(b.Request.ProtoReflect(), f)
			}
			d.pop()
		})
	}, '{', "an object")
	if len(d.faults) == 0 {
		d.faults = b.check(most)
	}
	b.keepKeys()
	return b, d.faults
}

func (b *Batch) readJobs(d *decoder, most int) {
	b.Items, b.Request.Jobs, b.sent = nil, nil, 0
	d.elements(func(int) {
		if b.sent++; b.sent > most {
			d.skip()
			return
		}
		job := &v1.SubmitJobRequest{}
		one := decoder{text: d.text, at: d.at}
		named := one.named(job)
		d.at = one.at
		if !named && len(one.faults) < MaxFaults {
			one.faults = append(one.faults, nameMissing)
		}
		b.Items = append(b.Items, BatchItem{Faults: one.faults, Ignored: one.ignored})
		if len(one.faults) == 0 {
			b.Request.Jobs = append(b.Request.Jobs, job)
		}
	})
}

func (b *Batch) check(most int) []Fault {
	if len(b.Items) == 0 {
		return []Fault{{"jobs", "is required: a list of 1 to " + strconv.Itoa(most) + " jobs"}}
	}
	if b.sent > most {
		return []Fault{{"jobs", fmt.Sprintf("holds %d jobs; at most %d may be sent at once", b.sent, most)}}
	}
	keys := b.Request.IdempotencyKeys
	if len(keys) > 0 && len(keys) != len(b.Items) {
		return []Fault{{"idempotency_keys", fmt.Sprintf("holds %d keys for %d jobs; give one for each job, or none", len(keys), len(b.Items))}}
	}
	var faults []Fault
	for i, key := range keys {
		if key != "" && !CallersKey(key) && len(faults) < MaxFaults {
			faults = append(faults, Fault{fmt.Sprintf("idempotency_keys[%d]", i), KeyRule})
		}
	}
	return faults
}

// keepKeys drops the keys of jobs that are not sent.
func (b *Batch) keepKeys() {
	if len(b.Request.IdempotencyKeys) != len(b.Items) {
		return
	}
	var kept []string
	for i, key := range b.Request.IdempotencyKeys {
		if len(b.Items[i].Faults) == 0 {
			kept = append(kept, key)
		}
	}
	b.Request.IdempotencyKeys = kept
}

// WithIgnored adds the names of fields without effect to a message.
func WithIgnored(message string, ignored []string) string {
	if len(ignored) == 0 {
		return message
	}
	note := "ignored unknown fields: " + strings.Join(ignored, ", ")
	if message == "" {
		return note
	}
	return message + "; " + note
}
