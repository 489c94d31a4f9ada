//! One client's connection: runs its requests in order, and writes its replies, also while it waits for a lock.

use super::server::{Next, Shared};
use rlock_sim::resp::Requests;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The maximum that a client may send while it waits.
const UNREAD_MAX: usize = 8 * 1_024 * 1_024;

/// Serves a client until one of the two closes the connection.
pub async fn serve(shared: Rc<Shared>, stream: impl AsyncRead + AsyncWrite, address: String, local: String) {
    let (id, news) = shared.state.borrow_mut().open(address, local);
    let (mut reader, mut writer) = tokio::io::split(Box::pin(stream));
    let mut requests = Requests::default();
    loop {
        let went_well = run_all(&shared, id, &mut requests).await;
        let Some((bytes, closes)) = shared.state.borrow_mut().take_replies(id) else { break };
        if !bytes.is_empty() && writer.write_all(&bytes).await.is_err() || closes || !went_well {
            break;
        }
        tokio::select! {
            read = reader.read_buf(&mut requests.bytes) => {
                if !matches!(read, Ok(1..)) || requests.bytes.len() > UNREAD_MAX {
                    break;
                }
            }
            () = news.notified() => {}
        }
    }
    let _ = writer.flush().await;
    shared.change(|state| state.close(id));
}

/// Runs the requests that have come. Returns whether the connection goes on.
async fn run_all(shared: &Rc<Shared>, id: u64, requests: &mut Requests) -> bool {
    while !shared.state.borrow().is_blocked(id) {
        match requests.next_command() {
            Ok(None) => return true,
            Ok(Some(words)) => match shared.change(|state| state.run(id, &words)) {
                Next::GoesOn => {}
                Next::Closes => return false,
                Next::AfterMs(ms, reply) => {
                    tokio::time::sleep(Duration::from_millis(ms)).await;
                    shared.state.borrow_mut().reply(id, &reply);
                }
            },
            Err(garbled) => {
                shared.state.borrow_mut().reply(id, format!("-{}\r\n", garbled.0).as_bytes());
                return false;
            }
        }
    }
    true
}
