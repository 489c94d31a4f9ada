//! What the measurements were made on.

use std::process::Command;

pub struct Environment {
    pub server: String,
    /// Empty if valgrind is not there.
    pub valgrind: String,
    /// The commit of this project. Empty outside of a repository.
    pub commit: String,
    pub processors: usize,
    pub architecture: &'static str,
    /// The mean number of running processes in the five minutes before.
    pub load: String,
}

impl Environment {
    pub fn look() -> Self {
        let server = std::env::var("RLOCK_SERVER").unwrap_or_else(|_| "redis-server".to_owned());
        // "Redis server v=7.0.15 sha=…"
        let version = first_line(&server, &["--version"]);
        let short = version.split_whitespace().take(3).collect::<Vec<_>>().join(" ");
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        Self {
            server: short.replace(" server v=", " "),
            valgrind: first_line("valgrind", &["--version"]),
            commit: first_line("git", &["describe", "--always", "--dirty"]),
            processors: std::thread::available_parallelism().map_or(0, usize::from),
            architecture: std::env::consts::ARCH,
            load: load.split(' ').nth(1).unwrap_or_default().to_owned(),
        }
    }
}

fn first_line(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&output).lines().next().unwrap_or_default().to_owned()
}
