//! `rlock dev`: the engine that ships, behind a port, on a keyspace in memory. For unit tests and tutorials in every language,
//! without Redis and without a module. It keeps nothing.

mod clients;
mod connection;
mod info;
mod keys;
mod server;
mod settings;
mod users;

use crate::arguments::Dev;
use crate::exit;
use crate::failure::Failure;
use crate::output;
use crate::signals::Signals;
use nix::sys::signal::Signal;
use server::{Shared, State};
use std::cell::RefCell;
use std::io::Read;
use std::net::TcpListener;
use std::rc::Rc;
use std::thread;
use tokio::net::UnixListener;
use tokio::sync::{Notify, oneshot};
use tokio::task::{LocalSet, spawn_local};
use users::Users;

const BANNER: &str = "rlock dev: a server for tests and tutorials. It keeps nothing, and is not for production.";

/// Serves until it is stopped.
pub async fn dev(args: &Dev) -> Result<u8, Failure> {
    let mut signals = Signals::take(&[Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP])?;
    let mut state = State::new(Users::with_password(args.password.as_deref()));
    for setting in &args.set {
        let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
        state.set(name, value).map_err(|why| Failure::usage(format!("--set {setting}: {why}")))?;
    }
    let place = (args.address, args.port);
    let listener = TcpListener::bind(place)
        .map_err(|error| Failure::new(exit::SYSTEM, format!("cannot listen on {}:{}: {error}", place.0, place.1)))?;
    let at = listener.local_addr().map_err(Failure::of_the_system)?;
    listener.set_nonblocking(true).map_err(Failure::of_the_system)?;
    state.port = at.port();
    let shared = Rc::new(Shared { state: RefCell::new(state), is_changed: Notify::new() });
    let local = LocalSet::new();
    local
        .run_until(async move {
            let tcp = tokio::net::TcpListener::from_std(listener).map_err(Failure::of_the_system)?;
            spawn_local(accept_tcp(Rc::clone(&shared), tcp));
            if let Some(path) = &args.socket {
                let unix = UnixListener::bind(path)
                    .map_err(|error| Failure::system(format!("cannot listen on {}: {error}", path.display())))?;
                spawn_local(accept_unix(Rc::clone(&shared), unix, path.display().to_string()));
            }
            spawn_local(async move { shared.wake_in_time().await });
            eprintln!("{BANNER}");
            output::print(&format!("redis://{at}\n"))?;
            tokio::select! {
                _ = signals.next() => {}
                () = end_of_input(args.until_eof) => {}
            }
            if let Some(path) = &args.socket {
                // It may be gone already: this error changes nothing.
                _ = std::fs::remove_file(path);
            }
            Ok(0)
        })
        .await
}

async fn accept_tcp(shared: Rc<Shared>, listener: tokio::net::TcpListener) {
    while let Ok((stream, from)) = listener.accept().await {
        // Each reply is written as a whole, so a delay would gain nothing.
        _ = stream.set_nodelay(true);
        let local = stream.local_addr().map_or_else(|_| String::new(), |at| at.to_string());
        spawn_local(connection::serve(Rc::clone(&shared), stream, from.to_string(), local));
    }
}

async fn accept_unix(shared: Rc<Shared>, listener: UnixListener, path: String) {
    while let Ok((stream, _)) = listener.accept().await {
        spawn_local(connection::serve(Rc::clone(&shared), stream, format!("{path}:0"), format!("{path}:0")));
    }
}

/// Returns at the end of stdin, if that counts: then the server ends when the test that started it dies.
async fn end_of_input(counts: bool) {
    let (tell, ended) = oneshot::channel();
    if counts {
        thread::spawn(move || {
            let mut ignored = [0; 4_096];
            while matches!(std::io::stdin().read(&mut ignored), Ok(1..)) {}
            tell.send(())
        });
        _ = ended.await;
    } else {
        std::future::pending().await
    }
}
