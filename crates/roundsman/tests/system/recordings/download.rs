//! Getting files: through connections that break, without holding them in memory, to a folder and
//! to an S3-compatible store.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use roundsman_engine::clock::DatabaseClock;
use roundsman_testkit::daily::{Fault, FaultRule, Route};
use roundsman_testkit::process::ServerOptions;
use roundsman_testkit::{S3Account, S3StandIn};

use super::place::{RecordingSite, on_both};
use super::transcriber::{self, Said};
use crate::site::{Backend, Node};

const MIB: usize = 1024 * 1024;
const SAID: [Said; 1] = [Said { start: 1.0, end: 2.5, text: "It came through whole." }];
/// A file with this, then spaces to three mebibytes; and its hash, which somebody else has
/// computed.
const WHOLE: &str = "{\"recording\":\"whole\",\"segments\":[{\"start\":1.0,\"end\":2.5,\
                     \"text\":\"It came through whole.\"}]}";
const LENGTH: usize = 3 * MIB;
const SHA256: &str = "38c7d540554b9c081bfdfedb07bac1c683642e3e70542e0a3cf0d119cea68d70";
/// A long file, and how much of it a server may hold.
const LONG: usize = 48 * MIB;
const GROWTH_MAX: usize = 24 * MIB;

#[tokio::test]
async fn a_download_goes_on_where_its_connection_broke() {
    on_both(async |backend| {
        let place = RecordingSite::new(backend).await?;
        let (node, host) = place.start(place.options()).await?;
        place.daily.add_fault(FaultRule::times(Route::AccessLink, Fault::Status(500), 1));
        place.daily.add_fault(FaultRule::times(Route::File, Fault::CutAfter(MIB), 2));
        let content = whole();
        let id = place.record_file(&host.room, content.clone());
        let done = place.wait_completed(&id).await?;
        let media = &done["media"][0];
        ensure!(media["bytes"] == LENGTH && media["sha256"] == SHA256, "{media}");
        // Three answers were enough: each went on where the one before ended.
        ensure!(place.daily.requests(Route::File) == 3, "{}", place.daily.requests(Route::File));
        let [file] = place.media_files()?.try_into().ok().context("one file is kept")?;
        ensure!(std::fs::read(&file)? == content, "what is kept is not what was recorded");
        ensure!(file.ends_with(media["blob"].as_str().unwrap_or_default()), "{}", file.display());
        ensure!(host.texts().await? == [SAID[0].text], "{:?}", host.said().await?);
        place.end(node, 1).await
    })
    .await;
}

#[tokio::test]
async fn media_are_kept_in_a_bucket() {
    on_both(async |backend| {
        let place = RecordingSite::new(backend).await?;
        let bucket = bucket().await?;
        let (node, host) = place.start(keeping_in(&place, &bucket)).await?;
        let id = place.record_file(&host.room, whole());
        let done = place.wait_completed(&id).await?;
        let blob = done["media"][0]["blob"].as_str().context("no name")?;
        ensure!(done["media"][0]["sha256"] == SHA256, "{done}");
        ensure!(bucket.objects() == [format!("team/{blob}")], "{:?}", bucket.objects());
        ensure!(bucket.uploads_open() == 0, "an upload was left");

        let path = format!("/presence/meetings/{}/consent", host.meeting);
        let denial = serde_json::json!({"person": "ada", "given": false});
        host.client.post(&path, &denial).await?.expect_status(200)?;
        super::consent::wait_erased(&place, &id).await?;
        ensure!(bucket.objects().is_empty(), "{:?}", bucket.objects());
        place.end(node, 0).await
    })
    .await;
}

/// The most memory that the server ever had hardly grows with what it handles.
#[tokio::test]
async fn a_long_recording_is_not_held_in_memory() {
    async fn run() -> Result<()> {
        let place = RecordingSite::new(Backend::Sqlite).await?;
        let (node, host) = place.start(place.options()).await?;
        let short = place.record_file(&host.room, transcriber::file("short", &SAID, MIB));
        place.wait_completed(&short).await?;
        let before = memory_peak(&node)?;
        let long = place.record_file(&host.room, transcriber::file("long", &SAID, LONG));
        let done = place.wait_completed(&long).await?;
        ensure!(done["media"][0]["bytes"] == LONG, "{done}");
        let grown = memory_peak(&node)?.saturating_sub(before);
        ensure!(grown < GROWTH_MAX, "{grown} bytes more for {LONG}");
        place.end(node, 2).await
    }
    run().await.unwrap();
}

fn whole() -> Vec<u8> {
    let mut content = WHOLE.as_bytes().to_vec();
    content.resize(LENGTH, b' ');
    content
}

/// The most memory that a server has had, in bytes.
fn memory_peak(node: &Node) -> Result<usize> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", node.pid()?))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")).context("no VmHWM")?;
    Ok(kib.trim().parse::<usize>()? * 1024)
}

pub(super) async fn bucket() -> Result<S3StandIn> {
    let clock = Arc::new(DatabaseClock::start());
    S3StandIn::start(S3Account::default(), clock).await
}

/// A server that keeps media in a bucket.
fn keeping_in(place: &RecordingSite, bucket: &S3StandIn) -> ServerOptions {
    let S3Account { access_key, secret_key, region, bucket: name, .. } = bucket.account();
    place.site.keep_secret(secret_key);
    place
        .options()
        .env("ROUNDSMAN_RECORDINGS_MEDIA", format!("s3://{name}/team"))
        .env("ROUNDSMAN_RECORDINGS_S3_ENDPOINT", bucket.url())
        .env("ROUNDSMAN_RECORDINGS_S3_REGION", region)
        .env("ROUNDSMAN_RECORDINGS_S3_ACCESS_KEY", access_key)
        .env("ROUNDSMAN_RECORDINGS_S3_SECRET_KEY", secret_key)
}
