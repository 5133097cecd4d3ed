//! The testkit's servers, proxy and processes, for real: what other tests trust is tested here.
#![cfg(test)]

mod postgres;
mod process;
mod proxy;
mod redis;
