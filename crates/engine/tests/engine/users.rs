//! Users, tokens, and who is let in.

use std::sync::Arc;
use std::time::Duration;

use roundsman_core::ports::{Clock, EffectStore, UserStore};
use roundsman_core::users::{Authenticated, NewToken, TokenScope, TokenSecret, User, UserId};
use roundsman_engine::Error;
use roundsman_engine::users::{
    AdminToken, Authenticator, AuthenticatorOptions, Denied, IssuedToken, TokenWish, UserChange,
    UserWish, Users,
};

use crate::flaky::Fault;
use crate::support::{MICROSECOND, World, just_under, secs};

const CACHE_FOR: Duration = Duration::from_secs(60);

fn authenticator(world: &World) -> Authenticator {
    let admin = Some(AdminToken::new("operator"));
    let options = AuthenticatorOptions { admin, cache_for: CACHE_FOR };
    Authenticator::new(world.store.clone(), world.clock.clone(), options)
}

/// The operator's service, and the way in of the same node.
fn node(world: &World) -> (Users, Authenticator) {
    let door = authenticator(world);
    let users =
        Users::new(world.store.clone(), world.clock.clone(), world.random.clone(), door.clone());
    (users, door)
}

async fn ada(users: &Users) -> User {
    let wish = UserWish { email: "ada@example.org".to_owned(), ..UserWish::default() };
    users.find_or_create(wish).await.unwrap().0
}

async fn token(users: &Users, wish: TokenWish) -> IssuedToken {
    let user = ada(users).await;
    users.issue_token(user.id, wish).await.unwrap()
}

fn invalid<T: std::fmt::Debug>(answer: Result<T, Denied>) {
    let denied = answer.unwrap_err();
    assert!(matches!(denied, Denied::InvalidToken), "{denied:?}");
}

