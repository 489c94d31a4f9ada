//! Where a server is, and with which login. An address may hold a password, so errors never repeat its text, and only
//! the place is displayed.

use crate::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Where a server is, and with which login. rlock-client's documentation describes the text form.
///
/// Each function that takes an address also takes its text:
///
/// ```
/// use rlock_client_core::{Address, Place};
///
/// let address: Address = "rediss://app:secret@redis.internal/2".parse()?;
/// assert_eq!(address.place, Place::Tcp { host: "redis.internal".into(), port: 6379 });
/// assert_eq!((address.access.user.as_deref(), address.access.database), (Some("app"), 2));
/// # Ok::<_, rlock_client_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Address {
    /// Where the server is.
    pub place: Place,
    /// Login, database and TLS.
    pub access: Access,
}

/// Where a server is. Displayed as `host:port` or as the path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// On the network.
    Tcp {
        /// A name, or an IP address without brackets.
        host: String,
        /// Usually 6379 for a server, 26379 for a sentinel.
        port: u16,
    },
    /// On this machine: the path of a Unix socket.
    Unix(PathBuf),
}

/// Login, database and TLS. `{:?}` hides the password.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Access {
    /// `None`: the server's default user.
    pub user: Option<String>,
    /// `None`: no login. For a user without a password it is empty.
    pub password: Option<String>,
    /// The number of the database. A cluster has only 0.
    pub database: u64,
    /// Use TLS, which needs the feature `tls`. Not for Unix sockets.
    pub tls: bool,
}

const PORT: u16 = 6_379;

impl Address {
    /// An address from its parts.
    #[must_use]
    pub fn new(place: Place, access: Access) -> Self {
        Self { place, access }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { user, password, database, tls } = self;
        let password = password.as_ref().map(|_| "…");
        let mut shown = f.debug_struct("Access");
        shown.field("user", user).field("password", &password).field("database", database).field("tls", tls).finish()
    }
}

impl FromStr for Address {
    type Err = Error;

    /// # Errors
    /// [`ErrorKind::Configuration`](crate::ErrorKind::Configuration), which does not repeat the text.
    fn from_str(text: &str) -> Result<Self, Error> {
        read(text.trim()).map_err(|why| Error::configuration("address", why))
    }
}

impl TryFrom<&str> for Address {
    type Error = Error;

    fn try_from(text: &str) -> Result<Self, Error> {
        text.parse()
    }
}

impl TryFrom<String> for Address {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl TryFrom<&String> for Address {
    type Error = Error;

    fn try_from(text: &String) -> Result<Self, Error> {
        text.parse()
    }
}

fn read(text: &str) -> Result<Address, &'static str> {
    let (scheme, rest) = text.split_once(':').ok_or("it has no scheme, as redis:// is one")?;
    match scheme.to_ascii_lowercase().as_str() {
        "redis" | "valkey" => on_the_network(rest, false),
        "rediss" | "valkeys" => on_the_network(rest, true),
        "unix" | "redis+unix" | "valkey+unix" => on_this_machine(rest),
        _ => Err("its scheme is not known: redis, rediss or redis+unix is"),
    }
}

/// `//user:password@host:port/database`. A password may contain `@`, a host cannot.
fn on_the_network(rest: &str, tls: bool) -> Result<Address, &'static str> {
    let rest = rest.strip_prefix("//").ok_or("there is no // behind its scheme")?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (login, server) = authority.rsplit_once('@').unwrap_or(("", authority));
    let (user, password) = match login.split_once(':') {
        Some((user, password)) => (user, Some(password).filter(|it| !user.is_empty() || !it.is_empty())),
        None => (login, None),
    };
    let mut access = Access { tls, database: database(path.trim_matches('/'))?, ..Access::default() };
    access.user = Some(user).filter(|user| !user.is_empty()).map(decoded).transpose()?;
    access.password = password.map(decoded).transpose()?;
    // A network address has no options.
    options(query, |_, _| Err(OPTION))?;
    Ok(Address { place: host_and_port(server)?, access })
}

/// `///path?db=…&user=…&pass=…`.
fn on_this_machine(rest: &str) -> Result<Address, &'static str> {
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let path = path.strip_prefix("//").filter(|path| path.starts_with('/')).unwrap_or(path);
    // A path that starts with two slashes would name a host.
    if !path.starts_with('/') || path.starts_with("//") {
        return Err("it has no path");
    }
    let mut access = Access::default();
    options(query, |name, value| {
        match name {
            "db" => access.database = database(&value)?,
            "user" => access.user = Some(value),
            "pass" => access.password = Some(value),
            _ => return Err(OPTION),
        }
        Ok(())
    })?;
    Ok(Address { place: Place::Unix(decoded(path)?.into()), access })
}

fn host_and_port(server: &str) -> Result<Place, &'static str> {
    let (host, port) = match server.strip_prefix('[').map(|rest| rest.split_once(']')) {
        Some(Some((host, port))) if host.contains(':') => (host, port),
        Some(_) => return Err("its host is in brackets, which are for IPv6 addresses"),
        None => server.find(':').map_or((server, ""), |colon| server.split_at(colon)),
    };
    let is_no_host =
        |character: char| character.is_whitespace() || character.is_control() || "[]%#\\".contains(character);
    match host {
        "" => return Err("it has no host"),
        _ if host.contains(is_no_host) => return Err("the host is not valid"),
        _ => {}
    }
    let port = match port.strip_prefix(':') {
        None if !port.is_empty() => return Err("the port is not valid"),
        None | Some("") => PORT,
        Some(port) => port.parse().map_err(|_| "the port is not valid")?,
    };
    Ok(Place::Tcp { host: host.to_owned(), port })
}

