//! Distributed locks on Redis and Valkey, for servers with the rlock module.
//!
//! ```rust,no_run
//! use rlock_client::{Error, Locks};
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Error> {
//!     let locks = Locks::connect("redis://127.0.0.1:6379").await?;
//!     let guard = locks.lock("orders:42").acquire().await?; // waits in the server's queue
//!     tokio::select! {
//!         () = ship("orders:42") => {}
//!         () = guard.lost() => eprintln!("stopped: somebody else may have the lock"),
//!     }
//!     guard.release().await // an error if the lock was lost
//! }
//!
//! async fn ship(_order: &str) {}
//! ```
//!
//! The client is thin. **The server decides**: who gets a lock, in which order, and when a lease is over. The client
//! does two things for you: it **keeps the lease alive** while you have the guard, and it **tells you when that
//! failed**: a lease that ends is told before the server can give the lock to somebody else.
//!
//! It is no lock within one process (take [`tokio::sync::Mutex`]), no copy of the locks' state, and no promise that a
//! lease cannot keep; see [what a lease does not promise](#what-a-lease-does-not-promise). On a server without the
//! module it does not work. Java programs with Redisson, and clients in other languages, share the same locks.
//!
//! - [Which lock?](#which-lock)
//! - [How a service looks](#how-a-service-looks)
//! - [Cancel safety](#cancel-safety), [Errors](#errors), [Fairness](#fairness)
//! - [What a lease does not promise](#what-a-lease-does-not-promise)
//! - [Connections](#connections), [Topologies](#topologies), [For the people on call](#for-the-people-on-call),
//!   [Features](#features), [Logs](#logs)
//!
//! # Which lock?
//!
//! | you want | take |
//! |---|---|
//! | one at a time | [`locks.lock(name)`](Locks::lock) |
//! | many readers, or one writer | [`locks.read_write(name)`](Locks::read_write), then [`read()`](ReadWriteLock::read) or [`write()`](ReadWriteLock::write) |
//! | several locks, all or none | [`multi([a, b])`](multi) |
//! | a lock that outlives one of several independent servers | [`redlock([a, b, c])`](redlock) |
//!
//! Each of the first two can be told more, before it is acquired:
//!
//! | you want | add |
//! |---|---|
//! | that storage can refuse an old holder | [`fenced()`](Lock::fenced), and check [`Guard::token`] where you write |
//! | to take it again while you have it | [`owner(id)`](Lock::owner) |
//! | that a failover forgets it less often | [`replicas(n, timeout)`](Lock::replicas) |
//! | another lease for this lock | [`lease(time)`](Lock::lease) |
//! | that it ends by itself, whatever happens | [`fixed_lease(time)`](Lock::fixed_lease) |
//!
//! And there are three ways to ask:
//!
//! | you want | call |
//! |---|---|
//! | it now or not at all | [`try_acquire()`](Lock::try_acquire) |
//! | to wait for so long | [`acquire_timeout(limit)`](Lock::acquire_timeout) |
//! | to wait | [`acquire()`](Lock::acquire) |
//!
//! If you do not know which: `lock(name)` with `acquire_timeout`, and `fenced()` as soon as two writers would do harm.
//!
//! **A lock's name is its key** on the server. Do not keep data under it: for the lock of `report`, take `report:lock`.
//!
//! **Without an owner each guard is a holder of its own.** A task that holds a lock and acquires it again waits for
//! itself. The same goes for a reader that asks for the write side: give the read side back first.
//!
//! # How a service looks
//!
//! Work and loss go into one `select!`. When the lease is lost, the work is dropped at the point where it awaits, and
//! does nothing more.
//!
//! ```rust,no_run
//! use rlock_client::{Error, Locks};
//! use tokio::sync::watch;
//!
//! /// On each of many hosts; one of them works.
//! async fn send_mails(locks: Locks, mut shutdown: watch::Receiver<bool>) -> Result<(), Error> {
//!     let lock = locks.lock("mails:lock").fenced();
//!     loop {
//!         let guard = tokio::select! {
//!             guard = lock.acquire() => guard?,
//!             // The wait is dropped, and the place in the queue given up.
//!             _ = shutdown.changed() => return Ok(()),
//!         };
//!         tokio::select! {
//!             () = send_all(guard.token()) => return guard.release().await,
//!             // Ask again, from the end of the queue.
//!             () = guard.lost() => continue,
//!             // The next host begins at once, and not when the lease is over.
//!             _ = shutdown.changed() => return guard.release().await,
//!         }
//!     }
//! }
//!
//! /// Marks each mail as sent together with the token, unless it finds a higher one there.
//! async fn send_all(_token: Option<u64>) {}
//! ```
//!
//! Whole programs are in `client/examples`: `flash_sale` (a lock for each user), `cron_once` (a job that one of many
//! hosts does, and a record that checks the token), `cache_refresh` (readers, and one who refreshes).
//!
//! Work that does not await, such as a long computation or blocking calls, is not stopped by `select!`. Move it to
//! [`tokio::task::spawn_blocking`], and look at [`Guard::is_lost`] between its steps.
//!
//! **Release is a call, drop is best effort.** [`Guard::release`] waits for the server's word. A guard that is dropped
//! is released in the background, and nobody learns how that went. If the program ends right after it, the lock stays
//! taken until the lease is over; [`Locks::settle`] waits for what goes on in the background.
//!
//! # Cancel safety
//!
//! Everything here can be dropped at any time, as `select!` and [`tokio::time::timeout`] do. An acquire that is dropped
//! leaves neither a waiter nor a hold behind. A request that is under way then may still be granted; what it may have
//! got is given back in the background, for as long as a lease lasts. A release that is dropped goes on in the
//! background. So does what is said at each method; *in the background* means: for as long as the tokio runtime lives
//! in which the client was opened.
//!
//! # Errors
//!
//! [`Error`] is opaque. It says what it is about, and has the server's own words. To act on it, ask a predicate, or
//! match on [`Error::kind`]:
//!
//! | kind | means | what to do |
//! |---|---|---|
//! | [`Timeout`](ErrorKind::Timeout) | it was not free in time | somebody else is at it; try later |
//! | [`Lost`](ErrorKind::Lost) | the lease has ended, or may have; or the lock was taken away, or [may have been](Error::is_in_doubt) | treat what was done as not protected |
//! | [`Unavailable`](ErrorKind::Unavailable) | no server answers, or not now (no memory …), for as long as [`Options::patience`] says | try later; nothing has to be cleaned up |
//! | [`TooFewReplicas`](ErrorKind::TooFewReplicas) | not confirmed by enough replicas; it was released | try later, or do with fewer |
//! | [`QueueFull`](ErrorKind::QueueFull) | the server lets no more clients wait | try later; see `rlock.max-waiters` |
//! | [`WrongKind`](ErrorKind::WrongKind), [`Deadlock`](ErrorKind::Deadlock) | a mistake in the program | mend it |
//! | [`ModuleMissing`](ErrorKind::ModuleMissing), [`Refused`](ErrorKind::Refused), [`Configuration`](ErrorKind::Configuration) | a mistake in the set-up | read the message |
//!
//! A lock that is taken is no error for `try_acquire`: it returns `None`.
//!
//! **A release is `Ok` only if the server has said that it had something to give back**: that is the one word that the
//! lock was held until then. It may be said late, when a server goes on that stood still, or to the second request,
//! when the first has not arrived. If the connection breaks between the request and its answer, the word is lost: that
//! nothing is held, as the server says from then on, may be our own doing, or the server had forgotten the lock before.
//! Nobody can tell, so it is no success but `Lost`, and [`Error::is_in_doubt`].
//!
//! # Fairness
//!
//! Each lock has a queue in the server: first come, first served. A release hands the lock to the next one in the same
//! step. Readers and writers take turns, so neither starves. `try_acquire` overtakes nobody.
//!
//! The place in the queue belongs to a connection. It is lost when that breaks, when the server stands still for longer
//! than [`Options::answer_timeout`], or fails over; the client then asks again, from the end. Three have no fairness: a
//! [`redlock`], whose servers know nothing of each other; a client over [a connection of yours](Options::over), which
//! cannot wait in the server; and programs that run Redisson's scripts, which do not know the queue and may overtake
//! it.
//!
//! # What a lease does not promise
//!
//! A lease is a promise for a time. When it ends, the server gives the lock to the next one, whether or not the holder
//! knows.
//!
//! **How the client knows.** It counts each lease from *before* the request was sent that began it, less 1 % and 2 ms
//! for clocks that run at different speeds. That is the deadline. The watchdog renews each time that a third of the
//! lease is over, and tries again when that fails; and as soon as it can when a connection breaks, since a server that
//! was started anew may have forgotten its locks. When the deadline passes, or the server says that the lock is not
//! held, the guard is lost, for good: [`Guard::lost`] resolves, [`Guard::is_lost`] is true, and [`Guard::release`]
//! fails. A deadline that passes is noticed without the server: no network is needed to learn that the network is gone.
//! [`Guard::loss`] says why it came to that.
//!
//! What is left open:
//!
//! - **A program that stands still does not look.** Its thread is blocked, its process stopped, its machine overloaded.
//!   When it goes on, the next instruction may be a write, before anything can tell it that the lease is over.
//! - **A machine that is suspended stops its clock.** The deadline is on the monotonic clock (`CLOCK_MONOTONIC` on
//!   Linux), which stands still in suspend; so does that of a virtual machine that is paused. After that the guard
//!   looks good until the watchdog's next renewal, at most a third of the lease later, finds that it is not. A [fixed
//!   lease](Lock::fixed_lease) is not renewed; its loss is noticed too late by the whole time of the suspend.
//! - **A lock that is taken away is told late.** Somebody deletes its key, or a failover forgets it: the next one may
//!   have it before the next renewal finds out, which comes within a third of the lease, or, when the connection has
//!   broken, as soon as there is one again: it is tried each second at least.
//! - **A write that is on its way arrives.** What was sent in time may take effect when the lease is over.
//! - **A failover may forget a lock**, since replication is asynchronous. [`Lock::replicas`] makes that rarer. The
//!   fencing counter is replicated the same way, so it may repeat a token.
//!
//! For what must never happen twice, let the storage decide: send the fencing token with each write, and refuse one
//! that is lower than the last it saw. The example `cron_once` shows it.
//!
//! # Connections
//!
//! Requests that are answered at once share one connection to each server: tries, renewals, releases. While leases are
//! kept alive, it is looked at ten times a second whether it has broken, which sends nothing. **A client that waits has
//! a connection of its own for that**, since a server answers nothing else on it meanwhile. Such a connection is opened
//! when the first try finds the lock taken, used again for later waits, and closed when nobody has used it for
//! [`Options::idle_timeout`].
//!
//! **There is no limit on them.** With one, a program that holds A and waits for B could wait for a connection that
//! only the release of A would free. To have fewer, wait less at the same time: put a [`tokio::sync::Semaphore`] before
//! it. The server has limits of its own, `maxclients` and `rlock.max-waiters`.
//!
//! A program needs one [`Locks`]; its clones share everything. It needs a tokio runtime with time and I/O enabled, and
//! belongs to the one in which it was opened. Your own data goes over connections of your own: the crate that this one
//! uses is [`rlock_client::redis`](redis).
//!
//! # Topologies
//!
//! | there is | open it by |
//! |---|---|
//! | one server | [`Locks::connect`], or [`Options::connect_to`] with settings |
//! | a Redis Cluster | [`Options::connect_to_cluster`], with some of its nodes |
//! | a master with sentinels | [`Options::connect_to_sentinels`] |
//! | several independent servers | one `Locks` for each, and [`redlock`] |
//! | a connection that you have already | [`Options::over`] |
//!
//! | address | is |
//! |---|---|
//! | `redis://user:password@host:6379/0` | TCP |
//! | `rediss://user:password@host:6379/0` | TLS |
//! | `redis+unix:///run/redis.sock?db=0&user=…&pass=…` | a unix socket |
//!
//! `valkey://`, `valkeys://` and `valkey+unix://` are the same. For certificates of your own give a
//! [`redis::ConnectionInfo`].
//!
//! In a cluster each lock is asked for at the owner of its name's slot, also while slots move; locks of one [`multi`]
//! may be anywhere. After a failover the client finds the new master by itself, within [`Options::patience`].
//!
//! **A connection of yours** is shared with others, so nothing may wait on it. There the client asks again every 50 ms,
//! which is neither prompt nor fair; and [`replicas`](Lock::replicas) is refused. That it has broken shows with the
//! next request. Take it only where you may not open connections.
//!
//! # For the people on call
//!
//! These take part in no locking. The command line `rlock` is made of them.
//!
//! | you want to know | call |
//! |---|---|
//! | who holds a lock, and who waits for it | [`inspect(name, count)`](Locks::inspect) |
//! | where the queues are | [`queues(count)`](Locks::queues) |
//! | which locks are held | [`held(pattern, limit)`](Locks::held) |
//! | what a server counts | [`statistics()`](Locks::statistics) |
//! | any of these of each master by itself, where one does not answer | [`masters()`](Locks::masters) |
//!
//! And [`break_lock(name)`](Locks::break_lock) frees a lock by force: whoever held it has lost it.
//!
//! # Features
//!
//! - `tls` (on by default): `rediss://` by rustls, with the system's certificates. rustls takes the cryptography that
//!   the program has chosen for the process; if it has chosen none, ring.
//!
//! # Logs
//!
//! By `tracing`, under the target `rlock_client`, with the lock's name and the holder as fields.
//!
//! | level | what |
//! |---|---|
//! | `WARN` | the watchdog found a lock lost |
//! | `DEBUG` | acquired; a renewal failed; a server does not answer and is asked again; not given back yet |
//! | `TRACE` | renewed |
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod core;
mod error;
mod guard;
mod kind;
mod link;
mod lock;
mod locks;
mod loss;
mod operators;
mod options;
mod server_line;
mod several;

pub use error::{Error, ErrorKind};
pub use guard::Guard;
pub use kind::Kind;
pub use lock::{Lock, ReadWriteLock};
pub use locks::Locks;
pub use loss::Loss;
pub use operators::{Held, HoldSide, Holder, Inspection, Queue, Statistics, Waiter};
pub use options::Options;
pub use redis;
pub use several::{Multi, Redlock, multi, redlock};

/// Compiles the examples of the README files.
#[cfg(doctest)]
mod readme {
    #[doc = include_str!("../README.md")]
    struct OfTheClient;
    #[doc = include_str!("../../README.md")]
    struct OfTheProject;
}
