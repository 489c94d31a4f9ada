//! A lock server for tests: `rlock dev`, the module's engine on locks in memory. It starts in a few milliseconds, so
//! each test can have its own.
//!
//! ```no_run
//! # async fn ship(_locks: &rlock_client::Locks) -> Result<(), rlock_client::Error> { Ok(()) }
//! # async fn test() {
//! let server = rlock_client::testing::serve();
//! let locks = rlock_client::Locks::connect(server.url()).await.unwrap();
//! ship(&locks).await.unwrap();
//! # }
//! ```

use std::env;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A server that ends when this is dropped, or with this process.
#[derive(Debug)]
pub struct Server {
    process: Child,
    url: String,
}

/// Starts a server on a free port. The program is the one that `RLOCK_BIN` names, or the `rlock` on `PATH`.
///
/// # Panics
/// If there is no such program, or it does not start.
#[must_use]
pub fn serve() -> Server {
    serve_with(&[])
}

/// The same, with options of `rlock dev`: `["--set", "max-waiters=10"]`.
///
/// # Panics
/// Like [`serve`].
#[must_use]
pub fn serve_with(options: &[&str]) -> Server {
    let program = env::var_os("RLOCK_BIN").map(PathBuf::from).or_else(on_path);
    let program = program.expect(
        "there is no rlock on PATH: install the command (cargo install --path cli, in a checkout of rlock), or set \
         RLOCK_BIN to it",
    );
    serve_by(&program, options)
}

/// The same, with this program.
///
/// # Panics
/// Like [`serve`].
#[must_use]
pub fn serve_by(program: &Path, options: &[&str]) -> Server {
    let mut command = Command::new(program);
    // The server ends with its input, which also ends with this process.
    command.args(["dev", "--port", "0", "--until-eof"]).args(options);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().unwrap_or_else(|error| panic!("{} does not start: {error}", program.display()));
    let mut line = String::new();
    if let Some(output) = process.stdout.take() {
        // If nothing can be read, the check below fails.
        _ = BufReader::new(output).read_line(&mut line);
    }
    let url = line.trim().to_owned();
    if url.is_empty() {
        let mut complaints = String::new();
        _ = process.stderr.take().map(|mut errors| errors.read_to_string(&mut complaints));
        panic!("{} dev does not start: {}", program.display(), complaints.trim());
    }
    Server { process, url }
}

impl Server {
    /// Its address, as [`Locks::connect`](crate::Locks::connect) takes it.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server stores nothing, so killing it loses nothing.
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

fn on_path() -> Option<PathBuf> {
    let program = format!("rlock{}", env::consts::EXE_SUFFIX);
    env::split_paths(&env::var_os("PATH")?).map(|place| place.join(&program)).find(|program| program.is_file())
}
