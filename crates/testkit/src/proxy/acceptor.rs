//! The listening side of the proxy: accepts, refuses, and gives every connection its two pumps.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::pump::Lane;
use super::{Shared, Switches};
use crate::ports::loopback;
use crate::real_time;

/// Before the port is tried again, if somebody else sits on it.
const BIND_PAUSE: Duration = Duration::from_millis(50);

/// Less than a cut waits for the end of every connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// Runs until the proxy is dropped. While connections are refused the port is really closed, so
/// that clients see what they would see of a dead server.
pub(super) async fn run(
    port: u16,
    shared: Arc<Shared>,
    mut switches: watch::Receiver<Switches>,
    tasks: TaskTracker,
) {
    let stopped = shared.stopped.clone();
    let serve = async {
        while switches.wait_for(|now| !now.refusing).await.is_ok() {
            let Ok(listener) = TcpListener::bind(loopback(port)).await else {
                real_time::pause(BIND_PAUSE).await;
                continue;
            };
            shared.listening.send_replace(true);
            let told = accept_until_refusing(&listener, &shared, &mut switches, &tasks).await;
            drop(listener);
            shared.listening.send_replace(false);
            if told.is_err() {
                return;
            }
        }
    };
    stopped.run_until_cancelled(serve).await;
}

/// An error means that the proxy was dropped.
async fn accept_until_refusing(
    listener: &TcpListener,
    shared: &Arc<Shared>,
    switches: &mut watch::Receiver<Switches>,
    tasks: &TaskTracker,
) -> Result<(), watch::error::RecvError> {
    let for_connections = switches.clone();
    loop {
        tokio::select! {
            biased;
            told = switches.wait_for(|now| now.refusing) => return told.map(drop),
            accepted = listener.accept() => {
                let Ok((client, _)) = accepted else { continue };
                // Here and not in the task: a cut right after this waits for this connection too.
                shared.open.send_modify(|count| *count += 1);
                let cut = for_connections.borrow().connections.clone();
                tasks.spawn(connection(client, shared.clone(), for_connections.clone(), cut));
            }
        }
    }
}

/// One connection, from accept to end; it is counted as open already.
async fn connection(
    mut client: TcpStream,
    shared: Arc<Shared>,
    switches: watch::Receiver<Switches>,
    cut: CancellationToken,
) {
    let over = async {
        tokio::select! {
            () = shared.stopped.cancelled() => {}
            () = cut.cancelled() => {}
        }
    };
    tokio::pin!(over);
    let passed = tokio::select! {
        biased;
        () = &mut over => false,
        () = outside_black_hole(switches.clone()) => true,
    };
    // Not interrupted by a cut: a connect that is dropped half way ends in good order, not broken.
    let server = if passed { connect(shared.upstream).await } else { None };
    if let Some(mut server) = server {
        let ended_well = tokio::select! {
            biased;
            () = &mut over => false,
            ended = forward(&mut client, &mut server, &shared, &switches) => ended.is_ok(),
        };
        if !ended_well {
            reset_on_drop(&server);
            reset_on_drop(&client);
        }
    } else {
        reset_on_drop(&client);
    }
    drop(client);
    shared.open.send_modify(|count| *count -= 1);
}

/// The first packet of a connection falls into a black hole like every other.
async fn outside_black_hole(mut switches: watch::Receiver<Switches>) {
    // An error means that the proxy was dropped, which ends the connection anyway.
    let _ = switches.wait_for(|now| !now.to_server.blackhole).await;
}

async fn connect(upstream: SocketAddr) -> Option<TcpStream> {
    tokio::time::timeout(CONNECT_LIMIT, TcpStream::connect(upstream)).await.ok()?.ok()
}

/// Forwards both ways until both have ended in good order; an error on one side ends both.
async fn forward(
    client: &mut TcpStream,
    server: &mut TcpStream,
    shared: &Shared,
    switches: &watch::Receiver<Switches>,
) -> io::Result<()> {
    // A proxy that gathers small packets would add a latency that nobody asked for.
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (client_read, client_write) = client.split();
    let (server_read, server_write) = server.split();
    let up = Lane::of(switches, |now| now.to_server, &shared.bytes_to_server);
    let down = Lane::of(switches, |now| now.to_client, &shared.bytes_to_client);
    tokio::try_join!(up.pump(client_read, server_write), down.pump(server_read, client_write))?;
    Ok(())
}

/// The other side must not mistake a broken connection for an orderly goodbye.
fn reset_on_drop(stream: &TcpStream) {
    // Fails only on a socket that is gone already.
    let _ = stream.set_zero_linger();
}
