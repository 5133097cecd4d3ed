//! What an operator should know about a Redis server.

use redis::{Client, InfoDict, RedisError};

/// How a server is set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedisFacts {
    pub version: String,
    /// `maxmemory-policy`.
    pub eviction: String,
    /// `master` or `slave`, as the server calls itself.
    pub role: String,
}

/// Asks a server about itself. The error says nothing of the address, which may hold a password.
pub async fn inspect_redis(url: &str) -> Result<RedisFacts, RedisError> {
    let mut connection = Client::open(url)?.get_multiplexed_async_connection().await?;
    let info: InfoDict = redis::cmd("INFO").query_async(&mut connection).await?;
    let fact = |name: &str| info.get::<String>(name).unwrap_or_default();
    Ok(RedisFacts {
        version: fact("redis_version"),
        eviction: fact("maxmemory_policy"),
        role: fact("role"),
    })
}