fn database(number: &str) -> Result<u64, &'static str> {
    if number.is_empty() { Ok(0) } else { number.parse().map_err(|_| "its database is no number") }
}

const OPTION: &str = "it has an option that is not known";

/// `name=value&name=value`.
fn options(query: &str, mut each: impl FnMut(&str, String) -> Result<(), &'static str>) -> Result<(), &'static str> {
    for option in query.split('&').filter(|option| !option.is_empty()) {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        match name {
            // Ignored: this client chooses the protocol itself. The option is for other libraries.
            "protocol" => {}
            _ => each(name, decoded(&value.replace('+', " "))?)?,
        }
    }
    Ok(())
}

/// Decodes `%XX`. Any other `%` stays.
fn decoded(text: &str) -> Result<String, &'static str> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let code = behind.get(..2).filter(|_| *first == b'%').and_then(|digits| {
            let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
            Some(digit(digits[0])? * 16 + digit(digits[1])?)
        });
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &behind[2..] } else { behind };
    }
    String::from_utf8(bytes).map_err(|_| "what it has with % is not UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn place(text: &str) -> String {
        Address::try_from(text).unwrap_or_else(|why| panic!("{text}: {why}")).place.to_string()
    }

    fn access(text: &str) -> (Option<String>, Option<String>, u64) {
        let Access { user, password, database, .. } = Address::try_from(text).unwrap().access;
        (user, password, database)
    }

    #[test]
    fn places() {
        for (text, shown) in [
            ("redis://h", "h:6379"),
            ("redis://h:", "h:6379"),
            ("redis://h:7000/", "h:7000"),
            ("valkey://127.0.0.1:1/2", "127.0.0.1:1"),
            ("REDISS://redis.internal", "redis.internal:6379"),
            ("valkeys://u:p@h:1", "h:1"),
            ("redis://[::1]", "::1:6379"),
            ("redis://u@[fe80::1]:7000/3", "fe80::1:7000"),
            ("redis://h?protocol=resp3", "h:6379"),
            (" redis://h\n", "h:6379"),
            ("unix:///run/redis.sock", "/run/redis.sock"),
            ("unix:/run/redis.sock", "/run/redis.sock"),
            ("redis+unix:///run/redis.sock?db=3", "/run/redis.sock"),
            ("valkey+unix:///run/a%20b%3F.sock", "/run/a b?.sock"),
        ] {
            assert_eq!(place(text), shown, "{text}");
        }
        for (text, tls) in [("redis://h", false), ("rediss://h", true), ("valkeys://h", true), ("unix:///s", false)] {
            assert_eq!(Address::try_from(text).unwrap().access.tls, tls, "{text}");
        }
    }

    #[test]
    fn a_user_an_empty_password_and_none() {
        let some = |text: &str| Some(text.to_owned());
        for (text, (user, password, database)) in [
            ("redis://h", (None, None, 0)),
            ("redis://u@h/7", (some("u"), None, 7)),
            ("redis://u:@h", (some("u"), some(""), 0)),
            ("redis://:p@h", (None, some("p"), 0)),
            ("redis://:@h", (None, None, 0)),
            ("redis://@h", (None, None, 0)),
            ("redis://u:p:@h", (some("u"), some("p:"), 0)),
            ("redis://u:a@b@h", (some("u"), some("a@b"), 0)),
            ("redis://%75%3a:%40%2F%c3%BC@h", (some("u:"), some("@/ü"), 0)),
            ("redis://u:50%of%f@h", (some("u"), some("50%of%f"), 0)),
            ("unix:///s?user=u&pass=", (some("u"), some(""), 0)),
            ("unix:///s?pass=a%26b+c&db=2", (None, some("a&b c"), 2)),
        ] {
            assert_eq!(access(text), (user, password, database), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused_and_not_repeated() {
        for text in [
            "",
            "secret",
            "h:6379",
            "http://u:secret@h",
            "redis:secret",
            "redis:///secret",
            "redis://secret@",
            "redis://u:secret@:7000",
            "redis://h:secret",
            "redis://h:65536",
            "redis://h:1:2",
            "redis://h/secret",
            "redis://h/-1",
            "redis://h?db=1",
            "redis://h#secret",
            "rediss://h/#insecure",
            "redis://[h]:1",
            "redis://[::1",
            "redis://[::1]7",
            "redis://u:%ff@h",
            "redis://a b",
            "unix:secret",
            "unix://secret/s",
            "unix:////s",
            "unix:///s?db=secret",
            "unix:///s?password=secret",
        ] {
            let error = Address::try_from(text).expect_err(text);
            assert_eq!(error.kind(), ErrorKind::Configuration, "{text}");
            assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
        }
    }

    #[test]
    fn a_password_is_not_shown() {
        let shown = format!("{:?}", Address::try_from("redis://u:secret@h").unwrap());
        assert!(shown.contains("\"h\"") && !shown.contains("secret"), "{shown}");
    }
}
