//! `rlock top`: the busiest locks, live.
//!
//! In three parts: `looks` queries the server, a thread reads keys, and this loop has the state and draws it. A server
//! that does not reply blocks neither the keys nor the screen.

mod batch;
mod columns;
mod held;
mod keys;
mod looks;
mod rows;
mod screen;
mod state;
mod terminal;
mod words;

use crate::address;
use crate::arguments::{Server, Top};
use crate::exit;
use crate::failure::Failure;
use crate::operators;
use crate::output;
use crate::shown;
use crate::signals::{Arrival, Signals};
use crossterm::event::{self, Event};
use looks::{Looker, Looks};
use nix::sys::signal::Signal;
use rlock_client::Locks;
use state::{Action, State};
use std::io::{IsTerminal, stdin};
use std::thread;
use std::time::Duration;
use terminal::Terminal;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::sleep;

/// Each of them ends `top`, which restores the terminal.
const ENDING: [Signal; 4] = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT];

/// How often the times on the screen are updated while nothing else happens.
const TICK: Duration = Duration::from_millis(500);

pub async fn top(args: &Top, server: &Server) -> Result<u8, Failure> {
    if !args.batch && (!output::is_terminal() || !stdin().is_terminal()) {
        return Err(Failure::usage("top needs a terminal; for programs there are top --batch and rlock ls --json"));
    }
    let (locks, at) = address::connect(server).await?;
    let mut looker = Looker::new(locks.clone(), args.interval);
    let mut state = State::new(at, args);
    // An error of the first look is printed before there is a screen.
    let first = looker.look(&state.aim()).await;
    state.saw(first.map_err(|error| Failure::unanswered(&state.server, &error))?);
    if args.batch {
        return batch::print(args, looker, state).await;
    }
    let mut signals = Signals::take(&ENDING)?;
    let looks = Looks::begin(looker, state.aim());
    let terminal = Terminal::open().map_err(Failure::of_the_system)?;
    let arrival = attend(terminal, state, looks, &locks, &mut signals).await?;
    Ok(arrival.map_or(0, |arrival| exit::by_signal(arrival.signal as i32)))
}

/// Until the user quits, or a signal comes.
async fn attend(
    mut terminal: Terminal,
    mut state: State,
    mut looks: Looks,
    locks: &Locks,
    signals: &mut Signals,
) -> Result<Option<Arrival>, Failure> {
    let mut events = events();
    let (sender, mut outcomes) = unbounded_channel();
    loop {
        terminal.show(|size| screen::lines(&mut state, size)).map_err(Failure::of_the_system)?;
        looks.aim_at(state.aim());
        tokio::select! {
            biased;
            arrival = signals.next() => return Ok(Some(arrival)),
            event = events.recv() => match event.and_then(|event| keys::action(&event, &state)) {
                Some(Action::Quit) => return Ok(None),
                Some(action) => {
                    if action == Action::Agree {
                        break_it(&state, locks, &sender);
                    }
                    state.act(action);
                }
                // No event can come any more: the terminal is gone.
                None if events.is_closed() => return Ok(None),
                None => {}
            },
            news = looks.next() => state.hear(news),
            Some(words) = outcomes.recv() => state.broke(words),
            () = sleep(TICK), if state.is_waiting() => {}
        }
    }
}

/// In the background: a server that does not reply blocks neither the keys nor the screen.
fn break_it(state: &State, locks: &Locks, sender: &UnboundedSender<String>) {
    let Some((key, waiters)) = state.agreed() else { return };
    let (locks, sender) = (locks.clone(), sender.clone());
    tokio::spawn(async move {
        let name = shown::name(&key);
        let words = match operators::break_lock(&locks, &key).await {
            Ok(true) => format!("{name}: broken; {waiters} waited for it"),
            Ok(false) => format!("{name}: it was not held any more"),
            Err(error) if error.is_unavailable() && !error.is_answered() => {
                format!("{name}: it is not known whether it was broken: {}", shown::line(&error.reason()))
            }
            Err(error) => format!("{name}: not broken: {}", shown::line(&error.reason())),
        };
        // Fails if top has ended.
        let _ = sender.send(words);
    });
}

/// What is typed, and changes of the window's size. The thread ends with the program.
fn events() -> UnboundedReceiver<Event> {
    let (sender, events) = unbounded_channel();
    thread::spawn(move || while event::read().is_ok_and(|event| sender.send(event).is_ok()) {});
    events
}
