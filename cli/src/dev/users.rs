//! Users, their passwords and their permissions. Only the rules of ACL SETUSER that a test of locks needs.

use rlock_sim::HasUser;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

#[derive(Default)]
pub struct Users {
    all: Rc<RefCell<BTreeMap<Vec<u8>, User>>>,
}

#[derive(Default)]
struct User {
    is_on: bool,
    needs_no_password: bool,
    passwords: Vec<Vec<u8>>,
    /// Rules for commands and their categories. The last rule that fits counts.
    rights: Vec<(bool, String)>,
}

pub const DEFAULT: &[u8] = b"default";

/// Commands that every logged-in user may run.
const ALWAYS: [&str; 4] = ["AUTH", "HELLO", "QUIT", "RESET"];

impl Users {
    /// Only the user `default`, with all permissions.
    pub fn with_password(password: Option<&str>) -> Self {
        let users = Self::default();
        let password = password.map_or_else(|| "nopass".to_owned(), |password| format!(">{password}"));
        let rules = ["on", &password, "+@all"].map(|rule| rule.as_bytes().to_vec());
        // All these rules are known, so this cannot fail.
        _ = users.set(DEFAULT, &rules);
        users
    }

    /// A function by which the engine asks whether a user exists.
    pub fn are_there(&self) -> HasUser {
        let all = Rc::clone(&self.all);
        Box::new(move |name| all.borrow().contains_key(name))
    }

    pub fn set(&self, name: &[u8], rules: &[Vec<u8>]) -> Result<(), String> {
        let mut all = self.all.borrow_mut();
        let user = all.entry(name.to_vec()).or_default();
        for rule in rules {
            match &rule[..] {
                b"on" => user.is_on = true,
                b"off" => user.is_on = false,
                b"reset" => *user = User::default(),
                b"nopass" => (user.needs_no_password, user.passwords) = (true, Vec::new()),
                b"resetpass" => (user.needs_no_password, user.passwords) = (false, Vec::new()),
                [b'>', password @ ..] => {
                    user.needs_no_password = false;
                    user.passwords.push(password.to_vec());
                }
                // Every user may touch all keys and channels.
                [b'~' | b'%' | b'&', ..] | b"allkeys" | b"allchannels" | b"resetkeys" | b"resetchannels" => {}
                b"allcommands" => user.rights.push((true, "@ALL".to_owned())),
                [sign @ (b'+' | b'-'), right @ ..] => {
                    user.rights.push((*sign == b'+', String::from_utf8_lossy(right).to_uppercase()));
                }
                _ => return Err(format!("ERR rlock dev does not know the rule {}", String::from_utf8_lossy(rule))),
            }
        }
        Ok(())
    }

    pub fn delete(&self, name: &[u8]) -> bool {
        name != DEFAULT && self.all.borrow_mut().remove(name).is_some()
    }

    /// The user of a connection that does not log in.
    pub fn user_without_login(&self) -> Option<Vec<u8>> {
        let all = self.all.borrow();
        all.get(DEFAULT).is_some_and(|user| user.is_on && user.needs_no_password).then(|| DEFAULT.to_vec())
    }

    pub fn needs_no_password(&self) -> bool {
        self.all.borrow().get(DEFAULT).is_some_and(|user| user.needs_no_password)
    }

    pub fn accepts(&self, name: &[u8], password: &[u8]) -> bool {
        let all = self.all.borrow();
        let knows = |user: &User| user.passwords.iter().any(|known| known == password);
        all.get(name).is_some_and(|user| user.is_on && (user.needs_no_password || knows(user)))
    }

    /// Whether a user may run this command. `None`: the connection has not logged in.
    ///
    /// # Errors
    /// If not: the reply.
    pub fn check(&self, name: Option<&[u8]>, command: &str) -> Result<(), String> {
        if ALWAYS.contains(&command) {
            return Ok(());
        }
        let Some(name) = name else { return Err("NOAUTH Authentication required.".to_owned()) };
        let all = self.all.borrow();
        let fits = |right: &str| right == command || right == "@ALL" || category(command).contains(&right);
        let rights = all.get(name).map_or(&[][..], |user| &user.rights);
        match rights.iter().rev().find(|(_, right)| fits(right)) {
            Some((true, _)) => Ok(()),
            _ => {
                let (name, command) = (String::from_utf8_lossy(name), command.to_lowercase());
                Err(format!("NOPERM User {name} has no permissions to run the '{command}' command"))
            }
        }
    }
}

fn category(command: &str) -> &'static [&'static str] {
    match command {
        "PING" | "ECHO" | "SELECT" | "CLIENT" | "COMMAND" => &["@CONNECTION"],
        "SUBSCRIBE" | "PSUBSCRIBE" | "UNSUBSCRIBE" | "PUNSUBSCRIBE" | "PUBLISH" => &["@PUBSUB"],
        "RLOCK.INSPECT" | "RLOCK.QUEUES" => &["@READ"],
        "RLOCK.BREAK" | "RLOCK.SESSIONS" | "ACL" | "CONFIG" => &["@ADMIN", "@DANGEROUS"],
        command if command.starts_with("RLOCK.") => &["@WRITE", "@RLOCK"],
        "DEL" | "UNLINK" | "SET" | "PEXPIRE" | "EXPIRE" | "PERSIST" => &["@WRITE"],
        "INFO" | "ROLE" | "KEYS" | "FLUSHALL" | "FLUSHDB" => &["@DANGEROUS"],
        _ => &["@READ"],
    }
}
