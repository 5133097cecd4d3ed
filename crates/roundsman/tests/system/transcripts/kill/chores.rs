//! What users and operators do beside speaking, one thing after the other, each until it is answered.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use roundsman_testkit::http::JsonResponse;
use roundsman_testkit::{JsonClient, eventually};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::bots::place::BotSite;
use crate::bots::user::User;
use crate::transcripts::heard::Lines;
use crate::transcripts::producer::{Producer, Way};
use crate::transcripts::redis_look::RedisLook;
use crate::transcripts::room::{OVER_WITHIN, Room, breathe};

/// Between the guests' words.
const GUEST_MS: i64 = 3000;
/// Between two rounds.
const PAUSE: Duration = Duration::from_millis(50);

pub(super) struct Chores {
    client: JsonClient,
    admin: JsonClient,
    room: Room,
    /// A meeting whose transcript is deleted again and again.
    other: Room,
    session: String,
    /// Sends the guests' words.
    teller: Producer,
    redis: Option<RedisLook>,
    /// Who has spoken when, by the name that they were given.
    guests: Mutex<BTreeMap<i64, String>>,
}

impl Chores {
    pub(super) fn new(
        site: &BotSite,
        user: &User,
        room: &Room,
        other: Room,
        redis: Option<RedisLook>,
    ) -> Result<Chores> {
        let session = format!("{}-guests", room.session);
        let way = Way::Http(JsonClient::new(site.base_url())?);
        Ok(Chores {
            client: user.client.clone(),
            admin: site.admin()?,
            room: room.clone(),
            other,
            teller: Producer::new(room, &session, way),
            session,
            redis,
            guests: Mutex::default(),
        })
    }

    pub(super) async fn run(&self, site: &BotSite, stop: &CancellationToken) -> Result<()> {
        let mut round = 0;
        while !stop.is_cancelled() {
            self.name_a_guest(round).await.context("a guest")?;
            self.share(site).await.context("a link")?;
            self.delete_the_other().await.context("another transcript")?;
            if let Some(redis) = &self.redis {
                self.put_away(redis, round).await.context("a dead letter")?;
            }
            breathe(PAUSE).await;
            round += 1;
        }
        Ok(())
    }

    /// Every guest has the name that they were given.
    pub(super) fn check(&self, lines: &Lines) -> Result<()> {
        let guests = self.guests.lock().unwrap_or_else(PoisonError::into_inner);
        ensure!(!guests.is_empty(), "no guest has spoken");
        for (start, name) in guests.iter() {
            let line = lines.get(&(self.session.clone(), *start));
            let speaker = line.and_then(|line| line.speaker.as_ref());
            ensure!(speaker == Some(name), "{name} is {line:?}");
        }
        Ok(())
    }

    /// The other meeting ends, and nothing was said there.
    pub(super) async fn end(&self, user: &User) -> Result<()> {
        let (lines, _) = self.other.read(user).await?;
        ensure!(lines.is_empty(), "was deleted: {lines:?}");
        self.other.leave(user).await.map(drop)
    }

    async fn name_a_guest(&self, round: i64) -> Result<()> {
        let start = round * GUEST_MS;
        let (guest, host) = (format!("Guest {round}"), format!("Host {round}"));
        let (uid, token) = (&self.session, &self.room.token);
        let activity = json!({
            "type": "speaker_activity", "uid": self.room.session, "token": token,
            "event_type": "SPEAKER_START", "participant_name": "Somebody",
            "relative_client_timestamp_ms": start,
        });
        self.teller.tell(&activity).await?;
        let said = segment(start, &format!("Remark {round} by somebody else"), &guest);
        let message =
            json!({"type": "transcription", "uid": uid, "token": token, "segments": [said]});
        self.teller.tell(&message).await?;
        let path = format!("{}/speakers", self.room.path);
        let name = json!({"from": guest, "to": host});
        // Where the first answer was lost, nobody of the old name is left.
        answered(&[200, 404], async || self.client.patch(&path, &name).await).await?;
        self.guests.lock().unwrap_or_else(PoisonError::into_inner).insert(start, host);
        Ok(())
    }

    async fn share(&self, site: &BotSite) -> Result<()> {
        let path = format!("{}/share", self.room.path);
        let empty = json!({});
        let share = answered(&[200], async || self.client.post(&path, &empty).await).await?;
        let secret = share.body["share_id"].as_str().context("no secret")?;
        site.site.keep_secret(secret);
        let open = format!("/public/transcripts/{secret}.txt");
        answered(&[200], async || self.client.get(&open).await).await?;
        let end = format!("/transcripts/shares/{}", share.body["id"]);
        answered(&[204, 404], async || self.client.delete(&end).await).await?;
        Ok(())
    }

    async fn delete_the_other(&self) -> Result<()> {
        let Room { session, token, path, .. } = &self.other;
        let said = segment(0, "This was never said", "Nobody");
        let message =
            json!({"type": "transcription", "uid": session, "token": token, "segments": [said]});
        self.teller.tell(&message).await?;
        answered(&[200], async || self.client.delete(path).await).await?;
        Ok(())
    }

    /// Something that nobody can read is put away with what it is; the operator deletes it.
    async fn put_away(&self, redis: &RedisLook, round: i64) -> Result<()> {
        let payload = format!("nonsense {round}");
        redis.add_message(&payload).await?;
        let letter = eventually(OVER_WITHIN, async || {
            let page = self.admin.get("/ingest/dead-letters?limit=100").await.ok()?;
            let letters = page.body["dead_letters"].as_array()?;
            letters.iter().find(|letter| letter["payload"] == payload)?["id"].as_i64()
        });
        let letter = letter.await.context("it was not put away")?;
        let path = format!("/ingest/dead-letters/{letter}");
        answered(&[204, 404], async || self.admin.delete(&path).await).await?;
        Ok(())
    }
}

/// Asks until one of these statuses is the answer.
async fn answered(
    statuses: &[u16],
    mut ask: impl AsyncFnMut() -> Result<JsonResponse>,
) -> Result<JsonResponse> {
    let mut last = None;
    let answered = eventually(OVER_WITHIN, async || match ask().await {
        Ok(answer) if statuses.contains(&answer.status) => Some(answer),
        other => {
            last = Some(other);
            None
        }
    });
    answered.await.with_context(|| format!("{last:?}"))
}

fn segment(start_ms: i64, text: &str, speaker: &str) -> Value {
    let seconds = start_ms / 1000;
    json!({"start": seconds, "end": seconds + 1, "text": text, "language": "en", "speaker": speaker})
}
