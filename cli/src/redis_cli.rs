//! Options of `redis-cli`, which hands type that know it: `-h` with a host would print the help and look like success,
//! `-p` would be unknown.

use crate::failure::Failure;
use std::ffi::{OsStr, OsString};

const PORT: &str = "6379";

/// What to type instead, if a server is named as for `redis-cli`. After the command there are other options.
pub fn mistaken(typed: &[OsString], is_command: impl Fn(&OsStr) -> bool) -> Option<Failure> {
    let own: Vec<_> = typed.iter().skip(1).take_while(|word| !is_command(word)).collect();
    let value = |option: &str| {
        let place = own.iter().position(|word| *word == option)?;
        let value = own.get(place + 1)?.to_string_lossy().into_owned();
        Some(value).filter(|value| !value.starts_with('-'))
    };
    let what = match (value("-h"), value("-p").filter(|port| port.parse::<u16>().is_ok())) {
        (None, None) => return None,
        (Some(host), port) => format!("-h prints help and takes no host: use -u {}", url(&host, port.as_deref())),
        (None, port) => format!("there is no -p: use -u {}", url("127.0.0.1", port.as_deref())),
    };
    Some(Failure::usage(what))
}

fn url(host: &str, port: Option<&str>) -> String {
    let (host, own_port) = match host.rsplit_once(':') {
        Some((name, digits)) if !name.contains(':') => (name.to_owned(), Some(digits)),
        Some(_) if !host.starts_with('[') => (format!("[{host}]"), None),
        _ => (host.to_owned(), None),
    };
    format!("redis://{host}:{}", port.or(own_port).unwrap_or(PORT))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(words: &str) -> Option<String> {
        let typed: Vec<_> = words.split(' ').map(OsString::from).collect();
        mistaken(&typed, |word| word == "ls").map(|failure| format!("{failure:?}"))
    }

    #[test]
    fn a_host_and_a_port_become_an_address() {
        for (typed, address) in [
            ("rlock -h db ls", "redis://db:6379"),
            ("rlock -h db", "redis://db:6379"),
            ("rlock -h db -p 7000 ls", "redis://db:7000"),
            ("rlock -p 7000 ls", "redis://127.0.0.1:7000"),
            ("rlock -h db:7000 ls", "redis://db:7000"),
            ("rlock -h ::1 ls", "redis://[::1]:6379"),
            ("rlock --connect-timeout 1s -h db ls", "redis://db:6379"),
        ] {
            assert!(said(typed).is_some_and(|said| said.contains(&format!("use -u {address}\""))), "{typed}");
        }
    }

    #[test]
    fn help_is_help() {
        for typed in ["rlock -h", "rlock -h ls", "rlock ls -h", "rlock ls -h db", "rlock -h -p", "rlock --help db"] {
            assert_eq!(said(typed), None, "{typed}");
        }
    }
}
