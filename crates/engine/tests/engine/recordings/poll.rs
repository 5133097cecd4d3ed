//! Reading the provider's list.

use roundsman_core::jobs::{Job, JobState, WaitingJob};
use roundsman_core::ports::{RecordingStore, RoomsError};
use roundsman_core::presence::RoomName;
use roundsman_core::recordings::{Announcement, POLL_KIND, RecordingStatus};
use roundsman_engine::recordings::{AnnounceReply, POLL_EVERY_WITHOUT_EVENTS, RecordingOptions};

use super::{ROOM, RecordingWorld, ends};
use crate::backend::{Backend, on_every_database};
use crate::support::{secs, until, until_running};

on_every_database! {
    defect_10_more_than_a_hundred_after_an_outage_are_all_found
    a_second_reading_stops_where_the_first_began
    the_mark_waits_for_what_is_not_finished
    what_never_finishes_holds_nothing_up_for_ever
    an_error_on_the_way_loses_nothing
    a_very_long_list_is_read_in_several_runs
    a_list_that_changes_under_the_reading_is_read_anew
    a_place_that_is_refused_again_and_again_is_no_storm
    a_list_that_goes_round_in_a_circle_is_left
    a_mark_that_was_deleted_is_made_anew
    recordings_of_others_are_left_alone
    the_provider_is_asked_as_often_as_it_should_be
    without_a_provider_nothing_is_asked
}

/// The provider has so many recordings.
fn list(world: &RecordingWorld, numbers: std::ops::Range<usize>) -> Vec<Announcement> {
    let listed = |n| {
        let announcement = world.recorded(&format!("rec-{n}"));
        world.outside.list(&announcement);
        announcement
    };
    numbers.map(listed).collect()
}

async fn cursor(world: &RecordingWorld) -> Option<String> {
    world.world.store.recording_cursor().await.unwrap().map(|id| id.as_str().to_owned())
}

async fn assert_all_done(world: &RecordingWorld, listed: &[Announcement]) {
    for announcement in listed {
        world.assert_done(announcement.id.as_str()).await;
    }
    assert_eq!(world.outside.heard().len(), listed.len());
    world.check().await;
}

async fn defect_10_more_than_a_hundred_after_an_outage_are_all_found(backend: Backend) {
    let world = RecordingWorld::new(backend).await;
    world.meeting(ROOM).await;
    let mut listed = list(&world, 0..30);
    world.poll().await;
    // Neither events nor polls for a long time, and then one poll.
    listed.extend(list(&world, 30..260));
    world.steps.forget();
    world.poll().await;
    assert_eq!(world.steps.count("recordings_page"), 3);
    assert_all_done(&world, &listed).await;
    assert_eq!(cursor(&world).await.as_deref(), Some("rec-259"));
}

async fn a_second_reading_stops_where_the_first_began(backend: Backend) {
    let world = RecordingWorld::new(backend).await;
    world.meeting(ROOM).await;
    world.outside.pages_of(10);
    let mut listed = list(&world, 0..35);
    world.poll().await;
    assert_eq!(world.steps.count("recordings_page"), 4);
    listed.extend(list(&world, 35..37));
    world.steps.forget();
    world.poll().await;
    assert_eq!(world.steps.count("recordings_page"), 1);
    assert_eq!(cursor(&world).await.as_deref(), Some("rec-36"));
    world.poll().await;
    assert_eq!(world.steps.count("recordings_page"), 2);
    assert_eq!(world.steps.count("set_recording_cursor"), 1, "it is written when it moves");
    assert_all_done(&world, &listed).await;
}

async fn the_mark_waits_for_what_is_not_finished(backend: Backend) {
    let world = RecordingWorld::new(backend).await;
    world.meeting(ROOM).await;
    world.outside.pages_of(5);
    let mut listed = list(&world, 0..10);
    let late = world.recorded("late");
    world.outside.list_unfinished(&late);
    listed.extend(list(&world, 10..22));
    world.poll().await;
    let mark = cursor(&world).await.unwrap();
    assert_eq!(mark, "rec-7", "the newest of the pages behind the one that holds it up");
    // Many more come, and then it is finished and its event is lost.
    listed.extend(list(&world, 22..60));
    world.poll().await;
    world.outside.finish(&late.id);
    world.poll().await;
    listed.push(late);
    assert_all_done(&world, &listed).await;
    assert_eq!(cursor(&world).await.as_deref(), Some("rec-59"));
}

