use serde_json::json;

use super::*;
use crate::simulated::{Reaction, SimulatedServer, run};
use crate::wishes::{Command, LeaveCause, Reconfigure};

#[tokio::test]
async fn a_life_is_reported_in_order() {
    let (clock, server, bot) = SimulatedServer::with_bot(|_| run());
    let farewell = clock.drive(async {
        bot.started().await.unwrap();
        bot.joining();
        bot.awaiting_admission();
        bot.joined();
        bot.leaving();
        bot.exited(Ending::completed("normal_completion")).await
    });
    assert_eq!(farewell.await, Farewell::Told);
    let mut order = server.order();
    order.retain(|what| what != "heartbeat");
    let expected = ["started", "joining", "awaiting_admission", "joined", "stopping", "exited"];
    assert_eq!(order, expected);
}

#[tokio::test]
async fn a_report_is_repeated_until_it_is_accepted_and_the_next_one_waits() {
    let (clock, server, bot) =
        SimulatedServer::with_bot(|seen| match (seen.what.as_str(), seen.earlier) {
            ("joined", 0 | 1) => Reaction::NoAnswer,
            ("joined", 2) => Reaction::Answer(503, json!({})),
            ("joined", 3) => Reaction::Answer(429, json!({})),
            ("joined", 4) => Reaction::Answer(200, json!("a page of a proxy")),
            _ => run(),
        });
    let delivered = clock.drive(async {
        bot.started().await.unwrap();
        bot.joined();
        bot.leaving().delivered().await
    });
    assert_eq!(delivered.await, Delivered::Accepted);
    assert_eq!(server.times("joined"), [0, 250, 750, 1750, 3750, 7750]);
    assert_eq!(server.times("stopping"), [7750]);
}

#[tokio::test]
async fn heartbeats_go_on_while_a_report_waits_and_come_sooner_after_a_failure() {
    let (clock, server, bot) =
        SimulatedServer::with_bot(|seen| match (seen.what.as_str(), seen.earlier) {
            ("joined", _) | ("heartbeat", 1..=3) => Reaction::NoAnswer,
            _ => run(),
        });
    let watched = clock.drive(async {
        bot.started().await.unwrap();
        bot.joined();
        bot.clock().pause(Duration::from_secs(100)).await;
    });
    watched.await;
    assert_eq!(server.times("heartbeat"), [0, 30_000, 30_500, 31_500, 33_500, 63_500, 93_500]);
    assert!(server.times("joined").len() > 5);
}

#[tokio::test]
async fn a_report_the_server_does_not_want_holds_up_nothing() {
    let (clock, server, bot) = SimulatedServer::with_bot(|seen| match seen.what.as_str() {
        "joined" => Reaction::Answer(409, json!({})),
        _ => run(),
    });
    let farewell = clock.drive(async {
        bot.started().await.unwrap();
        assert_eq!(bot.joined().delivered().await, Delivered::Rejected(409));
        bot.exited(Ending::completed("x")).await
    });
    assert_eq!(farewell.await, Farewell::Told);
    assert_eq!(server.times("joined").len(), 1);
}

#[tokio::test]
async fn a_wish_in_any_answer_is_heard() {
    for speaking in ["started", "joined", "heartbeat"] {
        let (clock, _, bot) = SimulatedServer::with_bot(move |seen| {
            let wanted = if seen.what == speaking { "leave" } else { "run" };
            let config = json!({"language": "de", "task": "transcribe"});
            Reaction::Answer(200, json!({"wanted": wanted, "config_version": 2, "config": config}))
        });
        let heard = clock.drive(async {
            let mut commands = bot.commands();
            bot.started().await.unwrap();
            bot.joined();
            bot.clock().pause(Duration::from_secs(1)).await;
            [commands.next().await, commands.next().await]
        });
        let language = Some("de".to_owned());
        let config = Reconfigure { version: 2, language, task: Some("transcribe".to_owned()) };
        let expected = [Command::Leave(LeaveCause::Asked), Command::Reconfigure(config)];
        assert_eq!(heard.await, expected, "in the answer to {speaking}");
    }
}

