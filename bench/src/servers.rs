//! The servers that are measured: children of this program, on unix sockets, with the module that a contender needs.

use crate::contenders::Module;
use crate::interrupt::Guarded;
use rlock_testing::{Server, Start};
use std::path::PathBuf;

/// A server as it is, reached by its socket alone.
pub fn start(module: Module, options: &[&str]) -> Guarded {
    Guarded::start(|| prepare(module).options(&["--port", "0"]).options(options).start())
}

/// A server that listens on a port too, which is free.
pub fn start_on_port(module: Module, options: &[&str]) -> Guarded {
    Guarded::start(|| on_free_port(|| prepare(module).options(options)))
}

/// Somebody else may take the port between the look and the start: then there is another.
pub fn on_free_port(prepare: impl Fn() -> Start) -> Server {
    for _ in 0..10 {
        match prepare().try_start() {
            Ok(server) => return server,
            Err(log) if log.contains("already in use") => {}
            Err(log) => panic!("the server does not start:\n{log}"),
        }
    }
    panic!("no port stays free for as long as a server needs to take it");
}

pub fn prepare(module: Module) -> Start {
    let start = Server::prepare().options(&["--maxclients", "15000"]);
    match module {
        Module::None => start.without_module(),
        Module::Rlock => {
            start.module(std::env::var_os("RLOCK_MODULE").map_or_else(|| built("librlock.so"), PathBuf::from))
        }
        Module::Noop => start.module(built("librlock_noop.so")),
    }
}

/// A module as it is shipped, which cargo built in a directory beside this program's.
fn built(name: &str) -> PathBuf {
    let program = std::env::current_exe().expect("this program has a path");
    program.parent().expect("in a directory").join("../module").join(name)
}
