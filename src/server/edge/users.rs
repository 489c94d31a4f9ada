//! The user behind a connection, and what it may see: for a command without keys, the server cannot check that. And the
//! address of a connection.

use crate::server::ffi::api::{api, flag};
use crate::server::ffi::call::{CallReply, call, server_setting};
use crate::server::ffi::context::Context;
use crate::server::ffi::string::OwnedStr;
use redis_module::raw;
use rlock_core::words::Error;
use std::cell::OnceCell;
use std::ptr::NonNull;

/// The name of the user that sent the current command. Sessions, for example, belong to a user by this name.
///
/// # Errors
/// If the call has no user, since another module makes it.
pub fn user_name(context: &Context) -> Result<OwnedStr, Error> {
    match context.connected_user() {
        Some(name) => Ok(name),
        // A script has a client of its own, which is not connected, and acts for a user unless another module calls it.
        None if context.flags() & flag::IN_SCRIPT != 0 && acts_for_a_user(context) => {
            // SAFETY: the context is alive, and has a user; the name that comes back is ours.
            let name = unsafe { OwnedStr::from_server(api!(RedisModule_GetCurrentUserName(context.as_ptr()))) };
            name.ok_or(Error::NoUser)
        }
        None => Err(Error::NoUser),
    }
}

/// Whether the client has another user than the default one. A client gets the default user as soon as its own is deleted; the
/// server then sends it nothing more, and closes it a little later.
pub fn has_own_user(context: &Context) -> bool {
    context.connected_user().is_some_and(|name| name.lend().bytes() != b"default")
}

/// Calls a command that does not exist. The server looks up the user first, so the error shows whether there is one.
fn acts_for_a_user(context: &Context) -> bool {
    // SAFETY: a C string, as the format says behind its modifiers: run as the user, errors as replies.
    let reply = unsafe { call!(context, c"rlock.no-such-command", c"CEc", c"".as_ptr()) };
    reply.is_some_and(|reply| !reply.is_error_with(b"cannot run as user"))
}

/// Whether the user of the current command may read every key, present and future.
///
/// This reads the text of ACL GETUSER: no module API function that all servers have checks more than one key. Rights that come
/// only from a selector, or apply only in some databases (Valkey from 9.1 on), do not count: a no too many does no harm.
///
/// # Errors
/// If the user may not, or its rights are unknown.
pub fn check_sees_all(context: &Context) -> Result<(), Error> {
    let name = context.connected_user().ok_or(Error::NoUser)?;
    // SAFETY: a C string and a string, as the format says behind its modifier: errors as replies.
    let user = unsafe { call!(context, c"ACL", c"Ecs", c"GETUSER".as_ptr(), name.lend().as_ptr()) };
    let is_right = |user: CallReply| {
        // A pattern has no spaces.
        let mut keys = user.named(b"keys").unwrap_or_default().split(|byte| *byte == b' ');
        let in_all_databases = user.named(b"databases").is_none_or(|databases| databases == b"alldbs");
        in_all_databases && keys.any(|pattern| pattern == b"~*" || pattern == b"%R~*")
    };
    user.is_some_and(is_right).then_some(()).ok_or(Error::NotAllKeys)
}

/// A user of the server.
pub struct Reader(NonNull<raw::RedisModuleUser>);

impl Reader {
    /// The user of the client that sent the current command.
    ///
    /// # Errors
    /// If the call has no user: it is another module's, or the user was deleted just now.
    pub fn of(context: &Context) -> Result<Self, Error> {
        context.connected_user().and_then(|name| Self::named(&name)).ok_or(Error::NoUser)
    }

    /// None if there is no user of this name.
    pub fn named(name: &OwnedStr) -> Option<Self> {
        // SAFETY: the name is alive; a user that comes back is freed below.
        let user = unsafe { api!(RedisModule_GetModuleUserFromUserName(name.lend().as_ptr())) };
        NonNull::new(user).map(Self)
    }

    /// Whether the user may read this key.
    pub fn may_read(&self, key: &[u8]) -> bool {
        let key = OwnedStr::new(key);
        // SAFETY: the user and the name are alive.
        unsafe {
            api!(RedisModule_ACLCheckKeyPermissions(self.0.as_ptr(), key.lend().as_ptr(), flag::MAY_READ)) == flag::OK
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // SAFETY: ours, and freed once. The server's own user stays.
        unsafe { api!(RedisModule_FreeModuleUser(self.0.as_ptr())) };
    }
}

/// Finds the addresses from which clients are connected, as CLIENT LIST says them.
pub struct Addresses<'a> {
    context: &'a Context,
    /// The one address of all clients that are connected to the server's socket in the file system; asked for once.
    socket: OnceCell<Option<Vec<u8>>>,
}

impl<'a> Addresses<'a> {
    pub fn new(context: &'a Context) -> Self {
        Self { context, socket: OnceCell::new() }
    }

    /// None if the client is gone, or the server does not report its address.
    pub fn of(&self, client: u64) -> Option<Vec<u8>> {
        // SAFETY: a plain C structure of numbers, for which all zeros are valid.
        let mut info: raw::RedisModuleClientInfo = unsafe { std::mem::zeroed() };
        info.version = 1;
        // SAFETY: the structure is of the version that it says.
        if unsafe { api!(RedisModule_GetClientInfoById((&raw mut info).cast(), client)) } != flag::OK {
            return None;
        }
        if info.flags & flag::ON_UNIX_SOCKET != 0 {
            let socket = || server_setting(self.context, c"unixsocket").map(|path| [&path[..], b":0"].concat());
            return self.socket.get_or_init(socket).clone();
        }
        let address: Vec<u8> =
            info.addr.iter().map(|byte| byte.to_ne_bytes()[0]).take_while(|byte| *byte != 0).collect();
        Some(with_port(&address, info.port))
    }
}

fn with_port(address: &[u8], port: u16) -> Vec<u8> {
    let (open, close): (&[u8], &[u8]) = if address.contains(&b':') { (b"[", b"]") } else { (b"", b"") };
    [open, address, close, b":", port.to_string().as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::with_port;

    #[test]
    fn an_address_with_colons_is_put_in_brackets() {
        assert_eq!(with_port(b"127.0.0.1", 6379), b"127.0.0.1:6379");
        assert_eq!(with_port(b"::1", 50_000), b"[::1]:50000");
    }
}
