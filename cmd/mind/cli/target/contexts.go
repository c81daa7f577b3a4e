package target

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"github.com/mindcoordinator/mind/durable"
)

// Context has the address and the credentials of one cluster.
type Context struct {
	Addr   string `yaml:"addr,omitempty"`
	Token  string `yaml:"token,omitempty"`
	CACert string `yaml:"ca_cert,omitempty"`
	// Dev is the data directory of a `mind dev`.
	Dev string `yaml:"dev,omitempty"`
}

// Contexts is the file ~/.config/mind/config.yaml.
type Contexts struct {
	Current  string             `yaml:"current"`
	Contexts map[string]Context `yaml:"contexts"`
}

func contextsFile() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "mind", "config.yaml"), nil
}

// ReadContexts reads the user's configuration; without one there are no contexts.
func ReadContexts() (Contexts, error) {
	all := Contexts{Contexts: map[string]Context{}}
	file, err := contextsFile()
	if err != nil {
		return all, nil // no home directory: no contexts
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return all, err
	}
	if len(text) == 0 {
		// An older version could leave an empty file after a power cut. Continuing without contexts could reach another
		// cluster.
		return all, fmt.Errorf("%s is empty: restore a copy of it, or remove it and create it again with `mind context`", file)
	}
	// A misspelt key would silently drop an address or a token.
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&all); err != nil && !errors.Is(err, io.EOF) {
		return all, fmt.Errorf("%s is not valid: %w: repair it, or remove it and create it again with `mind context`", file, err)
	}
	return all, nil
}

// SaveContext writes a context into the user's configuration and makes it the current one.
func SaveContext(name string, c Context) error {
	all, err := ReadContexts()
	if err != nil {
		return err
	}
	if all.Contexts == nil {
		all.Contexts = map[string]Context{}
	}
	all.Contexts[name], all.Current = c, name
	return all.Write()
}

// Write replaces the user's configuration, durably.
func (all Contexts) Write() error {
	file, err := contextsFile()
	if err != nil {
		return err
	}
	text, err := yaml.Marshal(all)
	if err != nil {
		return err
	}
	if err := durable.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return durable.WriteFile(file, text, 0o600)
}
