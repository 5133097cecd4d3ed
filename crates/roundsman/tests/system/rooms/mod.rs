//! Documents as their users have them: a real server, its databases, and the clients that others have
//! published.

mod kill;
mod npm;
mod outages;
mod place;
mod published;
mod results;
mod wire;
