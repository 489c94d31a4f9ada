//! This process's name for operators: in its holders, and in the server's list of clients. Both appear in terminals and
//! are split by programs, so unusual characters are replaced.

/// Linux's limit for a host name.
const LONGEST: usize = 64;

/// The name of the host or the container on Linux.
const HOST: &str = "/proc/sys/kernel/hostname";

#[derive(Debug)]
pub(crate) struct Names {
    /// The prefix of its holders; empty for none.
    pub holder: String,
    /// The name of its connections; empty for none.
    pub connection: String,
}

impl Names {
    /// From a given name, or from host and process.
    pub(crate) fn new(given: Option<&str>) -> Self {
        match given.map(plain) {
            Some(name) => Self { holder: name.clone(), connection: name },
            None => {
                let host = std::fs::read_to_string(HOST).map(|host| plain(host.trim_end()));
                let host = host.ok().filter(|host| !host.is_empty()).unwrap_or_else(|| "unknown".to_owned());
                let holder = format!("{host}:{}", std::process::id());
                Self { connection: format!("rlock:{holder}"), holder }
            }
        }
    }
}

/// A colon would be read as a separator; servers refuse spaces in a connection's name.
fn plain(name: &str) -> String {
    let is_plain = |character: &char| character.is_ascii_alphanumeric() || "-_.@/+=".contains(*character);
    name.chars().take(LONGEST).map(|character| if is_plain(&character) { character } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_odd_in_a_name_is_replaced() {
        for (given, holder) in [
            ("web-3.example.com", "web-3.example.com"),
            ("orders@web-3/a_b+c=d", "orders@web-3/a_b+c=d"),
            ("a b\n\0:c\"{$", "a_b___c___"),
            ("für", "f_r"),
            ("", ""),
        ] {
            let names = Names::new(Some(given));
            assert_eq!((names.holder.as_str(), names.connection.as_str()), (holder, holder), "{given:?}");
        }
        assert_eq!(Names::new(Some(&"é".repeat(500))).holder, "_".repeat(64));
    }

    #[test]
    fn a_process_without_a_name_is_called_by_its_host_and_its_id() {
        let names = Names::new(None);
        let (host, id) = names.holder.split_once(':').unwrap();
        assert!(!host.is_empty() && host == plain(host), "{host}");
        assert_eq!(id, std::process::id().to_string());
        assert_eq!(names.connection, format!("rlock:{}", names.holder));
    }
}
