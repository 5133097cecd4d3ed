//! Real speech: `espeak-ng` speaks, Daily has it as a recording, a server around `PocketSphinx` hears
//! it, and the words arrive in the transcript at the times at which they were spoken.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use roundsman_testkit::daily::{Guest, NewRecording, NewTrack};
use roundsman_testkit::env;
use roundsman_testkit::process::ServerOptions;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::download::bucket;
use super::host::Line;
use super::place::{RecordingSite, on_both};
use super::tracks::{reading_tracks_from, wait_inside};
use crate::bots::python::script;

const ADA: &str = "en-us+f3";
const BOB: &str = "en-us";
/// How quickly they speak, in words per minute.
const SPEED: &str = "140";
/// How far from where they are the ends of a stretch of speech may be heard.
const HEARD_WITHIN_SECS: f64 = 0.5;

/// A transcriber that really hears. It is gone when dropped.
struct SpeechToText {
    url: String,
    _child: Child,
}

impl SpeechToText {
    async fn start() -> Result<SpeechToText> {
        let mut child = Command::new(env::clients_python()?)
            .arg(script("speech_to_text.py"))
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("cannot run speech_to_text.py")?;
        let stdout = child.stdout.take().context("no standard output")?;
        let line = BufReader::new(stdout).lines().next_line().await?;
        let port = line.context("it does not start; run `scripts/test`, which installs it")?;
        Ok(SpeechToText { url: format!("http://127.0.0.1:{port}"), _child: child })
    }

    fn heard_by(&self, options: ServerOptions) -> ServerOptions {
        options.env("ROUNDSMAN_TRANSCRIBER_URL", &self.url)
    }
}

/// A recording of somebody's voice: silence, speech, silence, speech, …
#[derive(Debug, Default)]
struct Voice {
    samples: Vec<u8>,
    rate: u32,
    /// When they spoke, from and to, in seconds.
    spoken: Vec<(f64, f64)>,
}

impl Voice {
    async fn speaks(voice: &str, sentences: &[(f64, &str)]) -> Result<Voice> {
        let folder = tempfile::tempdir()?;
        let mut all = Voice::default();
        for (silence_secs, text) in sentences {
            let path = folder.path().join("spoken.wav");
            speak(voice, text, &path).await?;
            let (rate, samples) = read_wav(&std::fs::read(&path)?)?;
            all.rate = rate;
            all.be_silent(*silence_secs);
            let from = all.secs();
            all.samples.extend_from_slice(&samples);
            all.spoken.push((from, all.secs()));
        }
        all.be_silent(1.0);
        Ok(all)
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "some seconds of silence"
    )]
    fn be_silent(&mut self, secs: f64) {
        let samples = (f64::from(self.rate) * secs) as usize;
        self.samples.resize(self.samples.len() + 2 * samples, 0);
    }

    fn secs(&self) -> f64 {
        let samples = u32::try_from(self.samples.len() / 2).unwrap_or(u32::MAX);
        f64::from(samples) / f64::from(self.rate)
    }

    fn wav(&self) -> Vec<u8> {
        let bytes = u32::try_from(self.samples.len()).unwrap_or(u32::MAX);
        let mut file = b"RIFF".to_vec();
        file.extend((bytes + 36).to_le_bytes());
        file.extend(b"WAVEfmt \x10\0\0\0\x01\0\x01\0");
        file.extend(self.rate.to_le_bytes());
        file.extend((self.rate * 2).to_le_bytes());
        file.extend(b"\x02\0\x10\0data");
        file.extend(bytes.to_le_bytes());
        file.extend(&self.samples);
        file
    }
}

#[tokio::test]
async fn what_is_spoken_is_read_with_its_times() {
    on_both(async |backend| {
        let place = RecordingSite::new(backend).await?;
        let heard = SpeechToText::start().await?;
        let (node, host) = place.start(heard.heard_by(place.options())).await?;
        let sentences = [(2.0, "good morning everybody"), (3.0, "the weather is wonderful")];
        let voice = Voice::speaks(ADA, &sentences).await?;
        let mut recording = NewRecording::cloud(&host.room, place.now(), voice.wav());
        recording.duration = Duration::from_secs_f64(voice.secs());
        let id = place.daily.record(recording);
        place.wait_completed(&id).await?;
        let said = host.said().await?;
        let expected = sentences.map(|(_, text)| (None, text));
        expect_spoken(&said, &expected, &voice.spoken)?;
        let file = host.client.get("/transcripts/daily/weekly-sync/export?format=srt").await?;
        ensure!(file.text.contains("good morning everybody"), "{}", file.text);
        place.end(node, 1).await
    })
    .await;
}

