//! Many clients in many rooms, on one thread: each writes when what it wrote before is acknowledged, and
//! hears what the others in its room write. Updates are made before the clock starts.

use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use bench_support::per_second;
use bench_support::websocket::Socket;
use roundsman_core::ports::Clock;
use roundsman_engine::clock::DatabaseClock;

use crate::documents::{loro_updates, yjs_updates};
use crate::wire::{Heard, Wire};

/// After the last acknowledgement, everything is heard within this time.
const HEARD_MAX: Duration = Duration::from_secs(60);
/// And everything is acknowledged within this time.
const ACKNOWLEDGED_MAX: Duration = Duration::from_secs(600);

/// So many clients in so many rooms, by turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plan {
    /// How the names of its rooms begin.
    pub(crate) prefix: &'static str,
    pub(crate) clients: usize,
    pub(crate) rooms: usize,
    /// Of each client.
    pub(crate) updates: usize,
}

impl Plan {
    pub(crate) fn room(&self, client: usize) -> String {
        format!("{}{}", self.prefix, client % self.rooms)
    }

    /// How many others are in the room of a client.
    fn others(&self, client: usize) -> usize {
        (0..self.clients).filter(|other| other % self.rooms == client % self.rooms).count() - 1
    }

    pub(crate) fn all_updates(&self) -> usize {
        self.clients * self.updates
    }

    /// What all hear of all others.
    fn all_heard(&self) -> usize {
        (0..self.clients).map(|client| self.others(client) * self.updates).sum()
    }
}

pub(crate) struct Crowd {
    plan: Plan,
    wire: Wire,
    clients: Vec<Client>,
    update_bytes: usize,
}

struct Client {
    socket: Socket,
    /// Ready to be sent.
    updates: Vec<Vec<u8>>,
    /// Updates that it hears.
    expected: usize,
}

/// How it went.
pub(crate) struct Told {
    /// From the first update to the last acknowledgement.
    pub(crate) time: Duration,
    /// From an update to its acknowledgement, in milliseconds, sorted.
    pub(crate) latencies: Vec<f64>,
    /// Updates of others that were heard each second, until the last one.
    pub(crate) heard_per_sec: f64,
    /// Of an update as it is sent, without what carries it.
    pub(crate) update_bytes: f64,
    /// Everybody is still connected.
    pub(crate) sockets: Vec<Socket>,
}

impl Crowd {
    /// Everybody connects and joins their room, which is empty.
    pub(crate) async fn gather(
        address: &str,
        wire: Wire,
        token: &str,
        plan: Plan,
    ) -> anyhow::Result<Crowd> {
        let (mut clients, mut update_bytes) = (Vec::with_capacity(plan.clients), 0);
        for client in 0..plan.clients {
            let room = plan.room(client);
            let made = match wire {
                Wire::Loro => loro_updates(client, plan.updates)?,
                Wire::Yjs => yjs_updates(client, plan.updates),
            };
            update_bytes += made.iter().map(bytes::Bytes::len).sum::<usize>();
            let numbered = (1..).zip(&made);
            let updates = numbered.map(|(number, update)| wire.update(&room, number, update));
            let updates = updates.collect();
            let mut socket = Socket::open(address, wire.path(), &[]).await?;
            join(&mut socket, wire, &room, token).await?;
            // Hocuspocus tells whoever has written, too.
            let speakers = plan.others(client) + usize::from(wire == Wire::Yjs);
            clients.push(Client { socket, updates, expected: speakers * plan.updates });
        }
        Ok(Crowd { plan, wire, clients, update_bytes })
    }

    /// Everybody writes all they have.
    #[expect(clippy::cast_precision_loss, reason = "counts of a measurement are small")]
    pub(crate) async fn tell(self) -> anyhow::Result<Told> {
        let clock = Rc::new(DatabaseClock::start());
        let began = clock.monotonic();
        let tasks = self
            .clients
            .into_iter()
            .map(|client| tokio::task::spawn_local(client.tell(self.wire, clock.clone())));
        let tasks: Vec<_> = tasks.collect();
        let (mut latencies, mut ended, mut heard) = (Vec::new(), began, began);
        let mut sockets = Vec::new();
        for task in tasks {
            let client = task.await??;
            ended = ended.max(client.acknowledged_at);
            heard = heard.max(client.heard_at);
            latencies.extend(client.latencies);
            sockets.push(client.socket);
        }
        latencies.sort_by(f64::total_cmp);
        let all = self.plan.all_updates();
        ensure!(latencies.len() == all, "{} of {all} were acknowledged", latencies.len());
        let time = ended.saturating_sub(began);
        let update_bytes = self.update_bytes as f64 / all as f64;
        let heard_per_sec = per_second(self.plan.all_heard(), heard.saturating_sub(began));
        Ok(Told { time, latencies, heard_per_sec, update_bytes, sockets })
    }
}

async fn join(socket: &mut Socket, wire: Wire, room: &str, token: &str) -> anyhow::Result<()> {
    socket.send(&wire.join(room, token)).await?;
    loop {
        match (wire, wire.hear(socket.binary().await?)?) {
            // The room is empty: nothing more comes. Hocuspocus says so in a message.
            (Wire::Loro, Heard::Joined) | (Wire::Yjs, Heard::Whole) => return Ok(()),
            (_, Heard::Refused(why)) => bail!("{room}: {why}"),
            _ => {}
        }
    }
}

/// What became of one client.
struct Ended {
    latencies: Vec<f64>,
    /// When the last of its own was acknowledged, and when it had heard everything.
    acknowledged_at: Duration,
    heard_at: Duration,
    socket: Socket,
}

impl Client {
    async fn tell(mut self, wire: Wire, clock: Rc<DatabaseClock>) -> anyhow::Result<Ended> {
        let mut latencies = Vec::with_capacity(self.updates.len());
        let mut heard = 0;
        let telling = async {
            for update in &self.updates {
                let sent = clock.monotonic();
                self.socket.send(update).await?;
                loop {
                    match wire.hear(self.socket.binary().await?)? {
                        Heard::Ack => break,
                        Heard::Update => heard += 1,
                        Heard::Refused(why) => bail!("not taken: {why}"),
                        _ => {}
                    }
                }
                let time = clock.monotonic().saturating_sub(sent);
                latencies.push(time.as_secs_f64() * 1e3);
            }
            Ok(())
        };
        let told = tokio::time::timeout(ACKNOWLEDGED_MAX, telling).await;
        told.context("not everything is acknowledged")??;
        let acknowledged_at = clock.monotonic();
        // The others may still write.
        let listening = async {
            while heard < self.expected {
                match wire.hear(self.socket.binary().await?)? {
                    Heard::Update => heard += 1,
                    Heard::Refused(why) => bail!("put out: {why}"),
                    _ => {}
                }
            }
            Ok(())
        };
        let listened = tokio::time::timeout(ACKNOWLEDGED_MAX + HEARD_MAX, listening).await;
        listened.with_context(|| format!("{heard} of {} were heard", self.expected))??;
        let heard_at = clock.monotonic();
        Ok(Ended { latencies, acknowledged_at, heard_at, socket: self.socket })
    }
}
