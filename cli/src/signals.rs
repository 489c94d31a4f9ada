//! The signals that we get, in order. Their sender matters: a terminal sends its signals to the whole foreground,
//! including CMD.

use crate::failure::Failure;
use nix::libc;
use nix::sys::signal::Signal;
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::{Cause, Origin};
use std::thread;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

pub struct Signals {
    arrivals: UnboundedReceiver<Arrival>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    pub signal: Signal,
    /// Sent by the system, not by a process. That means: by a terminal.
    pub by_terminal: bool,
}

impl Signals {
    /// Handles these signals. Those that were ignored at our start stay ignored, here and in CMD: `nohup` relies on
    /// that, and so do shells that protect background jobs from Ctrl-C.
    pub fn take(signals: &[Signal]) -> Result<Self, Failure> {
        let wanted = signals.iter().filter(|signal| !is_ignored(**signal)).map(|signal| *signal as i32);
        let mut infos = SignalsInfo::<WithOrigin>::new(wanted).map_err(Failure::of_the_system)?;
        let (tell, arrivals) = unbounded_channel();
        thread::spawn(move || infos.forever().filter_map(arrival).all(|arrival| tell.send(arrival).is_ok()));
        Ok(Self { arrivals })
    }

    /// The next one, whenever it comes. Cancel safe.
    pub async fn next(&mut self) -> Arrival {
        match self.arrivals.recv().await {
            Some(arrival) => arrival,
            None => std::future::pending().await,
        }
    }
}

fn arrival(origin: Origin) -> Option<Arrival> {
    let signal = Signal::try_from(origin.signal).ok()?;
    Some(Arrival { signal, by_terminal: matches!(origin.cause, Cause::Kernel) })
}

fn is_ignored(signal: Signal) -> bool {
    let mut present = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action, the call only writes the current one to memory that has room for it.
    let result = unsafe { libc::sigaction(signal as i32, std::ptr::null(), present.as_mut_ptr()) };
    // SAFETY: zeroed memory is a valid sigaction, whether or not it was written to.
    result == 0 && unsafe { present.assume_init() }.sa_sigaction == libc::SIG_IGN
}