#[tokio::test]
async fn two_voices_are_read_as_one_conversation() {
    on_both(async |backend| {
        let place = RecordingSite::new(backend).await?;
        let (heard, bucket) = (SpeechToText::start().await?, bucket().await?);
        let options = heard.heard_by(reading_tracks_from(&place, &bucket));
        let (node, host) = place.start(options).await?;
        let guests = [Guest::named("Ada"), Guest::named("Bob")];
        let [ada_id, bob_id] = guests.map(|guest| place.daily.join(&host.room, guest));
        wait_inside(&host, 2).await?;
        // Bob comes two seconds later, and speaks while Ada is silent.
        let (bob_after, began) = (Duration::from_secs(2), place.now());
        let ada = [(0.5, "good evening everybody"), (5.0, "the meeting is over")];
        let bob = [(1.5, "the report is ready")];
        let ada_voice = Voice::speaks(ADA, &ada).await?;
        let bob_voice = Voice::speaks(BOB, &bob).await?;
        let track = |session: &str, after, voice: &Voice| {
            NewTrack::speech(&host.room, session, began, after, voice.wav())
        };
        let tracks =
            vec![track(&bob_id, bob_after, &bob_voice), track(&ada_id, Duration::ZERO, &ada_voice)];
        for track in &tracks {
            bucket.put(&track.key, track.bytes.clone());
        }
        let id = place.daily.record(NewRecording::raw_tracks(&host.room, began, tracks));
        place.wait_completed(&id).await?;
        let (from, to) = bob_voice.spoken[0];
        let later = bob_after.as_secs_f64();
        let spoken = [ada_voice.spoken[0], (from + later, to + later), ada_voice.spoken[1]];
        let expected = [(Some("Ada"), ada[0].1), (Some("Bob"), bob[0].1), (Some("Ada"), ada[1].1)];
        expect_spoken(&host.said().await?, &expected, &spoken)?;
        place.end(node, 2).await
    })
    .await;
}

/// These words were read, by whom and when they were spoken.
fn expect_spoken(
    said: &[Line],
    expected: &[(Option<&str>, &str)],
    spoken: &[(f64, f64)],
) -> Result<()> {
    let words: Vec<(Option<&str>, &str)> =
        said.iter().map(|(_, _, who, text)| (who.as_deref(), text.as_str())).collect();
    ensure!(words == expected, "{said:?}");
    for ((start, end, ..), (from, to)) in said.iter().zip(spoken) {
        let is_near = |a: &f64, b: &f64| (a - b).abs() < HEARD_WITHIN_SECS;
        ensure!(is_near(start, from) && is_near(end, to), "{said:?} was spoken at {spoken:?}");
    }
    Ok(())
}

async fn speak(voice: &str, text: &str, to: &Path) -> Result<()> {
    let mut command = Command::new("espeak-ng");
    command.args(["-v", voice, "-s", SPEED, "-w"]).arg(to).arg(text);
    let status = command.stdin(Stdio::null()).status().await;
    let status = status.context("espeak-ng is missing: `scripts/test` installs it")?;
    ensure!(status.success(), "espeak-ng ended with {status}");
    Ok(())
}

/// The rate and the samples of a file with one channel of 16 bits.
fn read_wav(file: &[u8]) -> Result<(u32, Vec<u8>)> {
    let number = |at: usize| -> Result<u32> {
        let bytes = file.get(at..at + 4).context("the file is too short")?;
        Ok(u32::from_le_bytes(bytes.try_into()?))
    };
    ensure!(file.starts_with(b"RIFF") && file.get(36..40) == Some(b"data"), "an odd file");
    Ok((number(24)?, file[44..].to_vec()))
}