fn refused<T: std::fmt::Debug>(answer: Result<T, Error>) -> String {
    match answer.unwrap_err() {
        Error::Invalid(problems) => problems[0].field.clone(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn tokens_open_what_they_are_for() {
    let world = World::new();
    let (users, door) = node(&world);
    assert_eq!(door.authenticate("operator").await.unwrap(), Authenticated::Admin);
    assert_eq!(door.authenticate_admin("operator").unwrap(), Authenticated::Admin);
    let scopes = ["work", "jobs", "work"].map(ToOwned::to_owned).to_vec();
    let issued = token(&users, TokenWish { scopes, ..TokenWish::default() }).await;
    let who = door.authenticate(&issued.text).await.unwrap();
    let expected = Authenticated::User {
        user_id: issued.token.user_id,
        token_id: issued.token.id,
        scopes: vec![TokenScope::Work, TokenScope::Jobs],
    };
    assert_eq!(who, expected);
    invalid(door.authenticate_admin(&issued.text));

    let (head, secret) = issued.text.rsplit_once('_').unwrap();
    let wrong = format!("{head}_{}", "0".repeat(secret.len()));
    let unknown = format!("rmt_999_{secret}");
    for text in ["", "Operator", "operator ", "rmt_", &wrong, &unknown, &issued.text[1..]] {
        invalid(door.authenticate(text).await);
    }
    world.check().await;
}

#[tokio::test]
async fn without_an_operators_token_nobody_is_the_operator() {
    let world = World::new();
    let options = AuthenticatorOptions { admin: None, cache_for: CACHE_FOR };
    let door = Authenticator::new(world.store.clone(), world.clock.clone(), options);
    for text in ["", "operator"] {
        let denied = door.authenticate_admin(text).unwrap_err();
        assert!(matches!(denied, Denied::AdminNotConfigured), "{denied:?}");
        invalid(door.authenticate(text).await);
    }
}

#[tokio::test]
async fn a_revoked_token_stops_at_once_here_and_soon_elsewhere() {
    let world = World::new();
    let (users, door) = node(&world);
    let elsewhere = authenticator(&world);
    let issued = token(&users, TokenWish::default()).await;
    door.authenticate(&issued.text).await.unwrap();
    elsewhere.authenticate(&issued.text).await.unwrap();

    users.revoke_token(issued.token.id).await.unwrap();
    invalid(door.authenticate(&issued.text).await);
    world.clock.advance(just_under(CACHE_FOR));
    elsewhere.authenticate(&issued.text).await.unwrap();
    world.clock.advance(MICROSECOND);
    invalid(elsewhere.authenticate(&issued.text).await);

    let again = users.revoke_token(issued.token.id).await.unwrap_err();
    assert!(matches!(again, Error::NotFound { what: "token" }), "{again:?}");
    let log = world.store.transitions("token".to_owned(), issued.token.id.get()).await.unwrap();
    let steps: Vec<_> = log.iter().map(|step| step.to_state.as_str()).collect();
    assert_eq!(steps, ["active", "revoked"]);
    assert_eq!(log[1].cause, "admin");
    world.check().await;
}

/// Somebody is being let in while their token is revoked: the database was read before, the
/// answer comes after. It must not be remembered.
#[tokio::test]
async fn a_token_revoked_while_it_is_looked_up_is_not_remembered() {
    let world = World::new();
    let (users, door) = node(&world);
    let issued = token(&users, TokenWish::default()).await;
    let gate = world.store.hold("token");
    let (slow_door, text) = (door.clone(), issued.text.clone());
    let slow = world.tasks.spawn(async move { slow_door.authenticate(&text).await });
    gate.reached().await;
    world.store.hold_no_more();
    users.revoke_token(issued.token.id).await.unwrap();
    gate.open();
    // This one was asked before the revocation and may be answered either way.
    let _ = slow.await.unwrap();
    invalid(door.authenticate(&issued.text).await);
    world.check().await;
}

#[tokio::test]
async fn a_token_ends_at_its_time_whether_remembered_or_not() {
    let world = World::new();
    let (users, door) = node(&world);
    let issued =
        token(&users, TokenWish { expires_in: Some(secs(30)), ..TokenWish::default() }).await;
    assert_eq!(issued.token.expires_at, Some(world.clock.now() + secs(30)));
    world.clock.advance(just_under(secs(30)));
    door.authenticate(&issued.text).await.unwrap();
    world.clock.advance(MICROSECOND);
    invalid(door.authenticate(&issued.text).await);
    invalid(authenticator(&world).authenticate(&issued.text).await);
    world.check().await;
}

#[tokio::test]
async fn an_outage_is_not_a_wrong_token() {
    let world = World::new();
    let (users, door) = node(&world);
    let known = token(&users, TokenWish::default()).await;
    let unknown = token(&users, TokenWish::default()).await;
    door.authenticate(&known.text).await.unwrap();
    world.store.set("token", Fault::Down);
    door.authenticate(&known.text).await.unwrap();
    door.authenticate("operator").await.unwrap();
    let denied = door.authenticate(&unknown.text).await.unwrap_err();
    assert!(matches!(denied, Denied::Unavailable(_)), "{denied:?}");
    world.clock.advance(CACHE_FOR);
    let denied = door.authenticate(&known.text).await.unwrap_err();
    assert!(matches!(denied, Denied::Unavailable(_)), "{denied:?}");
    invalid(door.authenticate("no token at all").await);
    world.store.mend();
    door.authenticate(&known.text).await.unwrap();
    world.check().await;
}

#[tokio::test]
async fn the_database_is_asked_once_and_strangers_are_not_remembered() {
    let world = World::new();
    let (users, door) = node(&world);
    let issued = token(&users, TokenWish::default()).await;
    for _ in 0..100 {
        door.authenticate(&issued.text).await.unwrap();
    }
    assert_eq!(world.store.calls("token"), 1);
    let secret = issued.text.rsplit_once('_').unwrap().1;
    for number in 1000..1100 {
        invalid(door.authenticate(&format!("rmt_{number}_{secret}")).await);
    }
    door.authenticate(&issued.text).await.unwrap();
    assert_eq!(world.store.calls("token"), 101, "who is unknown does not crowd out who is known");
    world.check().await;
}

#[tokio::test]
async fn the_number_of_remembered_tokens_is_bounded() {
    const REMEMBERED_MAX: usize = 10_000;
    let world = World::new();
    let (users, door) = node(&world);
    let user_id = ada(&users).await.id;
    let secret = TokenSecret::draw(world.random.as_ref());
    let new =
        NewToken { user_id, name: None, scopes: vec![], hash: secret.hash(), expires_at: None };
    let mut texts = Vec::new();
    for _ in 0..=REMEMBERED_MAX {
        let made = world.store.create_token(new.clone(), world.clock.now()).await.unwrap();
        texts.push(secret.reveal(made.unwrap().id));
    }
    let (beyond, within) = texts.split_last().unwrap();
    for text in within.iter().chain(within) {
        door.authenticate(text).await.unwrap();
    }
    assert_eq!(world.store.calls("token"), REMEMBERED_MAX, "so many are remembered");
    door.authenticate(beyond).await.unwrap();
    let asked = world.store.calls("token");
    door.authenticate(&within[0]).await.unwrap();
    assert_eq!(world.store.calls("token"), asked + 1, "one more, and others are forgotten");
    world.check().await;
}

#[tokio::test]
async fn the_last_use_is_written_down_now_and_then() {
    let world = World::new();
    let (users, door) = node(&world);
    let issued = token(&users, TokenWish::default()).await;
    let last_used =
        async || world.store.token(issued.token.id).await.unwrap().unwrap().last_used_at;
    world.clock.advance(secs(5));
    let used_at = world.clock.now();
    door.authenticate(&issued.text).await.unwrap();
    assert_eq!(last_used().await, None);
    door.flush_usage().await.unwrap();
    assert_eq!(last_used().await, Some(used_at));
    door.flush_usage().await.unwrap();
    assert_eq!(world.store.calls("touch_tokens"), 1, "without use nothing is written");

    // A use that is denied is none.
    world.clock.advance(secs(5));
    users.revoke_token(issued.token.id).await.unwrap();
    invalid(door.authenticate(&issued.text).await);
    door.flush_usage().await.unwrap();
    assert_eq!(last_used().await, Some(used_at));
    world.check().await;
}

#[tokio::test]
async fn an_address_names_one_user_however_it_is_written() {
    let world = World::new();
    let (users, _) = node(&world);
    let find = |email: &str| {
        let wish = UserWish { email: email.to_owned(), ..UserWish::default() };
        users.find_or_create(wish)
    };
    let (user, made) = find(" Ada@Example.ORG ").await.unwrap();
    assert_eq!((user.email.as_str(), user.max_concurrent_bots, made), ("ada@example.org", 1, true));
    assert_eq!(find("ada@example.org").await.unwrap(), (user.clone(), false));
    assert_eq!(users.user_by_email("ADA@example.org").await.unwrap(), user);
    for bad in ["", "ada", "@", "a b@c"] {
        assert_eq!(refused(find(bad).await), "email");
        assert_eq!(refused(users.user_by_email(bad).await), "email");
    }
    let nobody = users.user_by_email("bob@example.org").await.unwrap_err();
    assert!(matches!(nobody, Error::NotFound { what: "user" }), "{nobody:?}");
    world.check().await;
}

#[tokio::test]
async fn what_is_known_of_a_user_is_bounded() {
    let world = World::new();
    let (users, _) = node(&world);
    let id = ada(&users).await.id;
    let cases = [
        (UserChange { name: Some("n".repeat(101)), ..UserChange::default() }, "name"),
        (UserChange { name: Some("\0".to_owned()), ..UserChange::default() }, "name"),
        (UserChange { image_url: Some("u".repeat(2049)), ..UserChange::default() }, "image_url"),
        (
            UserChange { max_concurrent_bots: Some(-1), ..UserChange::default() },
            "max_concurrent_bots",
        ),
    ];
    for (change, field) in cases {
        assert_eq!(refused(users.update(id, change).await), field);
    }
    let change = UserChange {
        name: Some("n".repeat(100)),
        max_concurrent_bots: Some(0),
        ..UserChange::default()
    };
    let user = users.update(id, change).await.unwrap();
    assert_eq!((user.max_concurrent_bots, user.image_url.clone()), (0, None));
    assert_eq!(users.user(id).await.unwrap(), user);
    let nobody = users.update(UserId::new(99), UserChange::default()).await.unwrap_err();
    assert!(matches!(nobody, Error::NotFound { what: "user" }), "{nobody:?}");
    world.check().await;
}

#[tokio::test]
async fn tokens_are_made_for_users_that_exist_with_scopes_that_exist() {
    let world = World::new();
    let (users, _) = node(&world);
    let user = ada(&users).await;
    let scopes = vec!["jobs".to_owned(), "everything".to_owned()];
    let answer = users.issue_token(user.id, TokenWish { scopes, ..TokenWish::default() }).await;
    assert_eq!(refused(answer), "scopes");
    let name = Some("n".repeat(201));
    let answer = users.issue_token(user.id, TokenWish { name, ..TokenWish::default() }).await;
    assert_eq!(refused(answer), "name");
    let nobody = users.issue_token(UserId::new(99), TokenWish::default()).await.unwrap_err();
    assert!(matches!(nobody, Error::NotFound { what: "user" }), "{nobody:?}");
    assert_eq!(users.tokens_of(user.id).await.unwrap(), []);

    let (one, two) =
        (token(&users, TokenWish::default()).await, token(&users, TokenWish::default()).await);
    assert_ne!(one.text, two.text);
    let stored = users.tokens_of(user.id).await.unwrap();
    assert_eq!(stored, [one.token, two.token]);
    let secret = one.text.rsplit_once('_').unwrap().1;
    assert!(!format!("{stored:?}").contains(secret), "the secret is nowhere but in the answer");
    assert!(Arc::strong_count(&world.store) > 1);
    world.check().await;
}

#[tokio::test]
async fn keys_of_an_existing_vexa_database_open_what_they_did_there() {
    let world = World::new();
    let (users, door) = node(&world);
    let user = ada(&users).await;
    world.store.set_vexa_key("vxa_user_key", Some(user.id));
    let opened = door.authenticate("vxa_user_key").await.unwrap();
    assert!(TokenScope::ALL.iter().all(|scope| opened.may(*scope)));
    let Authenticated::User { user_id, .. } = opened else { panic!("{opened:?}") };
    assert_eq!(user_id, user.id);
    invalid(door.authenticate("vxa_other_key").await);

    // Both answers are remembered for as long as tokens are.
    world.store.set_vexa_key("vxa_user_key", None);
    world.store.set_vexa_key("vxa_other_key", Some(user.id));
    world.clock.advance(just_under(CACHE_FOR));
    door.authenticate("vxa_user_key").await.unwrap();
    invalid(door.authenticate("vxa_other_key").await);
    assert_eq!(world.store.calls("user_of_vexa_key"), 2);
    world.clock.advance(MICROSECOND);
    invalid(door.authenticate("vxa_user_key").await);
    door.authenticate("vxa_other_key").await.unwrap();

    // What cannot be a key, or is one of ours that is wrong, is not looked up.
    let asked = world.store.calls("user_of_vexa_key");
    for token in ["", "rmt_1_00", "rmt_nonsense", "a\0b", "a\nb", &"x".repeat(256)] {
        invalid(door.authenticate(token).await);
    }
    assert_eq!(world.store.calls("user_of_vexa_key"), asked);

    // An outage is no verdict, and nothing of it is remembered.
    world.store.set("user_of_vexa_key", Fault::Down);
    let denied = door.authenticate("vxa_third_key").await.unwrap_err();
    assert!(matches!(denied, Denied::Unavailable(_)), "{denied:?}");
    world.store.mend();
    world.store.set_vexa_key("vxa_third_key", Some(user.id));
    door.authenticate("vxa_third_key").await.unwrap();
    door.flush_usage().await.unwrap();
    world.check().await;
}

#[tokio::test]
async fn guessing_keys_does_not_push_out_those_that_are_known() {
    let world = World::new();
    let (users, door) = node(&world);
    let user = ada(&users).await;
    world.store.set_vexa_key("vxa_user_key", Some(user.id));
    door.authenticate("vxa_user_key").await.unwrap();
    for guess in 0..20_001 {
        invalid(door.authenticate(&format!("guess {guess}")).await);
    }
    let asked = world.store.calls("user_of_vexa_key");
    door.authenticate("vxa_user_key").await.unwrap();
    assert_eq!(world.store.calls("user_of_vexa_key"), asked);
}
