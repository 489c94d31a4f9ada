//! Where the locks are: an address and a password, from the arguments and the environment.

mod certificates;
mod environment;
mod password;
mod place;
mod url;

pub use place::{Address, Way};
pub use rlock_client::Certificates;

use crate::arguments::Server;
use crate::failure::Failure;
use rlock_client::{Error, Locks};

const DEFAULT: &str = "redis://127.0.0.1:6379";

/// Connects to the address from the arguments and the environment.
pub async fn connect(server: &Server) -> Result<(Locks, Address), Failure> {
    let (address, certificates) = read(server)?;
    let options = Locks::options();
    opened(address.open(options, certificates, server.connect_timeout).await, address)
}

/// For commands that wait: connecting is part of the wait. The name shows other users which program holds or waits.
pub async fn connect_in_time(name: Option<&str>, server: &Server) -> Result<(Locks, Address), Failure> {
    let (address, certificates) = read(server)?;
    let options = Locks::options().lazily();
    let options = if let Some(name) = name { options.name(name) } else { options };
    opened(address.open(options, certificates, server.connect_timeout).await, address)
}

fn opened(locks: Result<Locks, Error>, address: Address) -> Result<(Locks, Address), Failure> {
    match locks {
        Ok(locks) => Ok((locks, address)),
        Err(error) => Err(Failure::of_the_server(&address, &error)),
    }
}

/// Reads the address and the certificates without connecting.
pub fn read(server: &Server) -> Result<(Address, Option<Certificates>), Failure> {
    let address = find(server)?;
    let certificates = certificates::find(server, &address)?;
    Ok((address, certificates))
}

fn find(server: &Server) -> Result<Address, Failure> {
    let variable = environment::variable("RLOCK_URL")?;
    let mut address = match (&server.url, &variable) {
        (Some(argument), _) => url::read(argument, "--url")?,
        (None, Some(variable)) => url::read(variable, "RLOCK_URL")?,
        (None, None) => url::read(DEFAULT, "the default")?,
    };
    if server.url.is_some() {
        password::must_not_be_in(&address)?;
    }
    if let Some(password) = password::find(server)? {
        address.authenticate(&password);
    }
    password::must_be_there_for_the_user_of(&address)?;
    Ok(address)
}
