//! A key that was made once is the same for everybody.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::fixture::{Fixture, at_once};
use super::wishes::SECOND;

pub async fn many_at_once_get_one_key(fx: &Arc<Fixture>) {
    for name in ["first", "second"] {
        let callers = (0..20u8).map(|number| {
            let fx = Arc::clone(fx);
            async move { find_or_create(&fx, name, &[number; 32]).await }
        });
        let keys: BTreeSet<Vec<u8>> = at_once(callers).await.into_iter().collect();
        assert_eq!(keys.len(), 1, "{name}");
        let key = keys.first().expect("a key");
        assert!((0..20u8).any(|number| *key == [number; 32]), "it is one of the candidates");
        fx.advance(SECOND);
        assert_eq!(find_or_create(fx, name, &[99; 32]).await, *key, "and stays");
    }
}

pub async fn keys_are_apart_and_come_back_whole(fx: &Arc<Fixture>) {
    let all_bytes: Vec<u8> = (0..=255).collect();
    for (name, key) in [("a", all_bytes), ("A", vec![0]), ("b", vec![7; 4096])] {
        assert_eq!(find_or_create(fx, name, &key).await, key);
        assert_eq!(find_or_create(fx, name, &[1, 2, 3]).await, key);
    }
}

async fn find_or_create(fx: &Fixture, name: &'static str, candidate: &[u8]) -> Vec<u8> {
    let key = fx.store.find_or_create_key(name, candidate.to_vec(), fx.now()).await;
    key.expect("find_or_create_key")
}
