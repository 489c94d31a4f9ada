//! A worker that holds a lock until SIGTERM: `deploy URL KEY`. At SIGTERM, which containers and process managers send
//! at each deploy, it releases the lock at once, and its successor continues. It prints `held` when it has the lock.

use rlock_client::Locks;
use std::error::Error;
use std::future::pending;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(url), Some(key)) = (arguments.next(), arguments.next()) else {
        return Err("usage: deploy URL KEY".into());
    };
    // Before the lock is held: until this line, a signal ends the program at once.
    let mut terminate = signal(SignalKind::terminate())?;
    let locks = Locks::connect(url.as_str()).await?;
    let job = async {
        let guard = locks.lock(key).acquire().await?;
        println!("held");
        guard.run(work()).await
    };
    tokio::select! {
        done = job => done?,
        // Drops the wait or the work, and with it the guard.
        _ = terminate.recv() => {}
    }
    // Dropped guards are released in the background: this waits for the server's reply.
    let _ = timeout(Duration::from_secs(5), locks.settle()).await;
    Ok(())
}

async fn work() {
    pending().await
}
