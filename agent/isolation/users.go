package isolation

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/mindcoordinator/mind/agent/shim/confine"
)

// User is the user of the system as which tasks of a tenant run.
type User struct {
	confine.User
	// Name, Home and Shell are empty if the system has no entry for the user.
	Name, Home, Shell string
}

// Users says as which user tasks run.
type Users struct {
	byTenant map[string]*User
	others   *User // nil: tenants without a user run nothing
}

// UsersConfig are the settings of the operator.
type UsersConfig struct {
	// ByTenant are names or UID:GID, by tenant. Default is that of all other tenants; empty: they run nothing here.
	ByTenant map[string]string
	Default  string
	// MinUID is the lowest user id that tasks may have; 0: 1000.
	MinUID int
}

// OpenUsers looks up the users. It returns nil if there are no settings: tasks run as the user of the agent.
func OpenUsers(cfg UsersConfig) (*Users, error) {
	if len(cfg.ByTenant) == 0 && cfg.Default == "" {
		return nil, nil
	}
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("users and default_user need an agent that runs as root: it runs as user %d", os.Geteuid())
	}
	lowest := cfg.MinUID
	if lowest == 0 {
		lowest = 1000
	}
	u := &Users{byTenant: map[string]*User{}}
	var err error
	for tenant, name := range cfg.ByTenant {
		if u.byTenant[tenant], err = lookup(name, lowest); err != nil {
			return nil, fmt.Errorf("user of tenant %s: %w", tenant, err)
		}
	}
	if cfg.Default != "" {
		if u.others, err = lookup(cfg.Default, lowest); err != nil {
			return nil, fmt.Errorf("default_user: %w", err)
		}
	}
	return u, nil
}

// Of returns the user of a tenant. With a nil Users there is none, and no error: tasks run as the user of the agent.
func (u *Users) Of(tenant string) (*User, error) {
	if u == nil {
		return nil, nil
	}
	if one, ok := u.byTenant[tenant]; ok {
		return one, nil
	}
	if u.others == nil {
		return nil, fmt.Errorf("tenant %s has no user here, and the agent has no default_user: name one in users of the agent", tenant)
	}
	return u.others, nil
}

// Reach returns an error if a user cannot pass through the directories to a path.
func (u *Users) Reach(path string) error {
	all := slices.Collect(maps.Values(u.byTenant))
	if u.others != nil {
		all = append(all, u.others)
	}
	for _, one := range all {
		var closed string
		err := one.User.As(func() {
			for dir := path; dir != "/"; dir = filepath.Dir(dir) {
				if _, err := os.Stat(filepath.Join(dir, "x")); errors.Is(err, os.ErrPermission) {
					closed = dir
				}
			}
		})
		if err != nil {
			return err
		}
		if closed != "" {
			return fmt.Errorf("user %d of tasks cannot reach %s: allow passing through %s (chmod o+x)", one.UID, path, closed)
		}
	}
	return nil
}

// As runs a function with the rights on files of the user of a tenant.
func (u *Users) As(tenant string, f func()) error {
	one, err := u.Of(tenant)
	if err != nil {
		return err
	}
	return one.User.As(f)
}

// lookup finds a user by name, or by UID:GID for one without an entry.
func lookup(name string, lowest int) (*User, error) {
	var u User
	var err error
	if uid, gid, numbers := strings.Cut(name, ":"); numbers {
		if u.UID, err = number(uid); err != nil {
			return nil, err
		}
		if u.GID, err = number(gid); err != nil {
			return nil, err
		}
	} else if u, err = entry(name); err != nil {
		return nil, err
	}
	if u.UID == 0 || int(u.UID) < lowest {
		return nil, fmt.Errorf("%q has user id %d: jobs run with ids from %d on (min_uid), and never as root", name, u.UID, lowest)
	}
	if slices.Contains(append(u.Groups, u.GID), 0) {
		return nil, fmt.Errorf("%q is in the group of root: jobs never are", name)
	}
	return &u, nil
}

// entry asks the system for a user. getent and id know the users of directory services, which a program without the C library does
// not.
func entry(name string) (u User, err error) {
	out, err := exec.Command("getent", "passwd", "--", name).Output()
	if err != nil {
		return u, fmt.Errorf("%q: the system has no such user (getent passwd): %w", name, err)
	}
	// name:password:UID:GID:comment:home:shell
	fields := strings.Split(strings.TrimSpace(string(out)), ":")
	if len(fields) != 7 {
		return u, fmt.Errorf("%q: getent says %q", name, strings.TrimSpace(string(out)))
	}
	u = User{Name: fields[0], Home: fields[5], Shell: cmp.Or(fields[6], "/bin/sh")}
	if u.UID, err = number(fields[2]); err != nil {
		return u, err
	}
	if u.GID, err = number(fields[3]); err != nil {
		return u, err
	}
	if out, err = exec.Command("id", "-G", "--", name).Output(); err != nil {
		return u, fmt.Errorf("groups of %q (id -G): %w", name, err)
	}
	for _, text := range strings.Fields(string(out)) {
		group, err := number(text)
		if err != nil {
			return u, err
		}
		u.Groups = append(u.Groups, group)
	}
	return u, nil
}

func number(text string) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("%q is no id of a user or group", text)
	}
	return uint32(n), nil
}