#[tokio::test]
async fn what_was_applied_and_heard_goes_with_the_heartbeat_and_never_back() {
    let (clock, server, bot) = SimulatedServer::with_bot(|_| run());
    let beaten = clock.drive(async {
        bot.started().await.unwrap();
        bot.clock().pause(Duration::from_secs(10)).await;
        bot.media_progress(900);
        bot.media_progress(400);
        bot.applied(3);
        bot.applied(2);
        bot.clock().pause(Duration::from_secs(1)).await;
    });
    beaten.await;
    let beats: Vec<_> = server.seen().into_iter().filter(|seen| seen.what == "heartbeat").collect();
    assert_eq!(beats[0].body, json!({"connection_id": "c-1"}));
    let vital = json!({"connection_id": "c-1", "media_progress": 900, "config_version": 3});
    assert_eq!((beats[1].at, &beats[1].body), (Duration::from_secs(10), &vital));
}

#[tokio::test]
async fn after_the_end_was_announced_nothing_is_sent() {
    for (status, gone) in [(410, Gone::Over), (401, Gone::Refused(401)), (404, Gone::Refused(404))]
    {
        for speaking in ["started", "joined", "heartbeat", "stopping"] {
            let (clock, server, bot) = SimulatedServer::with_bot(move |seen| {
                if seen.what == speaking { Reaction::Answer(status, json!({})) } else { run() }
            });
            let mut commands = bot.commands();
            let farewell = clock.drive(async {
                let started = bot.started().await;
                assert_eq!(started.is_err(), speaking == "started");
                bot.joined();
                bot.leaving();
                assert_eq!(commands.next().await, Command::Gone(gone));
                bot.clock().pause(Duration::from_secs(100)).await;
                bot.exited(Ending::completed("x")).await
            });
            assert_eq!(farewell.await, Farewell::Gone(gone), "{status} to {speaking}");
            let order = server.order();
            assert!(!order.contains(&"exited".to_owned()), "{status} to {speaking}: {order:?}");
        }
    }
}

#[tokio::test]
async fn a_report_that_waits_learns_the_end_from_a_heartbeat() {
    let (clock, server, bot) = SimulatedServer::with_bot(|seen| match seen.what.as_str() {
        "joined" => Reaction::NoAnswer,
        "heartbeat" if seen.earlier == 1 => Reaction::Answer(410, json!({})),
        _ => run(),
    });
    let delivered = clock.drive(async {
        bot.started().await.unwrap();
        bot.joined().delivered().await
    });
    assert_eq!(delivered.await, Delivered::Gone(Gone::Over));
    assert!(server.times("joined").iter().all(|at| *at <= 30_000));
}

#[tokio::test]
async fn the_farewell_is_tried_for_a_minute() {
    let (clock, server, bot) = SimulatedServer::with_bot(|seen| match seen.what.as_str() {
        "exited" => Reaction::NoAnswer,
        _ => run(),
    });
    let farewell = clock.drive(async {
        bot.started().await.unwrap();
        bot.exited(Ending::completed("x")).await
    });
    assert_eq!(farewell.await, Farewell::Untold);
    let times = server.times("exited");
    assert!(times.len() > 5 && *times.last().unwrap() > 45_000, "{times:?}");
    assert!(*times.last().unwrap() <= 60_000, "{times:?}");
}

#[tokio::test]
async fn a_server_that_comes_back_in_time_hears_everything() {
    let (clock, server, bot) = SimulatedServer::with_bot(|seen| {
        let away = Duration::from_secs(5)..Duration::from_secs(50);
        if away.contains(&seen.at) { Reaction::NoAnswer } else { run() }
    });
    let farewell = clock.drive(async {
        bot.started().await.unwrap();
        bot.clock().pause(Duration::from_secs(10)).await;
        bot.joined();
        bot.leaving();
        bot.exited(Ending::failed(137, "killed")).await
    });
    assert_eq!(farewell.await, Farewell::Told);
    let order = server.order();
    assert_eq!(order[order.len() - 3..], ["joined", "stopping", "exited"]);
}

#[tokio::test]
async fn a_silent_bot_sends_no_heartbeats() {
    let (clock, server, bot) = SimulatedServer::with_bot(|_| run());
    let silent = clock.drive(async {
        bot.started().await.unwrap();
        bot.clock().pause(Duration::from_secs(1)).await;
        bot.fall_silent();
        bot.clock().pause(Duration::from_secs(300)).await;
    });
    silent.await;
    assert_eq!(server.times("heartbeat"), [0]);
}
