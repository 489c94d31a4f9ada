//! Where the holder and the fencing token are kept between `rlock lock` and `rlock unlock`: as lines for a shell's `.`
//! or `eval`, in a file, at a file descriptor, or on stdout. The lines export them to the shell's child processes.
//!
//! A file belongs to one script. An existing file belongs to another script, which would unlock our lock, or is left
//! over from a killed one; only an empty file is accepted, as `mktemp` makes it.

use crate::arguments::{Lock, Of};
use crate::failure::Failure;
use crate::wait::Held;
use nix::unistd::{AccessFlags, access};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{FromRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Where the lines will be written.
pub enum Place {
    File(PathBuf),
    Descriptor(RawFd),
}

const STDOUT: RawFd = 1;

/// More than the longest holder that a server accepts, and a token.
const LONGEST: u64 = 4_096;

const HOLDER: &str = "RLOCK_HOLDER=";

impl Place {
    /// Checks, before the wait, that it can be written.
    pub fn of(args: &Lock) -> Result<Self, Failure> {
        let Some(path) = &args.token_file else { return Ok(Self::Descriptor(args.token_fd.unwrap_or(STDOUT))) };
        must_be_free(path)?;
        access(directory(path), AccessFlags::W_OK).map_err(|error| not_written(path, &error.into()))?;
        Ok(Self::File(path.clone()))
    }

    pub fn write(&self, text: &str) -> Result<(), Failure> {
        match self {
            Self::Descriptor(descriptor) => {
                let written = open(*descriptor).write_all(text.as_bytes());
                written.map_err(|error| Failure::system(format!("the holder could not be written: {error}")))
            }
            Self::File(path) => {
                must_be_free(path)?;
                put(path, text).map_err(|error| not_written(path, &error))
            }
        }
    }
}

/// What a shell reads. Without a token, the lines unset the token that the shell has from another lock.
pub fn lines(held: &Held) -> String {
    let holder = held.guard.holder();
    match &held.tokens {
        Some(token) => format!("{HOLDER}{holder}\nRLOCK_TOKEN={token}\nexport RLOCK_HOLDER RLOCK_TOKEN\n"),
        None => format!("{HOLDER}{holder}\nexport RLOCK_HOLDER\nunset RLOCK_TOKEN\n"),
    }
}

/// Writes all of it or nothing, readable only for this user.
fn put(path: &Path, text: &str) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", std::process::id()));
    let draft = directory(path).join(name);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    let put = file.write_all(text.as_bytes()).and_then(|()| match path.exists() {
        // The file is there, and empty.
        true => std::fs::rename(&draft, path),
        // Fails if the file was created meanwhile.
        false => std::fs::hard_link(&draft, path).and_then(|()| std::fs::remove_file(&draft)),
    });
    put.inspect_err(|_| _ = std::fs::remove_file(&draft))
}

fn must_be_free(path: &Path) -> Result<(), Failure> {
    match std::fs::symlink_metadata(path) {
        Ok(there) if there.is_file() && there.len() == 0 => Ok(()),
        Ok(_) => {
            let words = "is there already: each script needs a file of its own; if none uses it any more, remove it";
            Err(Failure::system(format!("the token file {} {words}", path.display())))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(not_written(path, &error)),
    }
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn not_written(path: &Path, error: &io::Error) -> Failure {
    Failure::system(format!("the token file {} cannot be written: {error}", path.display()))
}

/// The holder that the arguments or the environment name.
pub fn holder(of: &Of) -> Result<Vec<u8>, Failure> {
    let text = if let Some(holder) = &of.holder {
        holder.as_bytes().to_vec()
    } else if let Some(path) = &of.token_file {
        let text = File::open(path).and_then(read);
        text.map_err(|error| Failure::usage(format!("the token file {} cannot be read: {error}", path.display())))?
    } else if let Some(descriptor) = of.token_fd {
        let text = read(&*open(descriptor));
        text.map_err(|error| Failure::usage(format!("file descriptor {descriptor} cannot be read: {error}")))?
    } else {
        std::env::var_os("RLOCK_HOLDER").unwrap_or_default().as_bytes().to_vec()
    };
    let mut lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    match first.strip_prefix(HOLDER.as_bytes()).unwrap_or(first) {
        b"" => Err(Failure::usage("which holder? Give HOLDER, --token-file, --token-fd or RLOCK_HOLDER; it was empty")),
        holder => Ok(holder.to_vec()),
    }
}

/// The lock is released: removes the token file.
pub fn is_over(of: &Of) -> Result<(), Failure> {
    let Some(path) = &of.token_file else { return Ok(()) };
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(Failure::system(format!("unlocked, but {} cannot be removed: {error}", path.display())))
        }
        _ => Ok(()),
    }
}

fn read(from: impl Read) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    from.take(LONGEST).read_to_end(&mut text)?;
    Ok(text)
}

fn open(descriptor: RawFd) -> ManuallyDrop<File> {
    // SAFETY: it was open when the arguments were read, before we opened any file, and it is not closed here.
    ManuallyDrop::new(unsafe { File::from_raw_fd(descriptor) })
}
