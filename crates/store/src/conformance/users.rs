//! Users and their tokens, with the log of what happened to each token.

use std::collections::BTreeSet;
use std::sync::Arc;

use roundsman_core::effects::replay;
use roundsman_core::users::{
    ApiToken, NewToken, NewUser, TokenHash, TokenId, TokenScope, User, UserId,
};

use super::fixture::{Fixture, at_once};
use super::wishes::{MINUTE, SECOND};

pub async fn a_user_is_made_once_per_address(fx: &Arc<Fixture>) {
    let (made, new) = find_or_create(fx, person("ada@example.org")).await;
    assert!(new);
    let expected = User {
        id: made.id,
        email: "ada@example.org".to_owned(),
        name: Some("Ada 😀 O'Hara".to_owned()),
        image_url: Some("https://example.org/a.png?x=1&y='2'".to_owned()),
        max_concurrent_bots: 7,
        created_at: fx.now(),
        data: "{}".to_owned(),
    };
    assert_eq!(made, expected);
    assert!(made.id.get() > UserId::SYSTEM.get());
    fx.advance(SECOND);
    let other = NewUser { name: None, max_concurrent_bots: 1, ..person("ada@example.org") };
    assert_eq!(find_or_create(fx, other).await, (made.clone(), false));
    assert_eq!(fx.store.user(made.id).await.expect("user"), Some(made.clone()));
    let by_email = fx.store.user_by_email("ada@example.org".to_owned()).await;
    assert_eq!(by_email.expect("user"), Some(made));
    let nobody = fx.store.user_by_email("bob@example.org".to_owned()).await;
    assert_eq!(nobody.expect("user"), None);
    for id in [UserId::SYSTEM, UserId::new(i64::from(i32::MAX)), UserId::new(i64::MAX)] {
        assert_eq!(fx.store.user(id).await.expect("user"), None);
    }
}

pub async fn many_at_once_make_one_user(fx: &Arc<Fixture>) {
    let callers = (0..20).map(|_| {
        let fx = Arc::clone(fx);
        async move { find_or_create(&fx, person("ada@example.org")).await }
    });
    let answers = at_once(callers).await;
    let ids: BTreeSet<_> = answers.iter().map(|(user, _)| user.id).collect();
    assert_eq!(ids.len(), 1);
    assert_eq!(answers.iter().filter(|(_, new)| *new).count(), 1);
}

pub async fn users_are_listed_in_order(fx: &Arc<Fixture>) {
    let mut users = Vec::new();
    for name in ["d", "a", "c", "b", "e"] {
        let email = format!("{name}@example.org");
        users.push(find_or_create(fx, person(&email)).await.0);
    }
    for (skip, rows_max, from, to) in [(0, 100, 0, 5), (0, 2, 0, 2), (2, 2, 2, 4), (4, 2, 4, 5)] {
        let page = fx.store.users(skip, rows_max).await.expect("users");
        assert_eq!(page, users[from..to]);
    }
    assert_eq!(fx.store.users(5, 10).await.expect("users"), vec![]);
}

pub async fn what_may_change_is_replaced(fx: &Arc<Fixture>) {
    let (user, _) = find_or_create(fx, person("ada@example.org")).await;
    let (other, _) = find_or_create(fx, person("bob@example.org")).await;
    let changed = User {
        name: None,
        image_url: None,
        max_concurrent_bots: 0,
        data: r#"{"theme":"dark","n":[1,2.5,null],"ü":"😀"}"#.to_owned(),
        ..user.clone()
    };
    let answer = fx.store.update_user(changed.clone()).await;
    assert_same_user(&answer.expect("update").expect("it is there"), &changed);
    let read = fx.store.user(user.id).await.expect("user");
    assert_same_user(&read.expect("it is there"), &changed);
    assert_eq!(fx.store.user(other.id).await.expect("user"), Some(other));
    let nobody = User { id: UserId::new(1_000_000), ..user };
    assert_eq!(fx.store.update_user(nobody).await.expect("update"), None);
}

pub async fn a_token_is_kept_as_it_was_made(fx: &Arc<Fixture>) {
    let (user, _) = find_or_create(fx, person("ada@example.org")).await;
    let wanted = [
        token(user.id, 1),
        NewToken {
            name: Some("ключ 'k'".to_owned()),
            scopes: TokenScope::ALL.to_vec(),
            expires_at: Some(fx.now() + MINUTE),
            ..token(user.id, 2)
        },
        NewToken { scopes: vec![TokenScope::Work], ..token(user.id, 255) },
    ];
    let mut made = Vec::new();
    for new in wanted {
        let stored = create(fx, new.clone()).await;
        let expected = ApiToken {
            id: stored.id,
            user_id: user.id,
            name: new.name,
            scopes: new.scopes,
            hash: new.hash,
            created_at: fx.now(),
            expires_at: new.expires_at,
            last_used_at: None,
            revoked_at: None,
        };
        assert_eq!(stored, expected);
        let read = fx.store.token(stored.id).await.expect("token");
        assert_eq!(read, Some(expected));
        assert_logged(fx, stored.id, &[(None, "active")]).await;
        made.push(stored);
        fx.advance(SECOND);
    }
    assert_eq!(fx.store.tokens_of(user.id).await.expect("tokens"), made);
    let (other, _) = find_or_create(fx, person("bob@example.org")).await;
    assert_eq!(fx.store.tokens_of(other.id).await.expect("tokens"), vec![]);
    let unknown = TokenId::new(1_000_000);
    assert_eq!(fx.store.token(unknown).await.expect("token"), None);
}