async fn what_never_finishes_holds_nothing_up_for_ever(backend: Backend) {
    let world = RecordingWorld::new(backend).await;
    world.meeting(ROOM).await;
    world.outside.pages_of(2);
    let listed = list(&world, 0..2);
    world.outside.list_unfinished(&world.recorded("stuck"));
    world.poll().await;
    assert_eq!(cursor(&world).await.as_deref(), Some("rec-0"));
    world.world.clock.advance(secs(8 * 24 * 3600));
    world.poll().await;
    assert_eq!(cursor(&world).await.as_deref(), Some("rec-1"));
    assert_all_done(&world, &listed).await;
}

async fn an_error_on_the_way_loses_nothing(backend: Backend) {
    for error in [
        RoomsError::Unavailable("down".to_owned()),
        RoomsError::Odd("html".to_owned()),
        RoomsError::RateLimited { after: Some(secs(90)) },
    ] {
        let world = RecordingWorld::new(backend).await;
        world.meeting(ROOM).await;
        world.outside.pages_of(10);
        let listed = list(&world, 0..25);
        let pages = world.steps.hold("recordings_page");
        world.wish_poll().await;
        world.begin_and_wait_at("recordings_page").await;
        pages.open(1);
        until("it is at the second page", || world.steps.count("recordings_page") == 2).await;
        world.outside.provider_fails("recordings_page", error);
        pages.open(1000);
        ends(&world.worker).await;
        assert_eq!(cursor(&world).await, None, "it was not read whole");
        world.pass(secs(180)).await;
        assert_all_done(&world, &listed).await;
        assert_eq!(cursor(&world).await.as_deref(), Some("rec-24"));
    }
}

async fn a_very_long_list_is_read_in_several_runs(backend: Backend) {
    let world = RecordingWorld::new(backend).await;
    world.meeting(ROOM).await;
    world.outside.pages_of(2);
    let listed = list(&world, 0..90);
    world.poll().await;
    assert_eq!(world.steps.count("recordings_page"), 45);
    assert_eq!(world.steps.count("recording_cursor"), 3, "in three runs");
    assert_all_done(&world, &listed).await;
    assert_eq!(cursor(&world).await.as_deref(), Some("rec-89"));
}

async fn a_list_that_changes_under_the_reading_is_read_anew(backend: Backend) {
    let world = RecordingWorld::new(backend).await;
    world.meeting(ROOM).await;
    world.outside.pages_of(2);
    let listed = list(&world, 0..60);
    let pages = world.steps.hold("recordings_page");
    world.wish_poll().await;
    world.begin_and_wait_at("recordings_page").await;
    pages.open(20);
    until_running(&world.worker, 0).await;
    // The entry from which the second run goes on is deleted.
    world.outside.unlist("rec-20");
    pages.open(1000);
    world.worker.settle_tick().await.unwrap();
    world.run_due().await;
    assert_eq!(cursor(&world).await, None, "it was not read whole");
    world.pass(secs(60)).await;
    assert_all_done(&world, &listed).await;
    assert_eq!(cursor(&world).await.as_deref(), Some("rec-59"));
}

async fn a_place_that_is_refused_again_and_again_is_no_storm(backend: Backend) {
    let world = RecordingWorld::new(backend).await;
    world.meeting(ROOM).await;
    world.outside.pages_of(2);
    let listed = list(&world, 0..60);
    // A run reads twenty pages; the next one cannot go on.
    world.outside.forget_places_after(Some(20));
    world.wish_poll().await;
    world.pass(secs(3600)).await;
    let pages = world.steps.count("recordings_page");
    assert!((100..700).contains(&pages), "{pages} pages in an hour");
    assert_eq!(cursor(&world).await, None);
    // What could be read is not lost.
    assert_eq!(world.outside.heard().len(), 40);
    world.outside.forget_places_after(None);
    world.pass(secs(240)).await;
    assert_all_done(&world, &listed).await;
    assert_eq!(cursor(&world).await.as_deref(), Some("rec-59"));
}

