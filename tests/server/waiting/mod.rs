//! Waiting in the server, each way in and out of it.

mod followers;
mod handing_over;
mod leaving;
mod moving_on;
mod unfit_servers;
