//! Distributed locks on Redis and Valkey, for servers with the rlock module.
//!
//! ```rust,no_run
//! use rlock_client::{Error, Locks};
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Error> {
//!     let locks = Locks::connect("redis://127.0.0.1:6379").await?;
//!     let guard = locks.lock("orders:42").acquire().await?;
//!     guard.run(ship("orders:42")).await // stops the work if the lock is lost
//! }
//!
//! async fn ship(_order: &str) {}
//! ```
//!
//! The client has no rules about locks. **The server decides** which client gets a lock, in which order, and when a
//! lease is over. The client does two things for you: it **renews the lease** while you have the guard, and it **reports to your
//! program when the lock is lost**. If it cannot renew the lease, it reports that before the server can grant the lock
//! to another client.
//!
//! The client is not a lock within one process (use [`tokio::sync::Mutex`]), not a copy of the locks' state, and not a
//! promise that a lease cannot keep; see [what a lease does not promise](#what-a-lease-does-not-promise). It needs a
//! server with the module. It is tested on Linux; it compiles for macOS and Windows. Java programs with Redisson, and clients in other languages, share the same locks.
//!
//! - [Which lock?](#which-lock)
//! - [How a service looks](#how-a-service-looks)
//! - [Cancel safety](#cancel-safety), [Errors](#errors), [Fairness](#fairness)
//! - [What a lease does not promise](#what-a-lease-does-not-promise)
//! - [Connections](#connections), [Topologies](#topologies), [For the people on call](#for-the-people-on-call),
//!   [Features](#features), [Versions](#versions), [Logs](#logs)
//!
//! # Which lock?
//!
//! | you want | take |
//! |---|---|
//! | one at a time | [`locks.lock(name)`](Locks::lock) |
//! | many readers, or one writer | [`locks.read_write(name)`](Locks::read_write), then [`read()`](ReadWriteLock::read) or [`write()`](ReadWriteLock::write) |
//! | at most n at a time | [`locks.permits(name, n)`](Locks::permits) |
//! | several locks, all or none | [`locks.all([a, b])`](Locks::all) |
//!
//! All of them have options, which you set before you acquire:
//!
//! | you want | add |
//! |---|---|
//! | storage that can refuse an old holder | [`fenced()`](Lock::fenced), and check [`Guard::token`] where you write |
//! | to take a single lock again while you hold it | [`owner(id)`](Lock::owner) |
//! | to wait only if the queue is short | [`max_waiters(n)`](Lock::max_waiters) |
//! | a lock that a failover forgets less often | [`replicas(n, timeout)`](Lock::replicas) |
//! | another lease for this lock | [`lease(time)`](Lock::lease) |
//! | a lease that ends by itself, whatever happens | [`fixed_lease(time)`](Lock::fixed_lease) |
//!
//! Two calls do more than lock:
//!
//! | you want | call |
//! |---|---|
//! | one process of many to do a job, for as long as they run | [`lock.lead(work)`](Lock::lead) |
//! | one caller of many to do the work, and all to get its answer | [`locks.once(key, keep)`](Locks::once), then [`run(work)`](Once::run) |
//!
//! There are three ways to acquire:
//!
//! | you want | call |
//! |---|---|
//! | the lock now or not at all | [`try_acquire()`](Lock::try_acquire) |
//! | to wait for a limited time | [`acquire_timeout(limit)`](Lock::acquire_timeout) |
//! | to wait without a limit | [`acquire()`](Lock::acquire) |
//!
//! If you do not know which: `lock(name)` with `acquire_timeout`, and `fenced()` as soon as two writers would do harm.
//!
//! **A lock's name is its key** on the server. Do not keep data under it: for the lock of `report`, take `report:lock`.
//!
//! **Without an owner each guard is a separate holder.** A program that holds a lock and acquires it again deadlocks.
//! The same goes for a reader that asks for the write side: release the read side first.
//!
//! # How a service looks
//!
//! Give the work to [`Guard::run`]. It releases the lock when the work is done. If the lock is lost before, `run` drops
//! the work at the point where it awaits, and fails with [`Lost`](ErrorKind::Lost); the work takes no further step.
//!
//! ```rust,no_run
//! use rlock_client::{Error, Locks};
//! use tokio::sync::watch;
//!
//! /// Runs on each of many hosts; one of them sends.
//! async fn send_mails(locks: Locks, mut shutdown: watch::Receiver<bool>) -> Result<(), Error> {
//!     let lock = locks.lock("mails:lock").fenced();
//!     loop {
//!         let guard = tokio::select! {
//!             guard = lock.acquire() => guard?,
//!             // Dropping the wait leaves the queue.
//!             _ = shutdown.changed() => return Ok(()),
//!         };
//!         let token = guard.token();
//!         let work = async {
//!             tokio::select! {
//!                 () = send_all(token) => {}
//!                 // The next host begins at once, not when the lease ends.
//!                 _ = shutdown.changed() => {}
//!             }
//!         };
//!         match guard.run(work).await {
//!             // Acquire again, from the end of the queue.
//!             Err(error) if error.is_lost() => continue,
//!             done => return done,
//!         }
//!     }
//! }
//!
//! /// Marks each mail as sent together with the token, unless it finds a higher one there.
//! async fn send_all(_token: u64) {}
//! ```
//!
//! `examples` has whole programs: `flash_sale` (a lock for each user), `cron_once` (a job for one of many hosts, with a
//! record that checks the token), `cache_refresh` (many readers, and one of them refreshes), `redlock` (a lock that
//! survives the loss of one of several independent servers).
//!
//! **To do something at the loss**, or to use the guard while you work, write the `select!` yourself. It needs
//! `biased;` with the loss first. Otherwise `select!` polls its branches in random order, and the work may take one
//! more step when the loss is known already.
//!
//! ```rust,no_run
//! # async fn ship(_order: &str) {}
//! # async fn example(guard: rlock_client::Guard) -> Result<(), rlock_client::Error> {
//! tokio::select! {
//!     biased;
//!     () = guard.lost() => eprintln!("stopped: another client may have the lock"),
//!     () = ship("orders:42") => {}
//! }
//! guard.release().await // an error if the lock was lost
//! # }
//! ```
//!
//! **Neither stops work that does not await**, such as a long computation or calls that block. Move such work to
//! [`tokio::task::spawn_blocking`], and check [`Guard::is_lost`] between its steps.
//!
//! ```rust,no_run
//! # fn render(_page: u32) {}
//! # async fn example(guard: rlock_client::Guard) -> Result<(), Box<dyn std::error::Error>> {
//! let steps = move || {
//!     (0..100).take_while(|_| !guard.is_lost()).for_each(render);
//!     guard
//! };
//! let guard = tokio::task::spawn_blocking(steps).await?;
//! # Ok(guard.release().await?)
//! # }
//! ```
//!
//! **Release is a call, drop is best effort.** [`Guard::release`] waits for the server's reply. Dropping a guard
//! releases it in the background, and the program does not learn the result. If the program ends right after the drop,
//! the lock stays taken until its lease ends; [`Locks::settle`] waits for all background work.
//!
//! **To hand a lock on** to another process without a moment in which it is free, call [`Guard::detach`] here, and there
//! [`Locks::adopt`] with the text that it returned.
//!
//! # Cancel safety
//!
//! You can drop every future here at any time, as `select!` and [`tokio::time::timeout`] do. A dropped acquire leaves
//! neither a waiter nor a hold behind. The client cancels the wait, so it leaves the queue; and if the server still
//! grants a request that is under way, the client releases it, for as long as a lease lasts. A dropped release goes on.
//! All of this happens *in the background*: in threads of the client's own, for as long as the program runs. The
//! description of each method says what else goes on there.
//!
//! # Errors
//!
//! [`Error`] is opaque. It says what it is about, and has the server's own words. To act on it, call a predicate, or
//! match on [`Error::kind`]:
//!
//! | kind | means | what to do |
//! |---|---|---|
//! | [`Timeout`](ErrorKind::Timeout) | the lock was not granted in time | another client holds it, or a [grace](#fairness) lasts longer; try later |
//! | [`Lost`](ErrorKind::Lost) | the lease has ended, or may have; or the lock was taken away, or [may have been](Error::is_in_doubt) | treat the work as not protected |
//! | [`Unavailable`](ErrorKind::Unavailable) | no server answers, or it cannot do it now (no memory …), for as long as [`Options::patience`] says | try later; there is nothing to clean up |
//! | [`TooFewReplicas`](ErrorKind::TooFewReplicas) | too few replicas have confirmed the lock; it was released | try later, or ask for fewer |
//! | [`QueueFull`](ErrorKind::QueueFull) | the server accepts no more waiters, or you do not, by [`max_waiters`](Lock::max_waiters) | try later; the message names the limit |
//! | [`WrongKind`](ErrorKind::WrongKind), [`Deadlock`](ErrorKind::Deadlock) | a mistake in the program | correct it |
//! | [`ModuleTooOld`](ErrorKind::ModuleTooOld) | the server's module has no sessions, by which this client waits, or no [`once`](Locks::once) | install 0.1.0 or newer |
//! | [`ModuleMissing`](ErrorKind::ModuleMissing), [`Refused`](ErrorKind::Refused), [`Configuration`](ErrorKind::Configuration) | a mistake in the setup | read the message |
//!
//! A lock that is taken is not an error for `try_acquire`: it returns `None`.
//!
//! **When the time is over**, the kind says what the client knows. `Timeout`: the server's last word was that another
//! client has the lock or is before you, or that it grants nothing yet in a [grace](#fairness). `Unavailable`: no server has said so, or not since a connection broke. The
//! time of `acquire_timeout` is for everything: connecting, waiting, the answers. On a quiet machine the call is at
//! most 5 ms late. With a limit of zero it tries once, as `try_acquire` does, which takes [`Options::answer_timeout`]
//! at most.
//!
//! **A release is `Ok` only if the server has replied that it released a hold**: only this reply proves that the lock
//! was held until then. It may be late, from a stalled server, or the reply to a second request, if the first has not
//! arrived. If the connection breaks between the request and its reply, the reply is lost. From then on the server says
//! that nothing is held, either because it has released the hold, or because it had forgotten the lock before. The
//! client cannot know which, so the release fails with `Lost`, and [`Error::is_in_doubt`] is true. [`Guard::run`] still
//! returns the work's result: the lock was guaranteed while the work was done.
//!
//! # Fairness
//!
//! Each lock has a queue in the server: first come, first served. A release hands the lock to the next waiter in the
//! same step. Readers and writers take turns, so neither starves. `try_acquire` overtakes no waiter.
//!
//! The place in the queue belongs to a *ticket* of the client's session with the server, not to a connection. If a
//! connection breaks, the places are kept, provided that the client reconnects within 3 s. The client loses them if the
//! server is out of reach for longer, restarts or fails over; it then asks again, from the end. A machine that
//! disappears delays the clients behind it for some seconds at most: its session ends after 3 s of silence, and a wait
//! is granted a lease of at most 3 s, which the client extends to the full length shortly afterwards, while you work.
//! So [`Guard::remaining`] may be short at first.
//!
//! **In a grace no lock is granted**, not even a free one: with the setting `rlock.grace`, for that long after the server was
//! started or became the master. Waiters keep their order and are granted at its end; `try_acquire` returns `None` until
//! then. The command `rlock inspect` shows how long it still lasts.
//!
//! Programs that run Redisson's scripts are not fair: they do not know the queue and may overtake it.
//!
//! # What a lease does not promise
//!
//! A lease is a promise for a limited time. When it ends, the server grants the lock to the next waiter, whether or not
//! the holder knows.
//!
//! **How the client knows.** The client counts each lease from *before* it sent the request that began the lease, less
//! 1 % and 2 ms for clocks that run at different speeds. That is the deadline. The watchdog renews the lease each time
//! that a third of it is over, and tries again when that fails. It also renews as soon as it can after a connection has
//! broken, since a restarted server may have forgotten its locks. When the deadline passes, or the server says that the
//! lock is not held, the guard is lost, for good: [`Guard::lost`] resolves, [`Guard::is_lost`] is true, and
//! [`Guard::release`] fails. The client notices a passed deadline by itself: it needs no network to learn that the
//! network is gone. [`Guard::loss`] says why the lock was lost.
//!
//! What a lease cannot do:
//!
//! - **A stalled program does not check its lease.** Its process is suspended, its machine overloaded. When it
//!   continues, the next instruction may be a write, before anything can report that the lease is over. (If only the
//!   program's own threads are blocked, the client's thread keeps renewing the lease.)
//! - **A suspended machine stops its clock.** The deadline is on the monotonic clock (`CLOCK_MONOTONIC` on Linux),
//!   which pauses in suspend; so does that of a paused virtual machine. Afterwards the guard looks good until the next
//!   renewal finds the loss, at most a third of the lease later. A [fixed lease](Lock::fixed_lease) is not renewed; its
//!   loss is noticed too late by the whole time of the suspend.
//! - **A lock that is taken away is noticed late.** If its key is deleted, or a failover forgets it, another client may
//!   have the lock before the next renewal finds out. That renewal comes within a third of the lease or, if the
//!   connection broke, as soon as there is a new one; the client tries to connect at least each second.
//! - **A server's clock that is set forward**, by 60 s for example, **ends leases early**, because the server's wall
//!   clock decides. The next client has the lock while your guard still claims it, for up to a third of the lease,
//!   until the next renewal.
//! - **A write that is on its way arrives.** A write that was sent in time may take effect when the lease is over.
//! - **A failover may forget a lock**, because replication is asynchronous. [`Lock::replicas`] makes that rarer; the
//!   server's `rlock.grace` keeps others out for as long as a guard of the old master may be guaranteed.
//!
//! For work that must never happen twice, let the storage decide: send the fencing token with each write, and refuse a
//! token that is lower than the last one. The example `cron_once` shows it.
//!
//! # Connections
//!
//! A client has two or three connections to a server, however many locks it holds or waits for:
//!
//! - **One for the background**: renewals, background releases, and first requests.
//! - **One for the events of waits.** The client opens it when the first try finds a lock taken, and closes it when
//!   nothing has waited for [`Options::idle_timeout`].
//! - **One for what your tasks wait for**, from the 64th request of a tokio runtime on. That runtime reads it, so no
//!   other thread has to wake up to acquire or release a lock. It is closed with its runtime. If your runtime does not
//!   read a reply within 20 ms, the client does. A runtime without I/O gets none, and tokio logs that once.
//!
//! [`Lock::replicas`] needs one more, for the server's WAIT. The client opens at most eight connections at a time.
//!
//! **Any number of tasks may wait**: a wait is a ticket, which costs no connection, and a few hundred bytes on the
//! server. So a program that holds A may wait for B. The server has limits, `rlock.max-tickets` and
//! `rlock.max-sessions`; beyond them a wait fails with [`QueueFull`](ErrorKind::QueueFull).
//!
//! A program needs one [`Locks`]; its clones share everything. One thread makes connections and renews leases, for all
//! clients of the program; three more watch the clock, write logs, and wake tasks of executors other than tokio. So you
//! may use a client in any executor, keep it in a `static`, and block your own threads without losing locks. For your
//! data use your own connections, from any library.
//!
//! **Many acquires at once: spawn a task for each**, in a `JoinSet` for example. Inside `FuturesUnordered`,
//! `buffer_unordered` and a `join_all` of more than 30 futures, a hundred of them take 1.2 times as long.
//!
//! **A forked process** needs a client of its own: it holds none of its parent's locks, and its copy of the parent's
//! client fails at once.
//!
//! # Topologies
//!
//! | you have | open it with |
//! |---|---|
//! | one server | [`Locks::connect`], or [`Options::connect_to`] with settings |
//! | a Redis Cluster | [`Options::connect_to_cluster`], with some of its nodes |
//! | a master that sentinels watch | [`Options::connect_to_sentinels`] |
//! | several independent servers | one `Locks` for each, as the example `redlock` does |
//!
//! | address | is |
//! |---|---|
//! | `redis://user:password@host:6379/0` | TCP |
//! | `rediss://user:password@host:6379/0` | TLS |
//! | `redis+unix:///run/redis.sock?db=0&user=…&pass=…` | a Unix socket, where the system is a Unix |
//!
//! `valkey://`, `valkeys://`, `unix://` and `valkey+unix://` are the same. In the user or the password, write a byte that
//! has another meaning in an address as `%` and two hex digits. You can also put an [`Address`] together yourself. For
//! certificates of your own there is [`Options::certificates`].
//!
//! In a cluster the client sends each request to the node that owns the lock's slot, also while slots move. [Several
//! locks](Locks::all) need one slot: `{orders}:1` and `{orders}:2` share one. After a failover the client finds the new
//! master by itself, within [`Options::patience`].
//!
//! # For the people on call
//!
//! **Which process is the holder?** A holder begins with the host's name and the process's id, or with
//! [`Options::name`]. The client's connections have the same name in `CLIENT LIST`, if its user may `CLIENT SETNAME`.
//! [`Locks::identity`] is the common prefix of all holders of a client, except those of owners.
//!
//! The command line `rlock` shows the holder and the waiters of a lock, lists queues and held locks, and frees a lock
//! by force. A program can do the same with the feature `commands`: [`Locks::command`] sends a command of the module to
//! the server of a lock, [`Locks::masters`] returns all servers with locks. Replies are [`Reply`] values.
//!
//! # Features
//!
//! - `tls` (on by default): `rediss://` by rustls, with the system's certificates or [yours](Options::certificates).
//!   rustls uses the cryptography provider that the program has installed for the process; without one it uses ring.
//! - `blocking`: [`block_on`] and [`block_on_for`], which block a thread until a call is done, for programs without
//!   async code.
//! - `testing`: a server of locks for unit tests, without Redis: see the module `testing`.
//! - `commands`: any command to a server that has locks, [for the people on call](#for-the-people-on-call).
//!
//! # Versions
//!
//! Versions are semantic: code that compiles with one version compiles with the next compatible one. No type of another
//! crate is part of this API.
//!
//! # Logs
//!
//! The client logs with `tracing`, under the target `rlock_client`, with the lock's name and the holder as fields. A
//! separate thread writes the lines, so a subscriber that blocks delays no renewal; beyond a thousand unread lines,
//! lines are lost. Each attempt to acquire is a span `acquire` of level `DEBUG`, with the fields `lock` and `holder`,
//! in the task that acquires.
//!
//! | level | what |
//! |---|---|
//! | `WARN` | the watchdog found a lock lost |
//! | `DEBUG` | a lock was acquired; a renewal failed; a server does not answer and is asked again; a release failed and is tried again |
//! | `TRACE` | a lease was renewed |
// On docs.rs, shows the feature that each call needs.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod alarms;
mod arguments;
#[cfg(feature = "blocking")]
mod blocking;
mod callbacks;
#[cfg(feature = "tls")]
mod certificates;
#[cfg(feature = "commands")]
mod commands;
mod fencing;
mod flights;
mod guard;
mod handing;
mod held_lock;
mod kind;
mod lead;
mod lease;
mod lock;
mod locks;
mod logs;
mod mutex;
mod names;
mod once;
mod options;
mod pending;
mod process;
mod shell;
#[cfg(feature = "testing")]
pub mod testing;

#[cfg(feature = "blocking")]
pub use blocking::{block_on, block_on_for};
#[cfg(feature = "tls")]
pub use certificates::{Certificates, Identity};
#[cfg(feature = "commands")]
pub use commands::Master;
pub use fencing::{Adopted, Fenced, Unfenced};
pub use guard::Guard;
pub use kind::{Permit, Several, Single};
pub use lock::{Lock, ReadWriteLock};
pub use locks::Locks;
pub use once::{Begun, Lead, Once};
pub use options::Options;
#[cfg(feature = "commands")]
#[doc(inline)]
pub use rlock_client_core::Reply;
#[doc(inline)]
pub use rlock_client_core::{Access, Address, Error, ErrorKind, Kind, Loss, Place};

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct OfTheCrate;

/// Compiles the examples of the recipes, which are for all languages.
#[cfg(doctest)]
#[doc = include_str!("../../docs/recipes.md")]
struct OfTheRecipes;
