//! Restores the terminal's settings from before CMD. CMD restores its own changes when it ends; if it is killed, it
//! cannot, and the user gets a shell that does not echo.
//!
//! So we restore them if CMD was killed or had to end, and leave them if CMD ended by itself: then its changes are
//! intended (`rlock run … -- stty -echo`). Shells do the same for their jobs.
//!
//! We may change the terminal only while we are in the foreground, or if we were, and CMD took the foreground and is
//! gone, as an interactive shell does. Otherwise it belongs to another job, for example to the shell that moved us to
//! the background.

use nix::errno::Errno;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, killpg};
use nix::sys::termios::{SetArg, Termios, tcgetattr, tcsetattr};
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};
use std::fs::File;

pub struct Terminal {
    device: File,
    settings: Termios,
}

impl Terminal {
    /// The current settings of our terminal, if we have one and are in its foreground.
    pub fn remember() -> Option<Self> {
        let device = File::options().read(true).write(true).open("/dev/tty").ok()?;
        if tcgetpgrp(&device).ok()? != getpgrp() {
            return None;
        }
        let settings = tcgetattr(&device).ok()?;
        Some(Self { device, settings })
    }

    /// Restores them, after the end of CMD, which had this id. A failure cannot be reported.
    pub fn restore(&self, cmd: Pid) {
        let Ok(foreground) = tcgetpgrp(&self.device) else { return };
        let taken = foreground != getpgrp();
        let by_cmd = foreground == cmd || killpg(foreground, None) == Err(Errno::ESRCH);
        if taken && !by_cmd {
            return;
        }
        // Without this, the system stops a process that changes the terminal from the background.
        let stop = SigSet::from(Signal::SIGTTOU);
        let Ok(mask) = stop.thread_swap_mask(SigmaskHow::SIG_BLOCK) else { return };
        if taken {
            let _ = tcsetpgrp(&self.device, getpgrp());
        }
        let _ = tcsetattr(&self.device, SetArg::TCSANOW, &self.settings);
        let _ = mask.thread_set_mask();
    }
}
