//! `rlock break`: takes a lock away. It shows the holder and asks first, because the holder may still be working.

use crate::arguments::{Break, Server};
use crate::exit;
use crate::failure::{Failure, say};
use crate::operators::{self, Inspection};
use crate::{address, inspect, json, output, shown};
use std::io::{BufRead, IsTerminal, Write, stderr, stdin};
use std::os::unix::ffi::OsStrExt;

/// How many holders and waiters are shown.
const SHOWN: usize = 10;

pub async fn break_lock(args: &Break, server: &Server) -> Result<u8, Failure> {
    if !args.yes && !stdin().is_terminal() {
        return Err(Failure::usage("there is no terminal to ask on: give --yes to break it without being asked"));
    }
    let (locks, at) = address::connect(server).await?;
    let key = args.key.as_bytes();
    let lock = inspect::look(&locks, &at, key, SHOWN).await?;
    let agreed = lock.kind.is_some() && (args.yes || ask(key, &lock)?);
    let broken = agreed && operators::break_lock(&locks, key).await.map_err(|why| Failure::unanswered(&at, &why))?;
    report(args, &lock, agreed, broken)?;
    Ok(if broken { 0 } else { exit::NOTHING_DONE })
}

/// On stderr, so that stdout has nothing but the result.
fn ask(key: &[u8], lock: &Inspection) -> Result<bool, Failure> {
    let shown = inspect::text(key, lock, SHOWN, output::form_of_questions());
    let question = match inspect::may_be_data(lock) {
        true => format!("This may be no lock. Breaking deletes {}.", inspect::data(lock)),
        false => "The holder may still be at work, and learns of it only later.".to_owned(),
    };
    let asked = write!(stderr(), "{shown}\n{question}\nBreak it? [y/N] ").and_then(|()| stderr().flush());
    asked.map_err(Failure::of_the_system)?;
    let mut answer = String::new();
    stdin().lock().read_line(&mut answer).map_err(Failure::of_the_system)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

fn report(args: &Break, lock: &Inspection, agreed: bool, broken: bool) -> Result<(), Failure> {
    let key = args.key.as_bytes();
    if args.json {
        let mut object = json::named("key", key);
        object.insert("broken".into(), broken.into());
        object.insert("was".into(), json::inspection(key, lock).into());
        return output::print_json(&object.into());
    }
    let key = shown::name(key);
    match (broken, agreed, lock.kind.is_some()) {
        (true, ..) => output::print(&format!("{key}: broken; {} waited for it\n", lock.waiter_count))?,
        (false, false, true) => say(&format!("{key}: left as it is")),
        _ => say(&format!("{key}: not held, so there is nothing to break")),
    }
    Ok(())
}
