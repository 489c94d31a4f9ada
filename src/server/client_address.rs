//! Where a client is connected from, as CLIENT LIST says it.

use super::api::{api, flag};
use super::context::Context;
use super::server_setting;
use redis_module::raw;
use std::cell::OnceCell;

/// Finds addresses, one after the other.
pub(super) struct Addresses<'a> {
    context: &'a Context,
    /// The one address of all who are connected to the server's socket in the file system; asked for once.
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
            return self.socket.get_or_init(|| with_port(server_setting::value(self.context, c"unixsocket"))).clone();
        }
        let address: Vec<u8> =
            info.addr.iter().map(|byte| byte.to_ne_bytes()[0]).take_while(|byte| *byte != 0).collect();
        let (open, close) = if address.contains(&b':') { (&b"["[..], &b"]"[..]) } else { (&b""[..], &b""[..]) };
        let port = info.port.to_string();
        Some([open, &address, close, b":", port.as_bytes()].concat())
    }
}

fn with_port(path: Option<Vec<u8>>) -> Option<Vec<u8>> {
    path.map(|path| [&path[..], b":0"].concat())
}
