//! On what it was measured.

use std::process::Command;

pub struct Environment {
    pub server: String,
    pub valgrind: Option<String>,
    pub processors: usize,
    pub architecture: &'static str,
    /// How busy the machine was before the run: the mean number of running processes over five minutes.
    pub load: Option<f64>,
}

impl Environment {
    pub fn look() -> Self {
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let server = std::env::var("RLOCK_SERVER").unwrap_or_else(|_| "redis-server".to_owned());
        let version = first_line(&server, "--version").unwrap_or_default();
        // "Redis server v=7.0.15 sha=…"
        let short = version.split_whitespace().take(3).collect::<Vec<_>>().join(" ");
        Self {
            server: short.replace(" server v=", " "),
            valgrind: first_line("valgrind", "--version"),
            processors: std::thread::available_parallelism().map_or(0, usize::from),
            architecture: std::env::consts::ARCH,
            load: load.split(' ').nth(1).and_then(|load| load.parse().ok()),
        }
    }
}

fn first_line(program: &str, argument: &str) -> Option<String> {
    let output = Command::new(program).arg(argument).output().ok()?;
    String::from_utf8_lossy(&output.stdout).lines().next().map(str::to_owned)
}
