//! `rlock adopt`: takes over a lock that another process has detached, and runs a command under it.

use crate::arguments::{Adopt, Server};
use crate::exit;
use crate::failure::{Failure, say};
use crate::run::{self, Job, PASSED_ON, Program};
use crate::signals::Signals;
use crate::wait::{self, Held};
use crate::{address, shown};
use rlock_client::{Adopted, Error, Guard};
use rlock_client_core::Handed;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, stdin};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

const VARIABLE: &str = "RLOCK_DETACHED";

/// More bytes than the text of 64 locks with long names.
const LONGEST: usize = 1024 * 1024;

pub async fn adopt(args: &Adopt, server: &Server) -> Result<u8, Failure> {
    let program = Program::find(&args.work)?;
    let text = text(args)?;
    let Handed { lease, keys, .. } = Handed::parse(&text).map_err(|error| Failure::usage(error.reason()))?;
    let key = OsString::from_vec(keys.join(&b','));
    let mut signals = Signals::take(&PASSED_ON)?;
    let (locks, at) = address::connect_in_time(None, server).await?;
    let adopted = tokio::select! {
        biased;
        code = wait::ended_by(&mut signals) => return Ok(code),
        adopted = locks.adopt(&text) => adopted,
    };
    match adopted {
        Ok(guard) => {
            let job = Job { key: &key, work: &args.work, program, secret: Some(VARIABLE) };
            run::perform(&job, held(guard), lease, signals).await
        }
        Err(error) if error.is_lost() => Ok(lost(&key, &error)),
        Err(error) => Err(Failure::of_the_server(&at, &error)),
    }
}

fn held(guard: Guard<Adopted>) -> Held {
    let tokens: Vec<_> = guard.tokens().iter().map(ToString::to_string).collect();
    Held { tokens: (!tokens.is_empty()).then(|| tokens.join(",")), guard: guard.unfenced() }
}

fn lost(key: &OsString, error: &Error) -> u8 {
    let (key, why) = (shown::name(key.as_bytes()), error.reason());
    say(&format!("{key}: the lock was lost before it was adopted, so nothing was run: {why}"));
    exit::LOST
}

fn text(args: &Adopt) -> Result<Vec<u8>, Failure> {
    let text = match &args.text_file {
        Some(path) if path.as_os_str() == "-" => {
            // Not by `Stdin`, which reads more than it is asked for.
            stdin().as_fd().try_clone_to_owned().and_then(|input| first_line(File::from(input)))
        }
        Some(path) => File::open(path).and_then(first_line),
        None => Ok(std::env::var_os(VARIABLE).unwrap_or_default().as_bytes().trim_ascii_end().to_vec()),
    };
    match (text, &args.text_file) {
        (Ok(text), _) if text.is_empty() => {
            Err(Failure::usage(format!("which lock? Give --text-file or {VARIABLE}; it was empty")))
        }
        (Ok(text), _) => Ok(text),
        (Err(error), path) => {
            let path = path.as_deref().unwrap_or("".as_ref()).display();
            Err(Failure::usage(format!("the text file {path} cannot be read: {error}")))
        }
    }
}

/// Byte by byte: the rest of stdin belongs to CMD.
fn first_line(mut file: File) -> io::Result<Vec<u8>> {
    let (mut line, mut byte) = (Vec::new(), [0]);
    while line.len() < LONGEST && file.read(&mut byte)? == 1 && byte != *b"\n" {
        line.extend(byte);
    }
    Ok(line)
}
