//! A hold, and how it ends.

use crate::asked::span;
use crate::call::{Answer, Call, unless_closed};
use crate::{CLOSED, Failure, locked};
use pyo3::prelude::*;
use rlock_bindings::detach;
use rlock_client::{Guard, Lead};
use std::sync::{Arc, Mutex};
use std::{mem, process};
use tokio::sync::Semaphore;

pub(crate) enum Hold {
    Guarded(Guard),
    /// For the work of `once`.
    Leads(Lead),
    Released,
    Closed,
}

impl Hold {
    pub(crate) fn guard(&self) -> Option<&Guard> {
        match self {
            Self::Guarded(guard) => Some(guard),
            Self::Leads(lead) => Some(lead.guard()),
            Self::Released | Self::Closed => None,
        }
    }
}

/// A hold. If it is dropped, it is released in the background.
#[pyclass(frozen, name = "Hold", module = "rlock_client._native")]
pub(crate) struct HoldObject {
    pub(crate) process: u32,
    #[pyo3(get)]
    pub(crate) about: String,
    #[pyo3(get)]
    pub(crate) holder: String,
    #[pyo3(get)]
    pub(crate) tokens: Vec<u64>,
    pub(crate) hold: Arc<Mutex<Hold>>,
    pub(crate) closing: Arc<Semaphore>,
}

#[pymethods]
impl HoldObject {
    /// For how many seconds it is guaranteed. Zero if it is not held.
    #[getter]
    fn remaining(&self) -> f64 {
        locked(&self.hold).guard().map_or(0.0, |guard| guard.remaining().as_secs_f64())
    }

    /// Why the hold is lost, if it is: as a word, and as a text. A released hold is not lost.
    #[getter]
    fn loss(&self) -> Option<(Option<&'static str>, String)> {
        let hold = locked(&self.hold);
        match (&*hold, hold.guard()) {
            _ if self.process != process::id() => {
                Some((None, "this process was forked from the one that holds it".into()))
            }
            (Hold::Closed, _) => Some((None, CLOSED.into())),
            (_, guard) => guard?.loss().map(|loss| (Some(loss.word()), loss.to_string())),
        }
    }

    /// Releases the hold, but not before the call is waited for or started.
    fn release(&self) -> Call {
        let hold = mem::replace(&mut *locked(&self.hold), Hold::Released);
        let about = self.about.clone();
        let released = async move {
            match hold {
                Hold::Guarded(guard) => guard.release().await.map(|()| Answer::Done).map_err(Failure::from),
                Hold::Leads(lead) => {
                    lead.give_up().await;
                    Ok(Answer::Done)
                }
                Hold::Released => Err(Failure::new("lost", &about, "it was released before")),
                Hold::Closed => Err(Failure::closed(&about)),
            }
        };
        Call::new(self.about.clone(), None, released)
    }

    /// Ends the work of `once` with its value, and releases the lock, but not before the call is waited for or started.
    fn answer(&self, value: Vec<u8>) -> Call {
        let hold = mem::replace(&mut *locked(&self.hold), Hold::Released);
        let about = self.about.clone();
        let answered = async move {
            match hold {
                Hold::Leads(lead) => lead.answer(value).await.map(|()| Answer::Done).map_err(Failure::from),
                Hold::Closed => Err(Failure::closed(&about)),
                Hold::Guarded(_) | Hold::Released => Err(Failure::new("lost", &about, "it was released before")),
            }
        };
        Call::new(self.about.clone(), None, answered)
    }

    /// Detaches the hold when the call is waited for or started; `within`: seconds to adopt it. If this fails, the hold stays.
    fn detach(&self, within: Option<f64>) -> PyResult<Call> {
        let (about, within) = (self.about.clone(), within.map(|it| span("within", it)).transpose()?);
        let detaching = match &*locked(&self.hold) {
            Hold::Guarded(guard) => Ok(detach(guard, within)),
            Hold::Leads(_) => Err(Failure::new("configuration", &about, "the work of `once` cannot be detached")),
            Hold::Released => Err(Failure::new("lost", &about, "it was released before")),
            Hold::Closed => Err(Failure::closed(&about)),
        };
        let hold = self.hold.clone();
        let detached = async move {
            let text = detaching?.await?;
            drop(mem::replace(&mut *locked(&hold), Hold::Released));
            Ok(Answer::Text(text))
        };
        Ok(Call::new(about, None, detached))
    }

    /// The call ends when the hold is lost, or with an error when the client is closed. After a release it never ends.
    fn until_lost(&self) -> Call {
        let lost = locked(&self.hold).guard().map(Guard::lost);
        let lost = async move {
            match lost {
                Some(lost) => lost.await,
                None => std::future::pending().await,
            }
            Ok(Answer::Done)
        };
        Call::new(self.about.clone(), None, unless_closed(self.about.clone(), self.closing.clone(), lost))
    }

    /// Releases the hold in the background.
    fn drop(&self) {
        if self.process == process::id() {
            *locked(&self.hold) = Hold::Released;
        }
    }
}

impl Drop for HoldObject {
    fn drop(&mut self) {
        if self.process != process::id() {
            mem::forget(self.hold.clone());
        }
    }
}
