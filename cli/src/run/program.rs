//! CMD's file, found as a shell would find it, before anything else is done.

use crate::exit;
use crate::failure::Failure;
use crate::shown;
use nix::unistd::{AccessFlags, access};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Where it is, or a failure with a shell's exit code.
pub fn find(name: &OsStr) -> Result<PathBuf, Failure> {
    let places = places(name);
    if let Some(found) = places.iter().find(|path| is_executable(path)) {
        return Ok(found.clone());
    }
    let shown = shown::name(name.as_bytes());
    Err(match places.iter().find(|path| path.exists()) {
        Some(there) if there.is_dir() => {
            Failure::new(exit::NOT_EXECUTABLE, format!("{shown}: it is a directory, and no command"))
        }
        Some(_) => Failure::new(exit::NOT_EXECUTABLE, format!("{shown}: it may not be executed; chmod +x?")),
        None if name.as_bytes().contains(&b'/') => {
            Failure::new(exit::NOT_FOUND, format!("{shown}: there is no such file"))
        }
        None => Failure::new(exit::NOT_FOUND, format!("{shown}: not found in PATH; give the whole path")),
    })
}

/// For what only shows when it is started, such as an interpreter that is not there.
pub fn did_not_start(name: &OsStr, error: &io::Error) -> Failure {
    let code = match error.kind() {
        io::ErrorKind::NotFound => exit::NOT_FOUND,
        io::ErrorKind::PermissionDenied | io::ErrorKind::ExecutableFileBusy => exit::NOT_EXECUTABLE,
        _ if error.raw_os_error() == Some(nix::libc::ENOEXEC) => exit::NOT_EXECUTABLE,
        _ => exit::SYSTEM,
    };
    Failure::new(code, format!("{}: it could not be started: {error}", shown::name(name.as_bytes())))
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

fn is_executable(path: &Path) -> bool {
    path.is_file() && access(path, AccessFlags::X_OK).is_ok()
}
