package runner

import (
	"path/filepath"
	"strconv"
	"testing"

	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/shim/confine"
)

// BenchmarkWalls measures what a control group and walls add to the life of a short task, with shims that are used again.
func BenchmarkWalls(b *testing.B) {
	paths := []string{"/usr", "/bin", "/lib", "/lib64", "/etc", "/proc", "/sys", "/run", "/opt", "/var"}
	for _, c := range []struct {
		name string
		add  func(s *shim.Spec, group string)
	}{
		{"none", func(*shim.Spec, string) {}},
		{"group", func(s *shim.Spec, group string) { s.Cgroup = group }},
		{"scope", func(s *shim.Spec, group string) { s.Walls.Scope = true }},
		{"group,scope", func(s *shim.Spec, group string) { s.Cgroup, s.Walls.Scope = group, true }},
		{"group,paths", func(s *shim.Spec, group string) {
			s.Cgroup, s.Walls = group, confine.Walls{Scope: true, Read: paths, Write: []string{"/tmp", "/dev/null"}}
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			const parallel = 4
			s, parent := newSpare(b, parallel)
			defer s.Close()
			groups := delegated(b)
			slots := make(chan struct{}, parallel)
			for i := 0; b.Loop(); i++ {
				slots <- struct{}{}
				go func() {
					defer func() { <-slots }()
					spec := newSpec("/bin/true")
					c.add(&spec, filepath.Join(groups, strconv.Itoa(i)))
					h, err := s.Start(filepath.Join(parent, strconv.Itoa(i)), spec, nil)
					if err != nil {
						b.Error(err)
						return
					}
					exited(b, h)
				}()
			}
			for range parallel {
				slots <- struct{}{}
			}
		})
	}
}
