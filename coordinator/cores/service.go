// Package cores implements CoreService: Cores, their executions and the decisions that people make for them, for the callers of a
// tenant. The interpreter of the leader (coordinator/interpreter) runs what is started here.
//
// Guarantees. Cores of another tenant are not found. Programs are checked when they come in. The values of an environment are
// encrypted before they are proposed, and never shown. An execution that is started with an idempotency key is started once.
package cores

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"unicode"

	"google.golang.org/grpc/codes"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/programs"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/cores"
	"github.com/mindcoordinator/mind/fsm/ident"
)

// State is the state of the cluster as this replica has it, and the way to change it.
type State interface {
	replica.Proposer
	View() *fsm.View
	// Read waits until the state has all writes that were acknowledged before the call, unless the call asked for stale.
	Read(ctx context.Context) (*fsm.View, error)
	// Newer waits for a view newer than an index.
	Newer(ctx context.Context, after uint64) (*fsm.View, error)
}

// Sealer encrypts texts for one owner.
type Sealer interface {
	SealText(owner string, plain []byte) ([]byte, error)
	OpenText(owner string, sealed []byte) ([]byte, error)
}

// Config configures a Service.
type Config struct {
	State    State
	Sealer   Sealer
	Programs *programs.Cache
	// Notifies says why a URL cannot get notices of decisions.
	Notifies func(url string) error
	Log      *slog.Logger
}

// Service implements CoreService.
type Service struct {
	v1.UnimplementedCoreServiceServer

	Config
}

// New makes a Service.
func New(c Config) *Service { return &Service{Config: c} }

// config has the settings of a Core beside its name and its program, as the state keeps them.
type config struct {
	RuntimeMode     string           `json:"runtime_mode,omitempty"`
	ConcurrencyMode string           `json:"concurrency_mode,omitempty"`
	EntityKeyField  string           `json:"entity_key_field,omitempty"`
	Plugins         []map[string]any `json:"plugins,omitempty"`
	ResourceLimits  map[string]any   `json:"resource_limits,omitempty"`
	CheckpointMode  string           `json:"checkpoint_mode,omitempty"`
	PrivilegeLevel  string           `json:"privilege_level,omitempty"`
	Metadata        map[string]any   `json:"metadata,omitempty"`
	NotifyURL       string           `json:"notify_url,omitempty"`
	// Names are those of the environment's values.
	Names []string `json:"environment_names,omitempty"`
}

func configOf(c *cores.Core) *config {
	out := new(config)
	_ = json.Unmarshal(c.Config, out) // The state has it from encode.
	return out
}

func (c *config) encode() ([]byte, error) {
	raw, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("storing the configuration of a Core: %w", err)
	}
	return raw, nil
}

var (
	runtimeModes     = []string{"event_driven", "interactive", "api", "model"}
	concurrencyModes = []string{"stateless", "entity", "singleton"}
	checkpointModes  = []string{"auto", "visual_queue", "routed"}
	privilegeLevels  = []string{"standard", "elevated", "admin"}
)

// notSlug matches what a slug has not.
var notSlug = regexp.MustCompile(`[^a-z0-9]+`)

// slugOf derives a slug from a name. A name in another script has a slug of its digest. Empty: nothing in the name is a letter
// or a digit.
func slugOf(name string) string {
	slug := strings.Trim(notSlug.ReplaceAllString(strings.ToLower(name), "-"), "-")
	if len(slug) > maxSlug {
		slug = strings.TrimRight(slug[:maxSlug], "-")
	}
	if slug == "" && strings.ContainsFunc(name, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
		sum := sha256.Sum256([]byte(name))
		return "core-" + hex.EncodeToString(sum[:5])
	}
	return slug
}

const (
	maxName = 128
	maxSlug = 63
)

// find finds a Core of the caller's tenant by its id or its slug. Another tenant's is not found.
func find(ctx context.Context, v *fsm.View, text string) (*cores.Core, error) {
	tenant := call.Of(ctx).Tenant
	if id, ok := ident.ParseCore(text); ok {
		if c, ok := v.Core(id); ok && c.Tenant == tenant {
			return c, nil
		}
	}
	if c, ok := v.CoreOf(tenant, text); ok {
		return c, nil
	}
	return nil, call.NotFound("Core", text)
}

// limit returns how many things a page has.
func limit(asked int32) (int, error) {
	switch {
	case asked == 0:
		return 50, nil
	case asked < 0 || asked > 500:
		return 0, call.Bad("limit", "must be 1 to 500")
	}
	return int(asked), nil
}

func oneOf(f *call.Faults, field, value string, allowed []string) {
	if value == "" {
		return
	}
	for _, a := range allowed {
		if a == value {
			return
		}
	}
	f.Bad(field, "is %q: %s are allowed", call.Clip(value, 64), strings.Join(allowed, ", "))
}

// invalid is a program that is refused.
func invalid(faults []string) error {
	return call.Errorf(codes.InvalidArgument, "INVALID_SOURCE_IR: %s", strings.Join(faults, "; "))
}
