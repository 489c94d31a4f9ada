// Package rlocktest starts a server of locks for a test: `rlock dev`, the engine of the rlock module on locks in memory.
// Each test has a server of its own, which starts in some milliseconds and ends with the test.
package rlocktest

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Start starts a server on a free port, and returns its address, as rlock.Options.URL takes it. Options are those of
// `rlock dev`, such as "--set", "max-waiters=10".
//
// The program is the one that RLOCK_BIN names, or the rlock on PATH. Without one the test fails.
func Start(t testing.TB, options ...string) string {
	t.Helper()
	program := os.Getenv("RLOCK_BIN")
	if program == "" {
		found, err := exec.LookPath("rlock")
		if err != nil {
			t.Fatal("there is no rlock on PATH: install the command (cargo install --path cli, in a checkout of rlock), " +
				"or set RLOCK_BIN to it")
		}
		program = found
	}
	server := exec.Command(program, append([]string{"dev", "--port", "0", "--until-eof"}, options...)...)
	var complaints bytes.Buffer
	server.Stderr = &complaints
	// The server ends when its input ends, so also when the test's process does.
	input, err := server.StdinPipe()
	must(t, err)
	output, err := server.StdoutPipe()
	must(t, err)
	must(t, server.Start())
	t.Cleanup(func() {
		input.Close()
		server.Wait()
	})
	address, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		server.Wait()
		t.Fatalf("%s dev does not start: %s", program, complaints.String())
	}
	return strings.TrimSpace(address)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal("rlock dev: ", err)
	}
}
