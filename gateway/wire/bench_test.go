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

func BenchmarkEncode(b *testing.B) {
	job := fullJob()
	b.Run("ours", func(b *testing.B) {
		b.ReportAllocs()
		var buf []byte
		for b.Loop() {
			buf = Append(buf[:0], job, false)
		}
	})
	b.Run("protojson", func(b *testing.B) {
		b.ReportAllocs()
		options := protojson.MarshalOptions{UseProtoNames: true}
		var buf []byte
		for b.Loop() {
			buf, _ = options.MarshalAppend(buf[:0], job)
		}
	})
}