pub async fn nobody_gets_no_token(fx: &Arc<Fixture>) {
    for id in [UserId::SYSTEM, UserId::new(1_000_000), UserId::new(i64::MAX)] {
        let answer = fx.store.create_token(token(id, 1), fx.now()).await;
        assert_eq!(answer.expect("create_token"), None);
        assert_eq!(fx.store.tokens_of(id).await.expect("tokens"), vec![]);
    }
}

pub async fn a_token_is_revoked_once(fx: &Arc<Fixture>) {
    let (user, _) = find_or_create(fx, person("ada@example.org")).await;
    let revoked = create(fx, token(user.id, 1)).await;
    let live = create(fx, token(user.id, 2)).await;
    fx.advance(SECOND);
    let callers = (0..8).map(|_| {
        let (fx, id) = (Arc::clone(fx), revoked.id);
        async move {
            let answer = fx.store.revoke_token(id, "admin", fx.now()).await;
            answer.expect("revoke")
        }
    });
    let answers = at_once(callers).await;
    assert_eq!(answers.iter().filter(|revoked| **revoked).count(), 1);
    let read = fx.store.token(revoked.id).await.expect("token");
    assert_eq!(read.expect("it stays").revoked_at, Some(fx.now()));
    let steps = [(None, "active"), (Some("active"), "revoked")];
    assert_logged(fx, revoked.id, &steps).await;
    let read = fx.store.token(live.id).await.expect("token");
    assert_eq!(read, Some(live));
    let unknown = TokenId::new(1_000_000);
    let answer = fx.store.revoke_token(unknown, "admin", fx.now()).await;
    assert!(!answer.expect("revoke"));
}

pub async fn the_latest_use_of_a_token_is_noted(fx: &Arc<Fixture>) {
    let (user, _) = find_or_create(fx, person("ada@example.org")).await;
    let (one, two) =
        (create(fx, token(user.id, 1)).await.id, create(fx, token(user.id, 2)).await.id);
    let (start, unknown) = (fx.now(), TokenId::new(1_000_000));
    let used = async |id| {
        let read = fx.store.token(id).await.expect("token");
        read.expect("it is there").last_used_at
    };
    let touch = async |uses: Vec<(TokenId, roundsman_core::Timestamp)>| {
        fx.store.touch_tokens(uses).await.expect("touch");
    };
    touch(vec![]).await;
    touch(vec![(one, start + MINUTE), (unknown, start), (two, start)]).await;
    assert_eq!(used(one).await, Some(start + MINUTE));
    assert_eq!(used(two).await, Some(start));
    // An older time, from a node that was slow to tell, changes nothing.
    touch(vec![(one, start), (two, start + SECOND)]).await;
    assert_eq!(used(one).await, Some(start + MINUTE));
    assert_eq!(used(two).await, Some(start + SECOND));
}

async fn find_or_create(fx: &Fixture, user: NewUser) -> (User, bool) {
    let answer = fx.store.find_or_create_user(user, fx.now()).await;
    answer.expect("find_or_create_user")
}

async fn create(fx: &Fixture, token: NewToken) -> ApiToken {
    let answer = fx.store.create_token(token, fx.now()).await;
    answer.expect("create_token").expect("the user is there")
}

/// What the log says of a token, from its making on.
async fn assert_logged(fx: &Fixture, id: TokenId, steps: &[(Option<&str>, &str)]) {
    let log = fx.store.transitions("token".to_owned(), id.get()).await;
    let log = log.expect("transitions");
    let logged: Vec<_> =
        log.iter().map(|step| (step.from_state.as_deref(), step.to_state.as_str())).collect();
    assert_eq!(logged, steps);
    assert_eq!(replay(&log), Ok(steps.last().map(|step| step.1)));
    if steps.len() > 1 {
        assert_eq!(log[1].cause, "admin");
        assert_eq!(log[1].at, fx.now());
    }
}

/// The same user, with data compared as JSON: a database may order its members.
fn assert_same_user(found: &User, expected: &User) {
    let value = |text: &str| -> serde_json::Value {
        serde_json::from_str(text).expect("a user's data is JSON")
    };
    assert_eq!(value(&found.data), value(&expected.data));
    let found = User { data: expected.data.clone(), ..found.clone() };
    assert_eq!(&found, expected);
}

fn person(email: &str) -> NewUser {
    NewUser {
        email: email.to_owned(),
        name: Some("Ada 😀 O'Hara".to_owned()),
        image_url: Some("https://example.org/a.png?x=1&y='2'".to_owned()),
        max_concurrent_bots: 7,
    }
}

fn token(user_id: UserId, byte: u8) -> NewToken {
    NewToken {
        user_id,
        name: None,
        scopes: vec![],
        hash: TokenHash::from_stored([byte; 32]),
        expires_at: None,
    }
}
