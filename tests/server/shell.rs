//! A shell as an operator has it, for the commands of the pages.

use rlock_testing::Server;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

/// A shell in which `redis-cli` talks to one server, and fails when the server answers with an error.
pub struct Shell {
    directory: TempDir,
}

impl Shell {
    pub fn on(server: &Server) -> Self {
        let shell = Self { directory: tempfile::tempdir().unwrap() };
        let found = Command::new("sh").args(["-c", "command -v redis-cli"]).output().unwrap();
        let real = String::from_utf8(found.stdout).unwrap();
        let socket = server.socket();
        let script = format!("#!/bin/sh\nexec {} -e -s {} \"$@\"\n", real.trim(), socket.display());
        shell.program("redis-cli", &script);
        shell
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Puts a program where the shell finds it.
    pub fn program(&self, name: &str, script: &str) {
        let path = self.path().join(name);
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub fn run(&self, line: &str) -> Output {
        let path = format!("{}:{}", self.path().display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("sh");
        command.args(["-c", line]).env("PATH", path).current_dir(self.path());
        command.output().unwrap()
    }

    /// What a line prints. It must not fail.
    pub fn prints(&self, line: &str) -> String {
        let output = self.run(line);
        let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        assert!(output.status.success(), "{line}: {out}{err}");
        out
    }
}
