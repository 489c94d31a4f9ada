//! The address from which a client is connected, as CLIENT LIST says it.

use crate::server::ffi::api::{api, flag};
use crate::server::ffi::call;
use crate::server::ffi::context::Context;
use redis_module::raw;
use std::cell::OnceCell;

/// Finds addresses, one after the other.
pub struct Addresses<'a> {
    context: &'a Context,
    /// The one address of all clients that are connected to the server's socket in the file system; asked for once.
    socket: OnceCell<Option<Vec<u8>>>,
}

impl<'a> Addresses<'a> {
    pub fn new(context: &'a Context) -> Self {
        Self { context, socket: OnceCell::new() }
    }

    /// None if the client is gone, or the server does not tell.
    pub fn of(&self, client: u64) -> Option<Vec<u8>> {
        // SAFETY: a plain C structure of numbers, for which all zeros are valid.
        let mut info: raw::RedisModuleClientInfo = unsafe { std::mem::zeroed() };
        info.version = 1;
        // SAFETY: the structure is of the version that it says.
        if unsafe { api!(RedisModule_GetClientInfoById((&raw mut info).cast(), client)) } != flag::OK {
            return None;
        }
        if info.flags & flag::ON_UNIX_SOCKET != 0 {
            let socket = || call::server_setting(self.context, c"unixsocket").map(|path| [&path[..], b":0"].concat());
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
