package launcher

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// Fault is an error of a launcher: the field, and a sentence that says how to correct it.
type Fault struct{ Field, Message string }

func (f *Fault) Error() string { return f.Field + ": " + f.Message }

// Limits of a launcher.
const (
	maxArgs  = 256
	maxNames = 1024
	maxText  = 4096
	// MaxBytes limits the total length of all texts of a launcher.
	MaxBytes = 32 << 10
)

// Check returns the first fault of a launcher, nil if there is none.
func Check(l *v1.Launcher) error {
	if !slices.Contains(Frameworks, l.GetFramework()) {
		return &Fault{"framework", fmt.Sprintf("there is no framework %q: they are %s", clip(l.GetFramework()), strings.Join(Frameworks, ", "))}
	}
	if len(l.GetArgv()) == 0 {
		return &Fault{"argv", "is empty: give the program and its arguments"}
	}
	total := 0
	for _, c := range []struct {
		field string
		argv  []string
	}{{"argv", l.GetArgv()}, {"distributed_argv", l.GetDistributedArgv()}} {
		n, err := checkArgv(c.field, c.argv)
		if err != nil {
			return err
		}
		total += n
	}
	for _, name := range slices.Sorted(maps.Keys(l.GetEnvironment())) {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return &Fault{"environment", fmt.Sprintf("%q is not a valid name of a variable", clip(name))}
		}
		value := l.GetEnvironment()[name]
		if err := checkText("environment."+clip(name), value); err != nil {
			return err
		}
		total += len(name) + len(value)
	}
	for _, name := range l.GetHyperparameters() {
		if name == "" || len(name) > 128 || strings.ContainsAny(name, "= \x00") {
			return &Fault{"hyperparameters", fmt.Sprintf("%q is not a valid name of a hyperparameter", clip(name))}
		}
		total += len(name)
	}
	for _, name := range l.GetTrainingTypes() {
		if v, ok := v1.TrainingType_Value_value[name]; !ok || v == 0 {
			return &Fault{"training_types", fmt.Sprintf("%q is not one of SFT, LORA, QLORA, DPO, RLHF, CONTINUED_PRETRAIN, FULL_FINETUNE", clip(name))}
		}
		total += len(name)
	}
	switch {
	case len(l.GetHyperparameters()) > maxNames || len(l.GetEnvironment()) > maxNames || len(l.GetTrainingTypes()) > maxNames:
		return &Fault{"launcher", fmt.Sprintf("has more than %d variables, hyperparameters or training types", maxNames)}
	case total > MaxBytes:
		return &Fault{"launcher", fmt.Sprintf("has %d bytes; at most %d are allowed: put long texts into a script", total, MaxBytes)}
	}
	return nil
}

func checkArgv(field string, argv []string) (int, error) {
	if len(argv) > maxArgs {
		return 0, &Fault{field, fmt.Sprintf("has %d elements; at most %d are allowed", len(argv), maxArgs)}
	}
	total := 0
	for i, arg := range argv {
		at := fmt.Sprintf("%s[%d]", field, i)
		if i == 0 && arg == "" {
			return 0, &Fault{at, "is the program and must not be empty"}
		}
		total += len(arg)
		if name, ok := alone(arg); ok {
			// A placeholder may expand to nothing, so it cannot be the program.
			if p, known := placeholder(name); known && p.List && (i > 0 || name == ScriptCommand) {
				continue
			}
		}
		if err := checkText(at, arg); err != nil {
			return 0, err
		}
	}
	return total, nil
}

func checkText(field, text string) error {
	if len(text) > maxText {
		return &Fault{field, fmt.Sprintf("has %d bytes; at most %d are allowed", len(text), maxText)}
	}
	if strings.ContainsRune(text, 0) {
		return &Fault{field, "must not contain a NUL character"}
	}
	if _, err := ExpandText(text, Values{}); err != nil {
		return &Fault{field, err.Error()}
	}
	return nil
}

// clip shortens a text for a message.
func clip(text string) string {
	if len(text) > 64 {
		return text[:64]
	}
	return text
}
