//! Rooms, who is in them, and tokens for them.

use roundsman_core::daily::read_room_presence;
use roundsman_core::ports::{Clock, NewRoom, NewRoomToken, RoomsError, VideoRooms};
use roundsman_testkit::JsonClient;
use roundsman_testkit::daily::{Guest, Lags, Route};

use super::{Pair, guest, room, secs};

#[tokio::test]
async fn a_room_is_seen_as_it_is() {
    let pair = Pair::new().await;
    assert_eq!(pair.look("room").await, Err(RoomsError::NotFound));
    pair.daily.add_room("room");
    assert_eq!(pair.look("room").await, Ok(vec![]));
    let began = pair.clock.now();
    let ada = pair.daily.join("room", guest("Ada"));
    pair.clock.advance(secs(5));
    let again = pair.daily.join("room", guest("Ada"));
    let nobody = pair.daily.join("room", Guest { user_id: None, user_name: Some(String::new()) });
    let people = pair.look("room").await.unwrap();
    let seen: Vec<_> = people
        .iter()
        .map(|p| (p.session_id.as_str(), p.user_id.as_deref(), p.user_name.as_deref(), p.joined_at))
        .collect();
    let later = began + secs(5);
    let expected = [
        (ada.as_str(), Some("user-Ada"), Some("Ada"), began),
        (again.as_str(), Some("user-Ada"), Some("Ada"), later),
        (nobody.as_str(), None, None, later),
    ];
    assert_eq!(seen, expected);
    pair.daily.leave("room", &ada);
    assert_eq!(pair.ids("room").await, [again, nobody]);
}

#[tokio::test]
async fn five_hundred_people_and_names_of_all_sorts_fit() {
    let pair = Pair::new().await;
    let names = ["🙂".repeat(2000), "אדה\u{202e}abc".to_owned(), "\"\\\u{0}\n".to_owned()];
    for number in 0..500 {
        let name = names[number % names.len()].clone();
        pair.daily.join("room", Guest { user_id: None, user_name: Some(name) });
    }
    assert_eq!(pair.look("room").await.unwrap().len(), 500);
}

#[tokio::test]
async fn all_rooms_are_seen_at_once_and_late() {
    let pair = Pair::new().await;
    pair.daily.set_lags(Lags { room: secs(0), domain: secs(15) });
    for number in 0..10_000 {
        pair.daily.join(&format!("room-{number}"), guest("Ada"));
    }
    pair.daily.add_room("empty");
    assert_eq!(pair.client.domain_presence().await.unwrap().rooms.len(), 0);
    assert_eq!(pair.ids("room-7").await.len(), 1);
    pair.clock.advance(secs(15));
    let look = pair.client.domain_presence().await.unwrap();
    assert_eq!(look.rooms.len(), 10_000);
    assert_eq!(look.rooms["room-7"].len(), 1);
    assert!(!look.differs("room-7", &pair.ids("room-7").await));
    assert_eq!(pair.daily.requests(Route::DomainPresence), 2);
}

#[tokio::test]
async fn rooms_are_made_and_deleted() {
    let pair = Pair::new().await;
    let wish = NewRoom {
        name: Some(room("a")),
        is_private: true,
        expires_at: Some(pair.clock.now() + secs(60)),
        recording: Some("raw-tracks".to_owned()),
    };
    let made = pair.client.create_room(wish.clone()).await.unwrap();
    assert_eq!((made.name.as_str(), made.url.as_str()), ("a", "https://stand-in.daily.co/a"));
    let client = JsonClient::new(pair.daily.api_url()).unwrap();
    let client = client.with_token(pair.daily.api_key()).unwrap();
    let read = client.get("/rooms/a").await.unwrap().body;
    assert_eq!(
        (&read["privacy"], &read["config"]["enable_recording"]),
        (&"private".into(), &"raw-tracks".into())
    );
    let refusal = pair.client.create_room(wish.clone()).await.unwrap_err();
    assert!(
        matches!(&refusal, RoomsError::Refused(why) if why.contains("already exists")),
        "{refusal}"
    );

    let nameless = NewRoom { name: None, is_private: false, expires_at: None, recording: None };
    let chosen = pair.client.create_room(nameless).await.unwrap();
    assert_eq!(pair.look(chosen.name.as_str()).await, Ok(vec![]));
    assert_eq!(pair.client.delete_room(&chosen.name).await, Ok(true));
    assert_eq!(pair.client.delete_room(&chosen.name).await, Ok(false));

    pair.daily.join("a", guest("Ada"));
    pair.clock.advance(secs(60));
    assert_eq!(pair.look("a").await, Err(RoomsError::NotFound), "its time is over");
    assert_eq!(pair.client.delete_room(&room("a")).await, Ok(false));
}

#[tokio::test]
async fn tokens_say_who_may_join_what() {
    let pair = Pair::new().await;
    let wish = NewRoomToken {
        room: room("a"),
        user_id: Some("u1".to_owned()),
        user_name: None,
        is_owner: true,
        expires_at: Some(pair.clock.now() + secs(60)),
    };
    let token = pair.client.meeting_token(wish).await.unwrap();
    let client = JsonClient::new(pair.daily.api_url()).unwrap();
    let client = client.with_token(pair.daily.api_key()).unwrap();
    let read = client.get(&format!("/meeting-tokens/{token}")).await.unwrap().body;
    let exp = (pair.clock.now() + secs(60)).as_micros() / 1_000_000;
    let expected =
        serde_json::json!({"room_name": "a", "user_id": "u1", "is_owner": true, "exp": exp});
    assert_eq!(read, expected);
}

/// The stand-in and the reader agree about what an answer is.
#[tokio::test]
async fn an_answer_that_was_asked_for_in_part_is_none() {
    let pair = Pair::new().await;
    pair.daily.join("room", guest("Ada"));
    pair.daily.join("room", guest("Bob"));
    let client = JsonClient::new(pair.daily.api_url()).unwrap();
    let client = client.with_token(pair.daily.api_key()).unwrap();
    let part = client.get("/rooms/room/presence?limit=1").await.unwrap();
    assert!(read_room_presence(part.text.as_bytes(), pair.clock.now()).is_err());
}
