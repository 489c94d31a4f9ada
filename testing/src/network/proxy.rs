//! A network between clients and a server that can be made faulty: a port of its own, which leads to one of the server's.
//!
//! Each proxy has a thread in which all connections are tasks. So it needs no lock, and when an order returns, it has
//! reached every connection.

use super::line::{Line, Rule, Rules, Sender};
use crate::Random;
use std::cell::Cell;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::mpsc as answers;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime;
use tokio::sync::mpsc;
use tokio::task::{self, LocalSet};

/// How long nothing is accepted when there are no descriptors left.
const REST: Duration = Duration::from_millis(10);

/// Dropping it ends its connections. Any thread may give it orders.
#[derive(Debug)]
pub struct Proxy {
    /// Where clients connect, as long as this lives.
    pub port: u16,
    orders: Option<mpsc::UnboundedSender<(Order, answers::Sender<()>)>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Clone, Copy, Debug)]
pub enum Order {
    /// New connections lead to this port of this machine. If it is another port than before, current connections are cut.
    Lead(u16),
    /// Cuts all current connections, with a reset to both sides.
    Cut,
    /// What this end sends from now on arrives later by this time, in order. Zero ends it.
    Delay(Sender, Duration),
    /// Everything that this end sends from now on is lost, ends of connections included. Connections that lost
    /// something are cut when it is over.
    Lose(Sender),
    /// What replicas send their master is lost, or what it sends them, until `Heal`.
    LoseOfReplicas(Sender),
    /// On connections from this address everything is lost in both directions, until `Heal`.
    LoseOf(IpAddr),
    /// Each current connection is cut in the middle of the next piece that the server sends on it.
    CutMidReply,
    /// New connections are closed at once.
    Refuse,
    /// On this percentage of the current connections everything that this end sends is lost, without notice. New
    /// connections work. Only this fault survives `Heal`, so that it can overlap others.
    Silence { sender: Sender, hundredths: u8, seed: u64 },
    /// Cuts the silenced connections.
    CutSilenced,
    /// Ends all faults except `Silence`. Connections that lost something are cut, the others stay.
    Heal,
}

impl Order {
    /// The other end is gone, without notice.
    pub const LOSE_ALL: [Self; 2] = [Self::Lose(Sender::Client), Self::Lose(Sender::Server)];

    /// A master and its replicas hear nothing of each other.
    pub const LOSE_ALL_OF_REPLICAS: [Self; 2] =
        [Self::LoseOfReplicas(Sender::Client), Self::LoseOfReplicas(Sender::Server)];
}

impl Proxy {
    /// It leads nowhere so far: connections are closed at once.
    ///
    /// # Errors
    /// If no port or no thread is available.
    pub fn start() -> io::Result<Self> {
        let (orders, taken) = mpsc::unbounded_channel();
        let (tell_port, port) = answers::channel();
        let thread = std::thread::Builder::new().name("network".to_owned()).spawn(move || {
            if let Err(error) = run(&tell_port, taken) {
                // The receiver is gone if the port is known already, and then nothing fails any more.
                let _ = tell_port.send(Err(error));
            }
        })?;
        let port = port.recv().map_err(|_| io::Error::other("the network's thread has ended"))??;
        Ok(Self { port, orders: Some(orders), thread: Some(thread) })
    }

    /// Returns when it is done.
    pub fn obey(&self, order: Order) {
        let (done, wait) = answers::channel();
        let orders = self.orders.as_ref().expect("it is there until the end");
        orders.send((order, done)).expect("the network's thread lives as long");
        wait.recv().expect("the network's thread obeys");
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // The thread ends with its orders' sender, and its connections end with it.
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

type Orders = mpsc::UnboundedReceiver<(Order, answers::Sender<()>)>;

fn run(tell_port: &answers::Sender<io::Result<u16>>, orders: Orders) -> io::Result<()> {
    let runtime = runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    LocalSet::new().block_on(&runtime, async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let _ = tell_port.send(Ok(listener.local_addr()?.port()));
        Network::default().serve(&listener, orders).await;
        Ok(())
    })
}

/// What the thread knows.
#[derive(Default)]
struct Network {
    /// The port that new connections lead to.
    target: Option<u16>,
    refuses: bool,
    rules: Rc<Cell<Rules>>,
    lines: Vec<(Rc<Line>, task::JoinHandle<()>)>,
}

impl Network {
    async fn serve(mut self, listener: &TcpListener, mut orders: Orders) {
        loop {
            tokio::select! {
                // Orders come first: later connections are treated accordingly.
                biased;
                order = orders.recv() => match order {
                    Some((order, done)) => {
                        self.obey(order).await;
                        let _ = done.send(());
                    }
                    None => return,
                },
                accepted = listener.accept() => self.admit(accepted).await,
            }
        }
    }

    async fn admit(&mut self, accepted: io::Result<(TcpStream, SocketAddr)>) {
        let Ok((client, peer)) = accepted else { return tokio::time::sleep(REST).await };
        let Some(target) = self.target.filter(|_| !self.refuses) else {
            let _ = client.set_zero_linger();
            return;
        };
        self.lines.retain(|(_, task)| !task.is_finished());
        let line = Rc::new(Line { rules: Rc::clone(&self.rules), peer: Some(peer.ip()), ..Line::default() });
        let task = task::spawn_local(Rc::clone(&line).carry(client, target));
        self.lines.push((line, task));
    }

    async fn obey(&mut self, order: Order) {
        match order {
            Order::Lead(port) => {
                if self.target.replace(port) != Some(port) {
                    self.cut_where(|_| true).await;
                }
            }
            Order::Cut => self.cut_where(|_| true).await,
            Order::Delay(sender, time) => self.change_rule(sender, |rule| rule.delay = time),
            Order::Lose(sender) => self.change_rule(sender, |rule| rule.loses = true),
            Order::LoseOfReplicas(sender) => self.change_rule(sender, |rule| rule.loses_of_replicas = true),
            Order::LoseOf(address) => {
                [Sender::Client, Sender::Server]
                    .into_iter()
                    .for_each(|it| self.change_rule(it, |rule| rule.loses_of = Some(address)));
            }
            Order::CutMidReply => self.lines.iter().for_each(|(line, _)| line.is_cut_mid_reply.set(true)),
            Order::Refuse => self.refuses = true,
            Order::Silence { sender, hundredths, seed } => {
                let mut random = Random::from(seed);
                let chosen = self.lines.iter().filter(|_| random.is(hundredths));
                chosen.for_each(|(line, _)| line.silenced.set(Some(sender)));
            }
            Order::CutSilenced => self.cut_where(|line| line.silenced.get().is_some()).await,
            Order::Heal => {
                self.refuses = false;
                self.rules.set(Rules::default());
                self.lines.iter().for_each(|(line, _)| line.is_cut_mid_reply.set(false));
                self.cut_where(|line| line.has_holes.get()).await;
            }
        }
    }

    fn change_rule(&self, sender: Sender, change: impl FnOnce(&mut Rule)) {
        let mut rules = self.rules.get();
        change(&mut rules[sender as usize]);
        self.rules.set(rules);
    }

    /// A task that is aborted drops its sockets, which resets them.
    async fn cut_where(&mut self, condition: impl Fn(&Line) -> bool) {
        let (cut, kept): (Vec<_>, _) =
            std::mem::take(&mut self.lines).into_iter().partition(|(line, _)| condition(line));
        self.lines = kept;
        cut.iter().for_each(|(_, task)| task.abort());
        for (_, task) in cut {
            // It was aborted, or has ended before.
            let _ = task.await;
        }
    }
}
