//! An address as it is typed.

use super::place::{Address, Route};
use crate::failure::Failure;
use rlock_client::Address as Node;

const SENTINEL_PORT: u16 = 26_379;

pub fn read(url: &str, from: &str) -> Result<Address, Failure> {
    let unreadable = || {
        let forms = "host:port, redis://host:port/db, rediss://, unix:///path, redis+cluster:// or redis+sentinel://";
        Failure::usage(format!("{from} is no address of a server: it is one of {forms}"))
    };
    let whole = with_scheme(url);
    let url = whole.as_str();
    let Some((scheme, rest)) = url.split_once(':') else { return Err(unreadable()) };
    let scheme = scheme.replace("valkeys", "rediss").replace("valkey", "redis");
    let (address, tls) = (rest.trim_start_matches('/'), scheme.starts_with("rediss"));
    let read = match scheme.as_str() {
        "redis+cluster" | "rediss+cluster" => cluster(address, tls),
        "redis+sentinel" | "rediss+sentinel" => sentinels(address, tls),
        _ => one(url),
    };
    read.ok_or_else(unreadable)
}

/// `host`, `host:port`, `user@host:port/db` and `/run/redis.sock` are what most tools take.
fn with_scheme(url: &str) -> String {
    let has_scheme = url.contains("://") || url.split_once(':').is_some_and(|(scheme, _)| scheme.ends_with("unix"));
    match url {
        "" => String::new(),
        _ if has_scheme => url.to_owned(),
        _ if url.starts_with('/') => format!("unix://{url}"),
        _ => format!("redis://{url}"),
    }
}

fn one(url: &str) -> Option<Address> {
    let one: Node = url.parse().ok()?;
    Some(Address { shown: one.place.to_string(), route: Route::One(one) })
}

fn cluster(address: &str, tls: bool) -> Option<Address> {
    let (user, hosts) = user_and_rest(address);
    let hosts = hosts.trim_end_matches('/');
    let nodes = hosts.split(',').map(|host| node(tls, user, host)).collect::<Option<_>>()?;
    Some(Address { shown: hosts.to_owned(), route: Route::Cluster(nodes) })
}

/// `host,host/NAME` or `host,host/NAME/db`. User and password are the master's.
fn sentinels(address: &str, tls: bool) -> Option<Address> {
    let (user, rest) = user_and_rest(address);
    let (hosts, name) = rest.split_once('/')?;
    let (name, db) = name.split_once('/').unwrap_or((name, "0"));
    let sentinels = hosts.split(',').map(|host| node(tls, "", &with_port(host))).collect::<Option<_>>()?;
    let access = node(tls, user, &format!("master/{db}"))?.access;
    let master = Some(name.to_owned()).filter(|name| !name.is_empty())?;
    let shown = format!("{master} of the sentinels {hosts}");
    Some(Address { shown, route: Route::Sentinels { sentinels, master, access } })
}

/// The raw `user:password@`, and the rest.
fn user_and_rest(address: &str) -> (&str, &str) {
    address.rsplit_once('@').map_or(("", address), |(user, rest)| (&address[..=user.len()], rest))
}

fn node(tls: bool, user: &str, host: &str) -> Option<Node> {
    let scheme = if tls { "rediss" } else { "redis" };
    format!("{scheme}://{user}{host}").parse().ok()
}

/// Sentinels have a port of their own.
fn with_port(host: &str) -> String {
    let named = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    if named { host.to_owned() } else { format!("{host}:{SENTINEL_PORT}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Address {
        super::read(url, "it").unwrap()
    }

    #[test]
    fn one_server() {
        for (url, shown) in [
            ("redis://h", "h:6379"),
            ("h", "h:6379"),
            ("localhost", "localhost:6379"),
            ("h:7000", "h:7000"),
            ("127.0.0.1:7000/2", "127.0.0.1:7000"),
            ("user@h:7000", "h:7000"),
            ("[::1]:7000", "::1:7000"),
            ("/run/redis.sock", "/run/redis.sock"),
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
        let places: Vec<_> = nodes.iter().map(|node| node.place.to_string()).collect();
        assert_eq!(places, ["a:1", "b:6379"]);
        assert_eq!(nodes[1].access.password.as_deref(), Some("secret"));
    }

    #[test]
    fn a_master_of_sentinels() {
        let address = read("valkey+sentinel://app@a,b:2/mymaster/3");
        let Route::Sentinels { sentinels, master, access } = &address.route else { panic!("no sentinels") };
        let places: Vec<_> = sentinels.iter().map(|node| node.place.to_string()).collect();
        assert_eq!((places.join(" ").as_str(), master.as_str(), address.has_tls()), ("a:26379 b:2", "mymaster", false));
        assert_eq!((access.user.as_deref(), &access.password, access.database), (Some("app"), &None, 3));
        assert_eq!(address.shown, "mymaster of the sentinels a,b:2");
    }

    #[test]
    fn nonsense_is_refused_and_not_repeated() {
        for url in [
            "",
            "http://u:secret@h",
            "redis:///secret",
            "h:secret",
            "redis://h:secret",
            "redis+sentinel://h",
            "redis+sentinel:///m",
            "redis+cluster://",
        ] {
            let failure = super::read(url, "--url").err().expect("it is nonsense");
            assert!(!format!("{failure:?}").contains("secret"), "{failure:?}");
        }
    }
}
