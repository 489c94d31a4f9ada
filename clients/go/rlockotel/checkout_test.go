package rlockotel_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const program = `package main

import (
	"log"

	"github.com/rlock/rlock/clients/go"
	"github.com/rlock/rlock/clients/go/rlockotel"
)

func main() {
	observer, err := rlockotel.New(nil, nil)
	log.Print(rlock.Options{Observer: observer}, err)
}
`

// The commands of the page let a program use a checkout of both modules. Only the checkout is elsewhere.
func TestAProgramUsesACheckoutOfBothModules(t *testing.T) {
	page, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, commands, _ := strings.Cut(string(page), "```sh\n")
	commands, _, _ = strings.Cut(commands, "```")
	checkout, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	commands = "set -e\ngo mod init example.com/app\n" + strings.ReplaceAll(commands, "../rlock/", checkout+"/") +
		"go vet ./...\n"
	app := t.TempDir()
	if err := os.WriteFile(filepath.Join(app, "main.go"), []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	shell := exec.Command("sh", "-c", commands)
	shell.Dir = app
	if output, err := shell.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, commands, output)
	}
}
