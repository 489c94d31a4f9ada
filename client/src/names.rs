//! What this process is called where people look for who holds a lock: in its holders, and in the server's list of
//! clients. Both are read in terminals and split by programs, so whatever is not plain is replaced.

/// As long as Linux lets the name of a host be.
const LONGEST: usize = 64;

/// Where Linux tells the host's name, or the container's.
const HOST: &str = "/proc/sys/kernel/hostname";

#[derive(Debug)]
pub(crate) struct Names {
    /// What its holders begin with; empty: nothing.
    pub holder: String,
    /// What its connections are listed as; empty: as none.
    pub connection: String,
}

impl Names {
    /// By a name that was given, or by host and process.
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

/// A colon would be taken for one that separates; servers refuse spaces in a connection's name.
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
