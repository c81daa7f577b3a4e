package shim

import "strconv"

// ShellWord begins the line by which an agent asks for a shell, on a connection of its own: the word, and the bytes of an
// encoded Shell that follow the line. File descriptors come with the line: the terminal, or stdin, stdout and stderr. The
// shim answers "shell PID" or "refused TEXT", and later "ended CODE". The end of the connection ends the shell.
const ShellWord = "shell"

// MaxShell limits an encoded Shell.
const MaxShell = 128 << 10

// Shell is a process that a user starts beside the command of a task, such as a shell.
type Shell struct {
	Argv []string
	// Env is added to the environment of the task.
	Env []string
	// Terminal: the process gets a terminal of its own.
	Terminal bool
}

// descriptors returns how many file descriptors come with the request.
func (s *Shell) descriptors() int {
	if s.Terminal {
		return 1
	}
	return 3
}

// Encode returns the request as an agent sends it.
func (s *Shell) Encode() []byte {
	var body []byte
	add := func(name, value string) {
		body = append(append(body, name...), ' ')
		body = append(strconv.AppendQuote(body, value), '\n')
	}
	for _, arg := range s.Argv {
		add("arg", arg)
	}
	for _, env := range s.Env {
		add("env", env)
	}
	if s.Terminal {
		add("terminal", "")
	}
	line := ShellWord + " " + strconv.Itoa(len(body)) + "\n"
	return append([]byte(line), body...)
}

// decode parses what follows the line.
func (s *Shell) decode(data []byte) bool {
	for len(data) > 0 {
		end, space := 0, 0
		for end < len(data) && data[end] != '\n' {
			end++
		}
		for space < end && data[space] != ' ' {
			space++
		}
		if end == len(data) || space == end {
			return false
		}
		value, err := strconv.Unquote(string(data[space+1 : end]))
		if err != nil {
			return false
		}
		switch string(data[:space]) {
		case "arg":
			s.Argv = append(s.Argv, value)
		case "env":
			s.Env = append(s.Env, value)
		case "terminal":
			s.Terminal = true
		default:
			return false // a newer agent relies on it
		}
		data = data[end+1:]
	}
	return len(s.Argv) > 0 && s.Argv[0] != ""
}
