//! The terminal as it was before CMD. What CMD has changed about it, CMD puts back when it ends; when it is killed,
//! nobody does, and the user is left with a shell that shows nothing of what is typed.
//!
//! So it is put back when CMD was killed or had to end, and left alone when CMD has ended by itself: settings that it
//! left then are meant (`rlock run … -- stty -echo`). Shells do the same for their jobs.
//!
//! It is only ours to change while we have the foreground, or had it and CMD took it and is gone, as an interactive
//! shell does. Whoever has it else, such as the shell that a job was moved to the background by, would be robbed of it.

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
    /// How our terminal is now, if we have one and are in its foreground.
    pub fn remember() -> Option<Self> {
        let device = File::options().read(true).write(true).open("/dev/tty").ok()?;
        if tcgetpgrp(&device).ok()? != getpgrp() {
            return None;
        }
        let settings = tcgetattr(&device).ok()?;
        Some(Self { device, settings })
    }

    /// Makes it so again, now that CMD is gone, which had this id. There is nobody to tell if that fails.
    pub fn restore(&self, cmd: Pid) {
        let Ok(foreground) = tcgetpgrp(&self.device) else { return };
        let taken = foreground != getpgrp();
        let by_cmd = foreground == cmd || killpg(foreground, None) == Err(Errno::ESRCH);
        if taken && !by_cmd {
            return;
        }
        // Else whoever changes it from the background is stopped.
        let stop = SigSet::from(Signal::SIGTTOU);
        let Ok(mask) = stop.thread_swap_mask(SigmaskHow::SIG_BLOCK) else { return };
        if taken {
            let _ = tcsetpgrp(&self.device, getpgrp());
        }
        let _ = tcsetattr(&self.device, SetArg::TCSANOW, &self.settings);
        let _ = mask.thread_set_mask();
    }
}
