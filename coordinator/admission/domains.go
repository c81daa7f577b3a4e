package admission

import (
	"strings"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/domains"
)

var topologies = map[string]uint8{
	"": work.TopologyAny, "any": work.TopologyAny, "nvlink": work.TopologyNVLink, "single_node": work.TopologySingleNode,
}

const topologyForm = "is not one of any, nvlink, single_node and one of same_domain, prefer, spread, with a comma between them"

// topologyOf reads the requirements on the GPUs of a node, and between the nodes.
func topologyOf(f *call.Faults, text string) (on uint8, between domains.Between) {
	if text == "" {
		return work.TopologyAny, domains.Anywhere
	}
	node := false
	for word := range strings.SplitSeq(text, ",") {
		word = strings.TrimSpace(word)
		if t, ok := topologies[word]; ok && word != "" && !node {
			on, node = t, true
			continue
		}
		b, ok := domains.Parse(word)
		if !ok || between != domains.Anywhere {
			f.Bad("resource_config.topology", "%q %s", text, topologyForm)
			return on, between
		}
		between = b
	}
	return on, between
}

// domainsOf reads the requirements on places: domains, excluded nodes, and whether to pack.
func domainsOf(f *call.Faults, r *v1.ResourceConfig, between domains.Between, inv Inventory) (s work.Shape) {
	switch r.GetPlacement() {
	case "", "pack":
	case "spread":
		s.Loose = true
	default:
		f.Bad("resource_config.placement", "%q is not one of pack, spread", r.GetPlacement())
	}
	var err error
	for _, list := range r.GetExcludeNodes() {
		for one := range strings.SplitSeq(list, ",") {
			if strings.TrimSpace(one) == "" {
				f.Bad("resource_config.exclude_nodes", "%q names no node: give names, or patterns such as rack1-*", list)
				break
			}
		}
	}
	if s.Exclude, err = domains.CanonicalExclude(r.GetExcludeNodes()); err != nil {
		f.Bad("resource_config.exclude_nodes", "%s", err)
	}
	nodes, segment := int(r.GetNodeCount()), int(r.GetTopologySegment())
	switch {
	case segment == 0:
	case segment < 0 || segment > maxNodes:
		f.Bad("resource_config.topology_segment", "%d must be between 0 and %d", segment, maxNodes)
	case between != domains.Same:
		f.Bad("resource_config.topology_segment", "is %d, which only the topology same_domain has", segment)
	case nodes == 0 || nodes%segment != 0:
		f.Bad("resource_config.topology_segment", "is %d: set node_count (--nodes) to a multiple of it", segment)
	}
	if between == domains.Anywhere {
		if r.GetTopologyLevel() != "" {
			f.Bad("resource_config.topology_level", "is %q, which only the topologies same_domain, prefer and spread have", r.GetTopologyLevel())
		}
		return s
	}
	s.Between, s.Segment = between, uint16(segment)
	all, level, found := inv.Levels()
	if name := r.GetTopologyLevel(); name != "" {
		if level, found = domains.Find(all, name); !found {
			f.Bad("resource_config.topology_level", "%q is no level; the levels are: %s", name, domains.Names(all))
		}
	} else if !found {
		level = all[0] // So far no node is in any domain.
	}
	s.Level = level.Label
	return s
}

// withDomains adds the result of domainsOf to a shape. A job on one node is in one domain wherever it is.
func withDomains(shape, more work.Shape) work.Shape {
	shape.Exclude, shape.Loose = more.Exclude, more.Loose
	if shape.Nodes != 1 {
		shape.Between, shape.Level, shape.Segment = more.Between, more.Level, more.Segment
	}
	return shape
}
