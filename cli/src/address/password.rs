//! The password. It may be in the environment or in a file, but not on the command line, which every user of the
//! machine can read.
//!
//! If the address names a user, commands run as that user or fail. Without a password the client would not log in, and
//! act as the server's default user, which often may do everything.

use super::environment::variable;
use super::place::Address;
use crate::arguments::Server;
use crate::failure::Failure;
use std::path::{Path, PathBuf};

pub fn find(server: &Server) -> Result<Option<String>, Failure> {
    if let Some(path) = &server.password_file {
        return password_in(path).map(Some);
    }
    if let Some(password) = variable("RLOCK_PASSWORD")? {
        return Ok(Some(password));
    }
    variable("RLOCK_PASSWORD_FILE")?.map(|path| password_in(&PathBuf::from(path))).transpose()
}

/// The password is the first line of the file.
fn password_in(path: &Path) -> Result<String, Failure> {
    let unreadable =
        |why: String| Failure::usage(format!("the password file {} cannot be read: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
    match text.lines().next() {
        Some(line) if !line.is_empty() => Ok(line.to_owned()),
        _ => Err(unreadable("its first line is empty".to_owned())),
    }
}

/// Fails if an address that every user can read has a password. An empty password is no secret.
pub fn must_not_be_in(address: &Address) -> Result<(), Failure> {
    match address.access().iter().filter_map(|it| it.password.as_ref()).all(String::is_empty) {
        true => Ok(()),
        false => Err(Failure::usage(
            "a password in --url shows in `ps`: put it into RLOCK_PASSWORD or a --password-file, or the url into \
             RLOCK_URL",
        )),
    }
}

/// Fails if the address names a user without a password.
pub fn must_be_there_for_the_user_of(address: &Address) -> Result<(), Failure> {
    match address.access().iter().find(|it| it.password.is_none()).and_then(|it| it.user.as_ref()) {
        None => Ok(()),
        Some(user) => Err(Failure::usage(format!(
            "the password of the user {user} is missing: put it into RLOCK_PASSWORD, a --password-file or \
             RLOCK_PASSWORD_FILE; for a user who needs none the address is {user}:@host, or ends with &pass="
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::url;

    fn read(address: &str) -> Address {
        url::read(address, "it").unwrap()
    }

    #[test]
    fn passwords_are_seen_wherever_they_are() {
        for url in [
            "redis://:p@h",
            "u:p@h",
            ":p@h:7000",
            "redis://u:p@h",
            "unix:///s?pass=p",
            "redis+sentinel://u:p@h/m",
            "rediss+cluster://app:p@a:1,b/",
        ] {
            let failure = must_not_be_in(&read(url)).expect_err("it has a password");
            assert!(!format!("{failure:?}").contains("p@"), "{failure:?}");
        }
        assert!(must_not_be_in(&read("valkey+sentinel://app@a,b:2/mymaster/3")).is_ok());
    }

    #[test]
    fn a_user_has_a_password_or_the_address_says_that_there_is_none() {
        let is_complete = |address: &Address| must_be_there_for_the_user_of(address).is_ok();
        for scheme in ["redis", "rediss", "redis+cluster", "rediss+sentinel"] {
            let host = if scheme.ends_with("sentinel") { "h/m" } else { "h" };
            let with = |user: &str| read(&format!("{scheme}://{user}{host}"));
            assert!(!is_complete(&with("u@")), "{scheme}");
            for (user, password) in [("u:@", Some("")), ("u:p:@", Some("p:")), (":p@", Some("p")), ("", None)] {
                let address = with(user);
                assert!(is_complete(&address), "{scheme} {user}");
                assert!(address.access().iter().all(|it| it.password.as_deref() == password), "{scheme} {user}");
            }
            assert!(must_not_be_in(&with("u:@")).is_ok(), "{scheme}");
        }
        assert!(!is_complete(&read("unix:///s?user=u")));
        assert!(is_complete(&read("unix:///s?user=u&pass=")));
    }
}
