package wire

import (
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

var submitBody = []byte(`{"name":"bench","command_config":{"argv":["/bin/true"],"cwd":"/tmp","environment":{"A":"1"}},` +
	`"resource_config":{"gpu_count":1,"gpu_type":"H100"},"scheduling_config":{"queue":"default","priority":5},"labels":{"team":"bench"}}`)

func BenchmarkDecode(b *testing.B) {
	b.Run("ours", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if faults, _ := Decode(submitBody, &v1.SubmitJobRequest{}); len(faults) > 0 {
				b.Fatal(faults)
			}
		}
	})
	b.Run("protojson", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := protojson.Unmarshal(submitBody, &v1.SubmitJobRequest{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkEncode writes a page of 100 jobs.
func BenchmarkEncode(b *testing.B) {
	page := &v1.ListJobsResponse{NextPageToken: "next"}
	for range 100 {
		page.Jobs = append(page.Jobs, fullJob())
	}
	b.Run("ours", func(b *testing.B) {
		b.ReportAllocs()
		var buf []byte
		for b.Loop() {
			buf = Append(buf[:0], page, false)
		}
		b.SetBytes(int64(len(buf)))
	})
	b.Run("protojson", func(b *testing.B) {
		b.ReportAllocs()
		options := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}
		var buf []byte
		for b.Loop() {
			buf, _ = options.MarshalAppend(buf[:0], page)
		}
		b.SetBytes(int64(len(buf)))
	})
}
