//! Rooms have names, and names are used again: a recording belongs to the meeting that began
//! nearest to it.

use std::time::Duration;

use anyhow::ensure;
use roundsman_testkit::daily::NewRecording;

use super::host::Line;
use super::place::{RecordingSite, on_both};
use super::transcriber::{self, Said};

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn a_recording_belongs_to_the_nearest_meeting_in_its_room() {
    on_both(async |backend| {
        let place = RecordingSite::new(backend).await?;
        let (node, mut host) = place.start(place.options()).await?;
        let first = host.meeting;
        host.close().await?;
        let second = host.open().await?;
        let other = place.host("bob", "another-room").await?;
        let record = |room: &str, name: &'static str, at| {
            let said = [Said { start: 0.0, end: 1.0, text: name }];
            let content = transcriber::file(name, &said, 0);
            place.daily.record(NewRecording::cloud(room, at, content))
        };
        let earlier = record(&host.room, "earlier", place.now() - HOUR);
        let later = record(&host.room, "later", place.now() + HOUR);
        let elsewhere = record(&other.room, "elsewhere", place.now() - HOUR);
        let strange = record("of-somebody-else", "strange", place.now());
        let far = record(&host.room, "far", place.now() - HOUR * 24 * 30);
        for (id, meeting) in [(&earlier, first), (&later, second), (&elsewhere, other.meeting)] {
            let done = place.wait_completed(id).await?;
            ensure!(done["meeting_id"] == meeting, "not {meeting}: {done}");
        }
        let texts = |lines: Vec<Line>| -> Vec<String> {
            lines.into_iter().map(|(.., text)| text).collect()
        };
        ensure!(texts(host.said_in(first).await?) == ["earlier"], "of the first meeting");
        ensure!(texts(host.said_in(second).await?) == ["later"], "of the second meeting");
        ensure!(other.texts().await? == ["elsewhere"], "of the other user");
        // Nobody else sees it.
        let path = format!("/recordings/{earlier}");
        ensure!(other.client.get(&path).await?.status == 404, "somebody else's recording");

        // One that is far from every meeting belongs to none, and may yet find one.
        let waits = place.recording(&far).await?;
        ensure!(waits["meeting_id"].is_null() && waits["status"] != "completed", "{waits}");
        ensure!(place.transcriber.asked("far") == 0, "it was heard");
        // One of a room in which nobody here had a meeting is nobody's here.
        let unknown = place.admin()?.get(&format!("/recordings/{strange}")).await?;
        ensure!(unknown.status == 404, "{}", unknown.text);
        place.end(node, 3).await
    })
    .await;
}
