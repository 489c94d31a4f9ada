//! Options of `redis-cli`, which hands type that know it: `-h` with a host would print the help and look like success,
//! `-p` would be unknown. And help where a command is to be run: cron would take it for success, and nothing ran.

use crate::failure::Failure;
use std::ffi::{OsStr, OsString};

const PORT: &str = "6379";

/// What to type instead, if `-h` was followed by a host, or if there was more to do than to print help.
pub fn not_help(typed: &[OsString], is_command: impl Fn(&OsStr) -> bool) -> Option<Failure> {
    let own: Vec<_> = own(typed).filter(|word| !is_command(word)).collect();
    if let Some(host) = value(&own, "-h") {
        let port = value(&own, "-p").filter(|port| port.parse::<u16>().is_ok());
        return Some(Failure::usage(format!(
            "-h prints help and takes no host: use -u {}",
            url(&host, port.as_deref())
        )));
    }
    let has_cmd = typed.iter().any(|word| word == "--");
    has_cmd
        .then(|| Failure::usage("with -h, --help or -V there is only that printed, and CMD is not run: leave it out"))
}

/// The same for `-p`, which is unknown.
pub fn port(typed: &[OsString]) -> Option<String> {
    let port = value(&own(typed).collect::<Vec<_>>(), "-p")?;
    port.parse::<u16>().ok()?;
    Some(format!("there is no -p: use -u {}", url("127.0.0.1", Some(&port))))
}

/// Behind `--` there are CMD's.
fn own(typed: &[OsString]) -> impl Iterator<Item = &OsString> {
    typed.iter().skip(1).take_while(|word| *word != "--")
}

fn value(words: &[&OsString], option: &str) -> Option<String> {
    let place = words.iter().position(|word| *word == option)?;
    let value = words.get(place + 1)?.to_string_lossy().into_owned();
    Some(value).filter(|value| !value.starts_with('-'))
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

    fn typed(words: &str) -> Vec<OsString> {
        words.split(' ').map(OsString::from).collect()
    }

    fn said(words: &str) -> Option<String> {
        not_help(&typed(words), |word| word == "ls" || word == "run").map(|failure| format!("{failure:?}"))
    }

    #[test]
    fn a_host_and_a_port_become_an_address() {
        for (words, address) in [
            ("rlock -h db ls", "redis://db:6379"),
            ("rlock -h db", "redis://db:6379"),
            ("rlock ls -h db", "redis://db:6379"),
            ("rlock run -h db key -- true", "redis://db:6379"),
            ("rlock -h db -p 7000 ls", "redis://db:7000"),
            ("rlock run -h db -p 7000 key true", "redis://db:7000"),
            ("rlock -h db:7000 ls", "redis://db:7000"),
            ("rlock -h ::1 ls", "redis://[::1]:6379"),
            ("rlock --connect-timeout 1s -h db ls", "redis://db:6379"),
        ] {
            assert!(said(words).is_some_and(|said| said.contains(&format!("use -u {address}\""))), "{words}");
        }
        assert!(port(&typed("rlock -p 7000 ls")).is_some_and(|said| said.ends_with("-u redis://127.0.0.1:7000")));
        assert_eq!(port(&typed("rlock run key -- mkdir -p 7000")), None);
    }

    #[test]
    fn help_is_help_unless_there_is_something_to_run() {
        for words in ["rlock -h", "rlock -h ls", "rlock ls -h", "rlock -h -p", "rlock --help db", "rlock run key -h"] {
            assert_eq!(said(words), None, "{words}");
        }
        for words in ["rlock run -h key -- true", "rlock run --help key -- true", "rlock run key -h -- true"] {
            assert!(said(words).is_some(), "{words}");
        }
    }
}
