//! One client on `/sync/{project}`: the seed's raw mode. The whole document comes first, then every
//! message in either direction is an update, and nothing else is said.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use roundsman_core::rooms::{Permission, ProjectId};
use roundsman_engine::rooms::{Access, Mail, Membership, Standing, WriteError};
use roundsman_engine::wake;
use tokio::sync::Notify;

use crate::live::{Pace, Place};
use crate::socket::{Broken, Goodbye, Received, Socket};
use crate::state::Shared;

const TICK: Duration = Duration::from_secs(1);

pub(super) struct Sync {
    pub(super) state: Shared,
    pub(super) project: ProjectId,
    pub(super) access: Access,
    pub(super) credential: String,
}

pub(super) async fn run(sync: Sync, socket: Socket, _place: Place) {
    let bell = Arc::new(Notify::new());
    let joined = sync.state.rooms.join(&sync.project, Bytes::new(), &bell).await;
    let joined = match joined {
        Ok(joined) => joined,
        Err(error) => {
            tracing::warn!(%error, "a room cannot be joined");
            return socket.close(Goodbye::new(1013, "the document cannot be read now")).await;
        }
    };
    let mut session = Session { sync, socket, membership: joined.membership, asked: false };
    let whole = match joined.missing {
        Some(whole) => Ok(whole),
        // Nothing was written yet: an empty document is a document.
        None => session.sync.state.rooms.export(&session.sync.project).await,
    };
    let goodbye = match whole {
        Ok(whole) => match session.socket.send_binary(vec![whole]).await {
            Ok(_) => session.listen(&bell).await,
            Err(broken) => told(broken),
        },
        Err(_) => Some(Goodbye::new(1013, "the document cannot be read now")),
    };
    if let Some(goodbye) = goodbye {
        session.socket.close(goodbye).await;
    }
}

struct Session {
    sync: Sync,
    socket: Socket,
    membership: Membership,
    asked: bool,
}

impl Session {
    /// Runs until the connection ends; answers with what the client is told then.
    async fn listen(&mut self, bell: &Notify) -> Option<Goodbye> {
        let limits = self.sync.state.live.limits;
        let stopping = self.sync.state.readiness.stopping().clone();
        let mut pace = Pace::default();
        let mut ask = pin!(wake::rest(limits.ping_every, &stopping));
        let mut tick = pin!(wake::rest(TICK, &stopping));
        loop {
            let step: Result<(), Goodbye> = tokio::select! {
                biased;
                passed = &mut ask => {
                    ask.set(wake::rest(limits.ping_every, &stopping));
                    if passed { self.ask().await } else { Err(stop()) }
                }
                passed = &mut tick => {
                    tick.set(wake::rest(TICK, &stopping));
                    if passed { self.tick().await } else { Err(stop()) }
                }
                () = bell.notified() => self.deliver().await,
                received = self.socket.receive() => match received {
                    Ok(received) => self.hear(received, &mut pace).await,
                    Err(broken) => match told(broken) {
                        Some(goodbye) => Err(goodbye),
                        None => return None,
                    },
                },
            };
            if let Err(goodbye) = step {
                return Some(goodbye);
            }
        }
    }

    async fn ask(&mut self) -> Result<(), Goodbye> {
        if self.asked {
            return Err(Goodbye::new(1013, "no answer to a ping"));
        }
        self.asked = true;
        self.socket.ping().await.map_err(lost)
    }

    async fn tick(&mut self) -> Result<(), Goodbye> {
        let ended =
            self.sync.access.until.is_some_and(|until| until <= self.sync.state.clock.now());
        if ended { self.recheck().await } else { Ok(()) }
    }

    async fn recheck(&mut self) -> Result<(), Goodbye> {
        let Sync { state, project, access, credential } = &self.sync;
        match state.rooms.standing(project, *access, credential).await {
            Ok(Standing::Holds(access)) => {
                self.sync.access = access;
                Ok(())
            }
            Ok(Standing::Expired) => Err(Goodbye::new(4401, "the token has expired")),
            Ok(Standing::Revoked) => Err(Goodbye::new(4403, "the token was revoked")),
            // An outage takes nothing away from anybody.
            Err(_) => Ok(()),
        }
    }

    async fn deliver(&mut self) -> Result<(), Goodbye> {
        while let Some(mail) = self.membership.mailbox().take() {
            match mail {
                Mail::Update(update) => {
                    self.socket.send_binary(vec![update]).await.map_err(lost)?;
                }
                Mail::Presence(_) => {}
                Mail::Recheck => self.recheck().await?,
                // Here there is no joining again but a new connection.
                Mail::Rejoin(why) => return Err(Goodbye::new(1013, why)),
            }
        }
        Ok(())
    }

    async fn hear(&mut self, received: Received, pace: &mut Pace) -> Result<(), Goodbye> {
        self.asked = false;
        let update = match received {
            Received::Binary(update) => update,
            Received::Text(text) if text.as_str() == "ping" => {
                let pong = vec![Bytes::from_static(b"pong")];
                return self.socket.send(pong).await.map(drop).map_err(lost);
            }
            Received::Text(_) | Received::Alive => return Ok(()),
        };
        let state = self.sync.state.clone();
        if self.sync.access.permission != Permission::Write {
            return Err(Goodbye::new(4403, "this token allows reading only"));
        }
        let limits = state.room_sockets;
        if !pace.count(state.clock.monotonic(), limits.updates_per_sec_max) {
            state.metrics.limit_hit("room_updates_per_sec");
            return Err(Goodbye::new(1013, "too many updates; come back later"));
        }
        let taken = state.rooms.take(&self.membership, vec![update]).await;
        let stored = match taken {
            Ok(pending) => state.rooms.store_pending(pending).await,
            Err(error) => Err(error),
        };
        stored.map_err(|error| match error {
            WriteError::Invalid(_) => Goodbye::new(1007, "not an update of this document"),
            WriteError::TooLarge => Goodbye::new(1009, "the document may not grow by this"),
            WriteError::Rejoin | WriteError::Store(_) => Goodbye::new(1013, "come back later"),
        })
    }
}

fn stop() -> Goodbye {
    Goodbye::new(1012, "the server is stopping")
}

fn lost(broken: Broken) -> Goodbye {
    told(broken).unwrap_or_else(|| Goodbye::new(1000, ""))
}

fn told(broken: Broken) -> Option<Goodbye> {
    match broken {
        Broken::Gone => None,
        Broken::TooSlow => Some(Goodbye::new(1013, "too slow")),
        Broken::TooLarge => Some(Goodbye::new(1009, "the update is too large")),
        Broken::NoProtocol => Some(Goodbye::new(1002, "")),
    }
}
