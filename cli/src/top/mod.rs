//! `rlock top`: the busiest locks, live.
//!
//! Three parts talk to each other: `looks` asks the server, a thread reads keys, and this loop has
//! the state and draws it. A server that does not answer stops neither the keys nor the screen.

mod columns;
mod keys;
mod looks;
mod screen;
mod state;

use crate::address;
use crate::arguments::{Server, Top};
use crate::exit;
use crate::failure::Failure;
use crate::output;
use crate::signals::{Arrival, Signals};
use nix::sys::signal::Signal;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};
use state::{Action, State};
use std::io::{IsTerminal, stdin};
use std::thread;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Each of them ends it, and leaves the terminal as it was.
const ENDING: [Signal; 4] = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT];

pub async fn top(args: &Top, server: &Server) -> Result<u8, Failure> {
    if !output::is_terminal() || !stdin().is_terminal() {
        return Err(Failure::usage("top needs a terminal; for programs there is rlock ls --json"));
    }
    let (locks, at) = address::connect(server).await?;
    let of_the_server = |error| Failure::of_the_server(&at, &error);
    // What is wrong from the beginning is said before there is a screen.
    let first = looks::look(&locks, &looks::Aim::default()).await.map_err(of_the_server)?;
    let mut state = State::new(at, args);
    state.saw(first);
    let mut signals = Signals::take(&ENDING)?;
    let looks = looks::Looks::begin(locks, args.interval);
    let mut terminal = ratatui::try_init().map_err(Failure::of_the_system)?;
    let ended = attend(&mut terminal, state, looks, &mut signals).await;
    ratatui::restore();
    let arrival = ended?;
    Ok(arrival.map_or(0, |arrival| exit::by_signal(arrival.signal as i32)))
}

/// Until the user quits, or a signal comes.
async fn attend(
    terminal: &mut DefaultTerminal,
    mut state: State,
    mut looks: looks::Looks,
    signals: &mut Signals,
) -> Result<Option<Arrival>, Failure> {
    let mut events = events();
    loop {
        terminal.draw(|frame| screen::draw(frame, &mut state)).map_err(Failure::of_the_system)?;
        looks.aim_at(state.aim());
        tokio::select! {
            biased;
            arrival = signals.next() => return Ok(Some(arrival)),
            event = events.recv() => match event.and_then(|event| keys::action(&event, &state)) {
                Some(Action::Quit) => return Ok(None),
                Some(action) => state.act(action),
                // The terminal has gone, if nothing can come any more.
                None if events.is_closed() => return Ok(None),
                None => {}
            },
            look = looks.next() => match look {
                Ok(look) => state.saw(look),
                Err(error) => state.saw_nothing(&error),
            },
        }
    }
}

/// What is typed, and changes of the window's size. The thread ends with the program.
fn events() -> UnboundedReceiver<Event> {
    let (tell, events) = unbounded_channel();
    thread::spawn(move || while event::read().is_ok_and(|event| tell.send(event).is_ok()) {});
    events
}
