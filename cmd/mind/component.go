package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"reflect"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/settings"
)

// component is a daemon of Mind: its keys, and the function that runs it.
type component struct {
	name    string
	short   string
	example string
	keys    []settings.Key
	// file, if set, receives the path of the configuration file.
	file *string
	// settle, if set, derives settings after the keys were read.
	settle func() error
	// identity returns the name of the component for its log, after the keys were read.
	identity func() string
	run      func(context.Context, *slog.Logger) error
	// gcPercent is the garbage collector's target percentage; 0: the runtime's default. GOGC, if set, overrides it.
	gcPercent int
}

// littleState is the gcPercent of a component with little state: rare collections cost it a few MiB and save much of its
// CPU time.
const littleState = 400

// logging are the keys that every component has.
type logging struct {
	level  string
	format string
}

func (l *logging) keys() []settings.Key {
	return []settings.Key{
		{Name: "log_level", Into: &l.level, Help: "debug, info, warn or error; default info"},
		{Name: "log_format", Into: &l.format, Help: "text or json, on stderr; default text"},
	}
}

func (l *logging) logger(out io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if l.level != "" {
		if err := level.UnmarshalText([]byte(l.level)); err != nil {
			return nil, fmt.Errorf("log_level %q: it must be debug, info, warn or error", l.level)
		}
	}
	options := &slog.HandlerOptions{Level: level}
	switch l.format {
	case "", "text":
		return slog.New(slog.NewTextHandler(out, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(out, options)), nil
	default:
		return nil, fmt.Errorf("log_format %q: it must be text or json", l.format)
	}
}

func (c component) command() *cobra.Command {
	var file string
	logs := &logging{}
	keys := append(c.keys, logs.keys()...)
	cmd := &cobra.Command{
		Use:     c.name + " --config FILE",
		Short:   c.short,
		Example: c.example,
		Args:    cobra.NoArgs,
	}
	cmd.Flags().StringVar(&file, "config", "", "YAML file with the keys below")
	set := settings.Bind(cmd.Flags(), keys)
	cmd.Long = c.short + ".\n\n" + keyTable(keys)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := set.Load(file, os.LookupEnv); err != nil {
			return exit.Misuse(fmt.Errorf("%s: %w", c.name, err))
		}
		if c.file != nil {
			*c.file = file
		}
		if c.settle != nil {
			if err := c.settle(); err != nil {
				return exit.Misuse(fmt.Errorf("%s: %w", c.name, err))
			}
		}
		logger, err := logs.logger(cmd.ErrOrStderr())
		if err != nil {
			return exit.Misuse(fmt.Errorf("%s: %w", c.name, err))
		}
		if missing := missingKeys(keys); len(missing) > 0 {
			return exit.Misuse(fmt.Errorf("%s needs %s: set it in --config FILE; see `%s --help`", cmd.CommandPath(), strings.Join(missing, ", "), cmd.CommandPath()))
		}
		if _, set := os.LookupEnv("GOGC"); !set && c.gcPercent != 0 {
			debug.SetGCPercent(c.gcPercent)
		}
		logger = logger.With("component", c.identity())
		logger.Info("starting", "version", version, "pid", os.Getpid())
		if err := c.run(cmd.Context(), logger); err != nil {
			return fmt.Errorf("%s: %w", c.identity(), err)
		}
		logger.Info("stopped")
		return nil
	}
	return cmd
}

// missingKeys returns the required keys that are not set.
func missingKeys(keys []settings.Key) (missing []string) {
	for _, k := range keys {
		if strings.HasSuffix(k.Help, "; required") && reflect.ValueOf(k.Into).Elem().IsZero() {
			missing = append(missing, k.Name)
		}
	}
	return missing
}

func keyTable(keys []settings.Key) string {
	width := 0
	for _, k := range keys {
		width = max(width, len(k.Name))
	}
	var b strings.Builder
	b.WriteString("Every key of the file is also a flag and an environment variable: data_dir, --data-dir, MIND_DATA_DIR.\n" +
		"A flag overrides a variable, and a variable overrides the file. Durations are written 500ms, 10s, 2h; lists as a,b or as YAML lists.\n\nKeys:\n")
	for _, k := range keys {
		fmt.Fprintf(&b, "  %-*s  %s\n", width, k.Name, k.Help)
	}
	return strings.TrimRight(b.String(), "\n")
}
