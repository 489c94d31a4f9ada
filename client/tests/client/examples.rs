//! Runs the examples as a reader would, and checks that the first example is the same on every page.
//!
//! Cargo builds them together with the tests: with `cargo test`, or with `cargo build --examples`.

use crate::support::{exists, url};
use rlock_testing::{Client, Server, Signal, send_signal, text, wait_until};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

#[test]
fn a_flash_sale_sells_each_item_once_and_charges_each_user_once() {
    let server = Server::start();
    let mut client = server.client();
    let sale = Example::start("flash_sale", &[], &server).end();
    // The ten buyers' other clicks find the order; all clicks of the twenty others are too late.
    assert_eq!(sale.output, "10 ordered, 20 had ordered already, 60 came too late; 0 left\n", "{}", sale.errors);
    assert!(sale.succeeded);
    assert_eq!(client.run(&["GET", "sale:stock"]), text("0"));
    assert_eq!(client.run(&["GET", "sale:payments"]), text("10"));
    assert_eq!(client.hash("sale:orders").len(), 10);
    assert_eq!(client.keys(), ["sale:orders", "sale:payments", "sale:stock"]);
}

#[test]
fn a_job_that_many_hosts_start_is_done_by_one() {
    let server = Server::start();
    let mut client = server.client();
    let hosts: Vec<_> = (0..5).map(|_| Example::start("cron_once", &["2030-01-31"], &server)).collect();
    let said: Vec<_> = hosts.into_iter().map(|host| host.end().success()).collect();
    let (done, left): (Vec<_>, Vec<_>) = said.iter().partition(|said| *said == "done\n");
    assert_eq!(done.len(), 1, "{said:?}");
    assert!(left.iter().all(|said| ["another host is at it\n", "done already\n"].contains(&said.as_str())), "{left:?}");
    assert_eq!(written(&mut client), "1");
    assert_eq!(Example::start("cron_once", &["2030-01-31"], &server).end().success(), "done already\n");
    assert_eq!(Example::start("cron_once", &["2030-02-01"], &server).end().success(), "done\n");
    assert_eq!(written(&mut client), "2");
    assert_eq!(client.keys(), ["redisson_lock_token:{report:lock}", "report"]);
}

#[test]
fn a_job_that_loses_its_lock_stops_and_writes_nothing() {
    let server = Server::start();
    let mut client = server.client();
    let host = Example::start("cron_once", &["2030-01-31", "1000000"], &server);
    wait_until("the job has begun", || client.run(&["DEL", "report:lock"]).as_int() == 1);
    let host = host.end();
    assert!(!host.succeeded);
    assert!(host.errors.contains("report:lock: lost"), "{}", host.errors);
    assert_eq!(client.keys(), ["redisson_lock_token:{report:lock}"]);
}

#[test]
fn a_record_of_a_later_host_is_not_overwritten() {
    let server = Server::start();
    let mut client = server.client();
    // Higher than this host's token, which is the time.
    client.say("HSET report token 9000000000000000 day 2030-02-01 text of-a-later-host");
    let host = Example::start("cron_once", &["2030-01-31"], &server).end();
    assert_eq!(host.success(), "refused: a later host has written already\n");
    assert_eq!(client.run(&["HGET", "report", "text"]), text("of-a-later-host"));
}

#[test]
fn a_cache_is_refreshed_by_one_of_its_readers() {
    let server = Server::start();
    let mut client = server.client();
    let cache = Example::start("cache_refresh", &[], &server).end();
    let expected = "10 days, 10 readers: the source was asked 10 times, 0 reads were of two days\n";
    assert_eq!(cache.success(), expected);
    assert_eq!(client.run(&["GET", "source:asked"]), text("10"));
    assert_eq!(client.keys(), ["prices:apples", "prices:fresh", "prices:pears", "source:asked"]);
}

#[test]
fn a_worker_that_gets_a_signal_releases_its_lock() {
    let server = Server::start();
    let mut worker = Example::start("deploy", &[&url(&server), "mails:lock"], &server);
    assert_eq!(worker.line(), "held\n");
    send_signal(worker.process.id(), Signal::SIGTERM).unwrap();
    worker.end().success();
    assert!(!exists(&mut server.client(), "mails:lock"), "it is free when the process has ended");
}

/// Each of them is compiled as a doctest as well.
#[test]
fn the_first_example_is_the_same_everywhere() {
    let manual = include_str!("../../src/lib.rs").replace("//! ", "").replace("//!", "");
    let expected = first_example(&manual);
    assert!(expected.contains("Locks::connect"), "{expected}");
    assert_eq!(first_example(include_str!("../../README.md")), expected);
    assert_eq!(first_example(include_str!("../../../README.md")), expected);
}

fn first_example(text: &str) -> &str {
    let (_, after) = text.split_once("```rust,no_run\n").expect("an example");
    after.split_once("```").expect("its end").0
}

fn written(client: &mut Client) -> String {
    client.run(&["HGET", "report", "written"]).as_text().to_owned()
}

/// A running example. If a test gives up on it, it is killed.
struct Example {
    process: Child,
}

/// An example that has ended.
struct Ended {
    succeeded: bool,
    output: String,
    errors: String,
}

impl Example {
    fn start(name: &str, arguments: &[&str], server: &Server) -> Self {
        let mut command = Command::new(built(name));
        command.args(arguments).env("RLOCK_URL", url(server)).stdin(Stdio::null());
        let process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("an example that starts");
        Self { process }
    }

    /// The first line of its output.
    fn line(&mut self) -> String {
        let mut line = String::new();
        BufReader::new(self.process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        line
    }

    fn end(mut self) -> Ended {
        let mut status = None;
        wait_until("the example has ended", || {
            status = self.process.try_wait().expect("a process of ours");
            status.is_some()
        });
        // The output is short enough to wait in the pipes.
        let (mut output, mut errors) = (String::new(), String::new());
        self.process.stdout.take().unwrap().read_to_string(&mut output).unwrap();
        self.process.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        Ended { succeeded: status.is_some_and(|status| status.success()), output, errors }
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Ended {
    /// The output of an example that succeeded.
    fn success(&self) -> String {
        assert!(self.succeeded, "{}", self.errors);
        self.output.clone()
    }
}

/// The program must not be older than its source: cargo builds no examples if it runs only one test.
fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.ancestors().nth(2).unwrap().join("examples").join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name).with_extension("rs");
    let changed = |file: &Path| file.metadata().and_then(|file| file.modified()).ok();
    assert!(changed(&program) > changed(&source), "{name} is not built: cargo build -p rlock-client --examples");
    program
}
