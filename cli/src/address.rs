//! Where the locks are, and the password, which may be in the environment or in a file, but not on the command line:
//! there everybody on the machine can read it.
//!
//! Whoever names a user acts as that user or not at all. Without a password the library would not log in, and so act as
//! the server's default user, who often may do everything.

use crate::arguments::Server;
use crate::failure::Failure;
use rlock_client::redis::sentinel::SentinelNodeConnectionInfo;
use rlock_client::redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo, TlsMode};
use rlock_client::{Error, Locks};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const DEFAULT: &str = "redis://127.0.0.1:6379";
const SENTINEL_PORT: u16 = 26_379;

/// Where it is; shown, it is what errors call the server.
pub struct Address {
    route: Route,
    shown: String,
}

/// What it was taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    One,
    Cluster,
    Sentinels,
}

#[derive(Clone)]
enum Route {
    One(ConnectionInfo),
    Cluster(Vec<ConnectionInfo>),
    Sentinels { sentinels: Vec<ConnectionInfo>, master: String, access: RedisConnectionInfo, tls: bool },
}

/// Connects to where the arguments and the environment say.
pub async fn connect(server: &Server) -> Result<(Locks, Address), Failure> {
    let address = Address::find(server)?;
    match address.open(server.connect_timeout).await {
        Ok(locks) => Ok((locks, address)),
        Err(error) => Err(Failure::of_the_server(&address, &error)),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl Address {
    fn find(server: &Server) -> Result<Self, Failure> {
        let variable = environment("RLOCK_URL")?;
        let mut address = match (&server.url, &variable) {
            (Some(argument), _) => Self::read(argument, "--url")?.without_password()?,
            (None, Some(variable)) => Self::read(variable, "RLOCK_URL")?,
            (None, None) => Self::read(DEFAULT, "the default")?,
        };
        if let Some(password) = password(server)? {
            address.authenticate(&password);
        }
        address.with_a_password_for_its_user()
    }

    fn read(url: &str, from: &str) -> Result<Self, Failure> {
        let unreadable = || {
            let forms = "redis://host:port/db, rediss://, unix:///path, redis+cluster:// or redis+sentinel://";
            Failure::usage(format!("{from} is no address of a server: it is one of {forms}"))
        };
        let Some((scheme, rest)) = url.split_once(':') else { return Err(unreadable()) };
        let scheme = scheme.replace("valkeys", "rediss").replace("valkey", "redis");
        let (address, tls) = (rest.trim_start_matches('/'), scheme.starts_with("rediss"));
        let read = match scheme.as_str() {
            "redis+cluster" | "rediss+cluster" => Self::cluster(address, tls),
            "redis+sentinel" | "rediss+sentinel" => Self::sentinels(address, tls),
            _ => Self::one(url),
        };
        let mut read = read.ok_or_else(unreadable)?;
        if says_that_there_is_no_password(url) && read.access().iter().all(|it| it.password().is_none()) {
            read.authenticate("");
        }
        Ok(read)
    }

    fn one(url: &str) -> Option<Self> {
        let one = url.into_connection_info().ok()?;
        Some(Self { shown: one.addr().to_string(), route: Route::One(one) })
    }

    fn cluster(address: &str, tls: bool) -> Option<Self> {
        let (user, hosts) = user_and_rest(address);
        let hosts = hosts.trim_end_matches('/');
        let nodes = hosts.split(',').map(|host| node(tls, user, host)).collect::<Option<_>>()?;
        Some(Self { shown: hosts.to_owned(), route: Route::Cluster(nodes) })
    }

    /// `host,host/NAME` or `host,host/NAME/db`. User and password are the master's.
    fn sentinels(address: &str, tls: bool) -> Option<Self> {
        let (user, rest) = user_and_rest(address);
        let (hosts, name) = rest.split_once('/')?;
        let (name, db) = name.split_once('/').unwrap_or((name, "0"));
        let sentinels = hosts.split(',').map(|host| node(tls, "", &with_port(host))).collect::<Option<_>>()?;
        let access = format!("redis://{user}master/{db}").into_connection_info().ok()?.redis_settings().clone();
        let master = Some(name.to_owned()).filter(|name| !name.is_empty())?;
        let shown = format!("{master} of the sentinels {hosts}");
        Some(Self { shown, route: Route::Sentinels { sentinels, master, access, tls } })
    }

    pub async fn open(&self, limit: Duration) -> Result<Locks, Error> {
        let options = Locks::options().connect_timeout(limit).answer_timeout(limit);
        match self.route.clone() {
            Route::One(one) => options.connect_to(one).await,
            Route::Cluster(nodes) => options.connect_to_cluster(nodes).await,
            Route::Sentinels { sentinels, master, access, tls } => {
                let access = SentinelNodeConnectionInfo::default().set_redis_connection_info(access);
                let access = if tls { access.set_tls_mode(TlsMode::Secure) } else { access };
                options.connect_to_sentinels(sentinels, master, access).await
            }
        }
    }

    /// The servers that are named in it.
    pub fn nodes(&self) -> &[ConnectionInfo] {
        match &self.route {
            Route::One(one) => std::slice::from_ref(one),
            Route::Cluster(nodes) => nodes,
            Route::Sentinels { .. } => &[],
        }
    }

    /// Another node of this cluster, by what this one calls it. TLS, user and password are the same.
    pub fn beside(node: &ConnectionInfo, host: &str, port: u16) -> Option<Self> {
        let named = |own: String| if host.is_empty() { own } else { host.to_owned() };
        let place = match node.addr().clone() {
            ConnectionAddr::TcpTls { host: own, insecure, tls_params, .. } => {
                ConnectionAddr::TcpTls { host: named(own), port, insecure, tls_params }
            }
            ConnectionAddr::Tcp(own, _) => ConnectionAddr::Tcp(named(own), port),
            _ => return None,
        };
        let one = node.clone().set_addr(place);
        Some(Self { shown: one.addr().to_string(), route: Route::One(one) })
    }

    pub fn way(&self) -> Way {
        match self.route {
            Route::One(_) => Way::One,
            Route::Cluster(_) => Way::Cluster,
            Route::Sentinels { .. } => Way::Sentinels,
        }
    }

    pub fn has_tls(&self) -> bool {
        let is_secure = |node: &ConnectionInfo| matches!(node.addr(), ConnectionAddr::TcpTls { .. });
        match &self.route {
            Route::One(one) => is_secure(one),
            Route::Cluster(nodes) => nodes.iter().any(is_secure),
            Route::Sentinels { tls, .. } => *tls,
        }
    }

    /// The address of the cluster that this server is a node of. A socket's port is not known.
    pub fn as_cluster(&self) -> String {
        let scheme = if self.has_tls() { "rediss+cluster" } else { "redis+cluster" };
        match &self.route {
            Route::One(one) if matches!(one.addr(), ConnectionAddr::Unix(_)) => format!("{scheme}://host:port"),
            _ => format!("{scheme}://{}", self.shown),
        }
    }

    /// User and password, of each node.
    fn access(&self) -> Vec<&RedisConnectionInfo> {
        match &self.route {
            Route::One(one) => vec![one.redis_settings()],
            Route::Cluster(nodes) => nodes.iter().map(ConnectionInfo::redis_settings).collect(),
            Route::Sentinels { access, .. } => vec![access],
        }
    }

    /// For an address that everybody can read. An empty password is no secret.
    fn without_password(self) -> Result<Self, Failure> {
        match self.access().iter().filter_map(|it| it.password()).all(str::is_empty) {
            false => Err(Failure::usage(
                "a password in --url shows in `ps`: put it into RLOCK_PASSWORD or a --password-file, or the url into                  RLOCK_URL",
            )),
            true => Ok(self),
        }
    }

    fn with_a_password_for_its_user(self) -> Result<Self, Failure> {
        match self.access().iter().find(|it| it.password().is_none()).and_then(|it| it.username()) {
            Some(user) => Err(Failure::usage(format!(
                "the password of the user {user} is missing: put it into RLOCK_PASSWORD, a --password-file or                  RLOCK_PASSWORD_FILE; for a user who needs none the address is {user}:@host, or ends with &pass="
            ))),
            None => Ok(self),
        }
    }

    fn authenticate(&mut self, password: &str) {
        let with = |node: &ConnectionInfo| {
            node.clone().set_redis_settings(node.redis_settings().clone().set_password(password))
        };
        match &mut self.route {
            Route::One(one) => *one = with(one),
            Route::Cluster(nodes) => nodes.iter_mut().for_each(|node| *node = with(node)),
            Route::Sentinels { access, .. } => *access = access.clone().set_password(password),
        }
    }
}

/// `user:@host`, which means another thing than `user@host`, though not to the library that reads URLs.
fn says_that_there_is_no_password(url: &str) -> bool {
    let after_scheme = url.split_once("://").map_or("", |(_, rest)| rest);
    let authority = after_scheme.split(['/', '?', '#']).next().unwrap_or_default();
    authority.rsplit_once('@').is_some_and(|(user, _)| user.len() > 1 && user.ends_with(':'))
}

/// `user:password@` as it is, and what comes after it.
fn user_and_rest(address: &str) -> (&str, &str) {
    address.rsplit_once('@').map_or(("", address), |(user, rest)| (&address[..=user.len()], rest))
}

fn node(tls: bool, user: &str, host: &str) -> Option<ConnectionInfo> {
    let scheme = if tls { "rediss" } else { "redis" };
    (!host.is_empty()).then(|| format!("{scheme}://{user}{host}").into_connection_info().ok())?
}

/// Sentinels have a port of their own.
fn with_port(host: &str) -> String {
    let named = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    if named { host.to_owned() } else { format!("{host}:{SENTINEL_PORT}") }
}

fn password(server: &Server) -> Result<Option<String>, Failure> {
    if let Some(path) = &server.password_file {
        return password_in(path).map(Some);
    }
    if let Some(password) = environment("RLOCK_PASSWORD")? {
        return Ok(Some(password));
    }
    environment("RLOCK_PASSWORD_FILE")?.map(|path| password_in(&PathBuf::from(path))).transpose()
}

/// The first line.
fn password_in(path: &Path) -> Result<String, Failure> {
    let unreadable =
        |why: String| Failure::usage(format!("the password file {} cannot be read: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
    match text.lines().next() {
        Some(line) if !line.is_empty() => Ok(line.to_owned()),
        _ => Err(unreadable("its first line is empty".to_owned())),
    }
}

/// A variable that is empty is as good as none.
fn environment(name: &str) -> Result<Option<String>, Failure> {
    match std::env::var(name) {
        Ok(value) if value.is_empty() => Ok(None),
        Ok(value) => Ok(Some(value)),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => Err(Failure::usage(format!("{name} is not UTF-8 text"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Address {
        Address::read(url, "it").unwrap()
    }

    #[test]
    fn one_server() {
        for (url, shown) in [
            ("redis://h", "h:6379"),
            ("valkey://h:1/2", "h:1"),
            ("rediss://h:1", "h:1"),
            ("unix:///run/redis.sock", "/run/redis.sock"),
            ("redis+unix:///run/redis.sock?db=3", "/run/redis.sock"),
        ] {
            let address = read(url);
            assert_eq!(address.shown, shown);
            assert!(matches!(address.route, Route::One(_)));
        }
    }

    #[test]
    fn a_cluster() {
        let address = read("rediss+cluster://app:secret@a:1,b/");
        assert_eq!(address.shown, "a:1,b");
        let Route::Cluster(nodes) = &address.route else { panic!("not a cluster") };
        let told: Vec<_> = nodes.iter().map(|node| node.addr().to_string()).collect();
        assert_eq!(told, ["a:1", "b:6379"]);
        assert_eq!(nodes[1].redis_settings().password(), Some("secret"));
        assert!(address.without_password().is_err());
    }

    #[test]
    fn a_master_of_sentinels() {
        let address = read("valkey+sentinel://app@a,b:2/mymaster/3");
        let Route::Sentinels { sentinels, master, access, tls } = &address.route else { panic!("no sentinels") };
        let told: Vec<_> = sentinels.iter().map(|node| node.addr().to_string()).collect();
        assert_eq!((told.join(" ").as_str(), master.as_str(), *tls), ("a:26379 b:2", "mymaster", false));
        assert_eq!((access.username(), access.password(), access.db()), (Some("app"), None, 3));
        assert_eq!(address.shown, "mymaster of the sentinels a,b:2");
        assert!(address.without_password().is_ok());
    }

    #[test]
    fn passwords_are_seen_wherever_they_are() {
        for url in ["redis://:p@h", "redis://u:p@h", "unix:///s?pass=p", "redis+sentinel://u:p@h/m"] {
            let failure = read(url).without_password().err().expect("it has a password");
            assert!(!format!("{failure:?}").contains("p@"), "{failure:?}");
        }
    }

    #[test]
    fn a_user_has_a_password_or_the_address_says_that_there_is_none() {
        for scheme in ["redis", "rediss", "redis+cluster", "rediss+sentinel"] {
            let host = if scheme.ends_with("sentinel") { "h/m" } else { "h" };
            let with = |user: &str| read(&format!("{scheme}://{user}{host}"));
            assert!(with("u@").with_a_password_for_its_user().is_err(), "{scheme}");
            for (user, password) in [("u:@", Some("")), ("u:p:@", Some("p:")), (":p@", Some("p")), ("", None)] {
                let address = with(user).with_a_password_for_its_user().expect("it is complete");
                assert!(address.access().iter().all(|it| it.password() == password), "{scheme} {user}");
            }
            assert!(with("u:@").without_password().is_ok(), "{scheme}");
        }
        assert!(read("unix:///s?user=u").with_a_password_for_its_user().is_err());
        assert!(read("unix:///s?user=u&pass=").with_a_password_for_its_user().is_ok());
    }

    #[test]
    fn nonsense_is_refused_and_not_repeated() {
        for url in ["", "secret", "http://u:secret@h", "redis+sentinel://h", "redis+sentinel:///m", "redis+cluster://"]
        {
            let failure = Address::read(url, "--url").err().expect("it is nonsense");
            assert!(!format!("{failure:?}").contains("secret"), "{failure:?}");
        }
    }
}
