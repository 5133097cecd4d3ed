//! What tests, the demo and the benchmarks need around Roundsman: manual time, seeded randomness,
//! real servers that can be killed, a network that can be broken, and the real program as a child.
//!
//! Invariants: nothing here replaces a part that can be run for real; every wait is bounded and
//! says what it waited for; every process that is started is killed when its owner is dropped.
//!
//! Folders are made under `TMPDIR`, which `scripts/test` sets to a folder of its run: what a killed
//! test leaves behind is stopped and removed with it.

mod child;
pub mod clock;
pub mod daily;
pub mod disk;
pub mod env;
pub mod eventually;
pub mod executors;
pub mod explore;
pub mod http;
pub mod meeting_page;
pub mod podman;
pub mod ports;
pub mod postgres;
pub mod process;
pub mod proxy;
pub mod random;
mod real_time;
pub mod redis;
pub mod s3;
pub mod site;
pub mod wall_clock;

pub use clock::{ManualClock, RealClock};
pub use daily::DailyStandIn;
pub use disk::{FailingWrites, SmallDisk};
pub use eventually::eventually;
pub use executors::GeneratorStandIn;
pub use http::JsonClient;
pub use meeting_page::MeetingPage;
pub use podman::PodmanService;
pub use postgres::{PostgresServer, TestDatabase};
pub use process::ServerProcess;
pub use proxy::FaultProxy;
pub use random::SeededRandom;
pub use redis::RedisServer;
pub use s3::{S3Account, S3Fault, S3StandIn};
pub use site::TestSite;
pub use wall_clock::WallClock;
