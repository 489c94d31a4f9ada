//! CMD's file, found as a shell would find it, before anything else is done.

use crate::arguments::Work;
use crate::exit;
use crate::failure::Failure;
use crate::shown;
use nix::unistd::{AccessFlags, access};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The shell for `-c`: the same for a user and for cron, whatever `SHELL` is.
const SHELL: &str = "/bin/sh";

/// The maximum width of CMD's line in messages.
const SHOWN: usize = 40;

/// CMD.
pub struct Program {
    pub file: PathBuf,
    /// Its name and its arguments.
    pub words: Vec<OsString>,
    /// Its name in messages.
    pub shown: String,
}

impl Program {
    /// Or a failure with a shell's exit code.
    pub fn find(work: &Work) -> Result<Self, Failure> {
        let words = match &work.line {
            Some(line) => vec![SHELL.into(), "-c".into(), line.into()],
            None => work.command.clone(),
        };
        let shown = match (&work.line, &words[0]) {
            (Some(line), _) => format!("'{}'", shown::cut(&shown::name(line.as_bytes()), SHOWN)),
            (None, name) => shown::name(name.as_bytes()),
        };
        let file = find(&words[0])?;
        Ok(Self { file, words, shown })
    }
}

/// Longer than any system reads.
const FIRST_LINE_MAX: u64 = 4_096;

fn find(name: &OsStr) -> Result<PathBuf, Failure> {
    let places = places(name);
    let shown = shown::name(name.as_bytes());
    if let Some(found) = places.iter().find(|path| is_executable(path)) {
        return match missing_interpreter(found) {
            None => Ok(found.clone()),
            Some(interpreter) => {
                let interpreter = shown::name(interpreter.as_os_str().as_bytes());
                let words = format!("{shown}: its interpreter, {interpreter}, is missing; see its first line");
                Err(Failure::new(exit::NOT_EXECUTABLE, words))
            }
        };
    }
    Err(match places.iter().find(|path| path.exists()) {
        Some(there) if there.is_dir() => {
            Failure::new(exit::NOT_EXECUTABLE, format!("{shown}: it is a directory, and no command"))
        }
        Some(_) => Failure::new(exit::NOT_EXECUTABLE, format!("{shown}: it may not be executed; chmod +x?")),
        None if name.is_empty() => Failure::new(exit::NOT_FOUND, "CMD is empty; is a variable not set?"),
        None if name.as_bytes().contains(&b'/') => {
            Failure::new(exit::NOT_FOUND, format!("{shown}: there is no such file"))
        }
        None => Failure::new(exit::NOT_FOUND, format!("{shown}: not found in PATH; give the whole path")),
    })
}

/// For errors that show only when CMD is started.
pub fn did_not_start(program: &Program, error: &io::Error) -> Failure {
    let shown = shown::name(program.words[0].as_bytes());
    let code = match error.kind() {
        io::ErrorKind::NotFound if program.file.exists() => {
            let words = format!("{shown}: its interpreter or loader is missing; see `file {shown}`");
            return Failure::new(exit::NOT_EXECUTABLE, words);
        }
        io::ErrorKind::NotFound => exit::NOT_FOUND,
        io::ErrorKind::PermissionDenied | io::ErrorKind::ExecutableFileBusy => exit::NOT_EXECUTABLE,
        _ if error.raw_os_error() == Some(nix::libc::ENOEXEC) => exit::NOT_EXECUTABLE,
        _ => exit::SYSTEM,
    };
    Failure::new(code, format!("{shown}: it could not be started: {error}"))
}

fn places(name: &OsStr) -> Vec<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return vec![name.into()];
    }
    if name.is_empty() {
        return Vec::new();
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    std::env::split_paths(&path).map(|directory| Path::new(&directory).join(name)).collect()
}

/// The interpreter that a script's first line names, if it is missing.
fn missing_interpreter(script: &Path) -> Option<PathBuf> {
    let mut start = Vec::new();
    File::open(script).ok()?.take(FIRST_LINE_MAX).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let word = line.split(|byte| b" \t".contains(byte)).find(|word| !word.is_empty())?;
    let interpreter = PathBuf::from(OsStr::from_bytes(word));
    interpreter.try_exists().is_ok_and(|exists| !exists).then_some(interpreter)
}

fn is_executable(path: &Path) -> bool {
    path.is_file() && access(path, AccessFlags::X_OK).is_ok()
}