async fn a_list_that_goes_round_in_a_circle_is_left(backend: Backend) {
    let world = RecordingWorld::new(backend).await;
    world.meeting(ROOM).await;
    world.outside.pages_of(2);
    let listed = list(&world, 0..6);
    world.outside.go_round(true);
    world.wish_poll().await;
    world.pass(secs(3600)).await;
    let pages = world.steps.count("recordings_page");
    assert!((10..200).contains(&pages), "{pages} pages in an hour");
    assert_eq!(cursor(&world).await, None);
    world.outside.go_round(false);
    world.pass(secs(240)).await;
    assert_all_done(&world, &listed).await;
    assert_eq!(cursor(&world).await.as_deref(), Some("rec-5"));
}

/// However long the list is, a reading of it ends.
#[tokio::test]
async fn a_list_that_is_too_long_is_read_as_far_as_it_matters() {
    let world = RecordingWorld::new(Backend::Sqlite).await;
    world.outside.pages_of(1);
    for number in 0..2010 {
        world.outside.list(&world.recorded(&format!("rec-{number}")));
    }
    world.poll().await;
    assert_eq!(world.steps.count("recordings_page"), 2000);
    assert_eq!(cursor(&world).await.as_deref(), Some("rec-2009"));
    world.steps.forget();
    world.poll().await;
    assert_eq!(world.steps.count("recordings_page"), 1);
    world.check().await;
}

async fn a_mark_that_was_deleted_is_made_anew(backend: Backend) {
    let world = RecordingWorld::new(backend).await;
    world.meeting(ROOM).await;
    world.outside.pages_of(10);
    let mut listed = list(&world, 0..25);
    world.poll().await;
    world.outside.unlist("rec-24");
    listed.extend(list(&world, 25..26));
    world.steps.forget();
    world.poll().await;
    assert_eq!(world.steps.count("recordings_page"), 3, "to the end of the list");
    assert_eq!(cursor(&world).await.as_deref(), Some("rec-25"));
    assert_all_done(&world, &listed).await;
}

async fn recordings_of_others_are_left_alone(backend: Backend) {
    let world = RecordingWorld::new(backend).await;
    world.meeting(ROOM).await;
    let ours = list(&world, 0..2);
    let mut theirs = world.recorded("theirs");
    theirs.room = RoomName::new("room-of-another-app").unwrap();
    world.outside.list(&theirs);
    let reply = world.announce(&theirs).await;
    assert_eq!(reply, AnnounceReply::UnknownRoom);
    world.poll().await;
    assert_eq!(world.world.store.known_recordings(vec![theirs.id]).await.unwrap(), [false]);
    assert_eq!(cursor(&world).await.as_deref(), Some("theirs"), "it is not looked at again");
    assert_all_done(&world, &ours).await;
}

async fn the_provider_is_asked_as_often_as_it_should_be(backend: Backend) {
    let with_events = RecordingOptions::new("x".into(), true);
    let without = RecordingOptions::new("x".into(), false);
    assert_eq!((with_events.poll_every, without.poll_every), (secs(180), secs(15)));
    for every in [secs(180), POLL_EVERY_WITHOUT_EVENTS] {
        let world = RecordingWorld::with(backend, |work| work.options.poll_every = every).await;
        let start = world.now();
        world.poll().await;
        let next = waiting_poll(&world).await.due_at();
        assert!(next >= start + every && next <= start + every + every / 10, "{next}");
        world.check().await;
    }
}

async fn without_a_provider_nothing_is_asked(backend: Backend) {
    let world = RecordingWorld::with(backend, |work| work.provider = None).await;
    world.meeting(ROOM).await;
    let listed = list(&world, 0..1);
    world.poll().await;
    assert_eq!(world.steps.count("recordings_page"), 0);
    waiting_poll(&world).await;
    // An event may come all the same.
    world.announce(&listed[0]).await;
    world.run_due().await;
    let recording = world.recording("rec-0").await;
    assert_eq!(recording.status, RecordingStatus::Failed);
    let error = recording.error.unwrap();
    assert!(error.starts_with("not_configured: "), "{error}");
    world.check().await;
}

async fn waiting_poll(world: &RecordingWorld) -> WaitingJob {
    let jobs = world.world.all_jobs(Some(POLL_KIND)).await;
    let waits = |job: &Job| world.state_of(job) == JobState::Scheduled;
    let [Job::Waiting(job)] = jobs.iter().filter(|job| waits(job)).collect::<Vec<_>>()[..] else {
        panic!("{jobs:?}")
    };
    job.clone()
}
