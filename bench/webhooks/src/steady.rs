//! A fixed rate, whatever the answers take: each request is due at its time, and its latency counts
//! from then, so that a server that falls behind cannot hide it.
//!
//! Each connection is a thread that waits for the kernel: the timers of an asynchronous runtime are
//! a millisecond coarse, which is more than what is measured here.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use roundsman_core::ports::Clock;
use roundsman_engine::clock::DatabaseClock;

use crate::load::Load;

/// Until then all threads are there.
const BEGIN_AFTER: Duration = Duration::from_millis(100);
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// No answer is longer.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

pub(crate) fn send(
    address: &str,
    connections: usize,
    requests: &[Vec<u8>],
    per_second: f64,
) -> anyhow::Result<Load> {
    let mut lines = Vec::new();
    for _ in 0..connections {
        lines.push(Line::open(address)?);
    }
    let clock = DatabaseClock::start();
    let (clock, started) = (&clock, clock.monotonic() + BEGIN_AFTER);
    let latencies = std::thread::scope(|scope| {
        let send_lane = move |(lane, mut line): (usize, Line)| {
            scope.spawn(move || {
                let mut latencies = Vec::new();
                for (place, request) in requests.iter().skip(lane).step_by(connections).enumerate()
                {
                    let due = started + due_after(lane + place * connections, per_second);
                    wait_until(clock, due);
                    line.call(request)?;
                    latencies.push(clock.monotonic().saturating_sub(due));
                }
                anyhow::Ok(latencies)
            })
        };
        let threads: Vec<_> = lines.into_iter().enumerate().map(send_lane).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, anyhow::Result<Vec<Duration>>>| {
            thread.join().ok().context("a client has panicked")?
        };
        threads.into_iter().map(join).collect::<anyhow::Result<Vec<_>>>()
    })?;
    Ok(Load::new(latencies, clock.monotonic().saturating_sub(started)))
}

#[expect(clippy::cast_precision_loss, reason = "a measurement has fewer than 2^52 requests")]
fn due_after(number: usize, per_second: f64) -> Duration {
    Duration::from_secs_f64(number as f64 / per_second)
}

fn wait_until(clock: &DatabaseClock, due: Duration) {
    loop {
        let early = due.saturating_sub(clock.monotonic());
        if early.is_zero() {
            return;
        }
        std::thread::park_timeout(early);
    }
}

/// A connection that is kept open.
struct Line {
    stream: TcpStream,
    answer: Vec<u8>,
}

impl Line {
    fn open(address: &str) -> anyhow::Result<Line> {
        let stream = TcpStream::connect(address).context("cannot connect")?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        Ok(Line { stream, answer: vec![0; ANSWER_BYTES_MAX] })
    }

    /// Sends a request and waits for the whole answer, which must be good.
    fn call(&mut self, request: &[u8]) -> anyhow::Result<()> {
        self.stream.write_all(request)?;
        let mut read = 0;
        let length = loop {
            read += self.read_more(read)?;
            if let Some(length) = answer_length(&self.answer[..read])? {
                break length;
            }
        };
        while read < length {
            read += self.read_more(read)?;
        }
        let answer = &self.answer[..length];
        ensure!(answer.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(answer));
        Ok(())
    }

    fn read_more(&mut self, read: usize) -> anyhow::Result<usize> {
        match self.stream.read(&mut self.answer[read..])? {
            0 => bail!("the server closed the connection, or its answer is too long"),
            more => Ok(more),
        }
    }
}

/// How long an answer is, head included, once its head is there.
fn answer_length(answer: &[u8]) -> anyhow::Result<Option<usize>> {
    const END: &[u8] = b"\r\n\r\n";
    let Some(head) = answer.windows(END.len()).position(|part| part == END) else {
        return Ok(None);
    };
    let lines = std::str::from_utf8(&answer[..head])?.lines();
    let mut lengths = lines.filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim())
    });
    let body: usize = lengths.next().context("the length of an answer is not known")?.parse()?;
    Ok(Some(head + END.len() + body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_an_answer_is_in_its_head() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        assert_eq!(answer_length(answer).unwrap(), Some(answer.len()));
        assert_eq!(answer_length(&answer[..30]).unwrap(), None);
        assert!(answer_length(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }
}
