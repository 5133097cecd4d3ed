//! A fixed rate, whatever the answers take: each request is due at its time, and its latency counts
//! from then, so that a server that falls behind cannot hide it.
//!
//! The clients are one thread that never sleeps: it looks at the clock and at its connections, by turns.
//! So nothing waits for a timer or for a thread to be woken, and the thread has a processor of its own
//! while it measures. A request goes to the connection that has been free for the longest time; if
//! none is, it waits for one.
//!
//! If that thread is itself kept from its processor, the times at which requests are due wait with it: a
//! crowd of clients would not have stopped, nor would it have sent everything at once afterwards, and
//! what such a burst takes says nothing about the server. How much of the time that was is told.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use bench_support::apart::Apart;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use roundsman_core::ports::Clock;
use roundsman_engine::clock::DatabaseClock;

use crate::gaps::Gaps;
use crate::load::Load;

const BEGIN_AFTER: Duration = Duration::from_millis(100);
/// Nothing takes longer than this, whatever the rate.
const LATE_MAX: Duration = Duration::from_secs(60);
/// No answer is longer.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// What came of it.
pub(crate) struct Steady {
    pub(crate) load: Load,
    /// How much of the time the client itself had no processor, and the longest stretch of it.
    pub(crate) away_percent: f64,
    pub(crate) away_longest: Duration,
}

/// `others` are processes that belong to the server and not to this process.
pub(crate) fn send(
    address: &str,
    connections: usize,
    requests: &[Vec<u8>],
    per_second: f64,
    others: &[u32],
) -> anyhow::Result<Steady> {
    let _apart = Apart::stand(others)?;
    Client::open(address, connections)?.send(requests, per_second)
}

struct Client {
    poll: Poll,
    lines: Vec<Line>,
    /// Those without a request, the one that is so for the longest time first.
    free: VecDeque<usize>,
    clock: DatabaseClock,
    gaps: Gaps,
    latencies: Vec<Duration>,
}

impl Client {
    fn open(address: &str, connections: usize) -> anyhow::Result<Client> {
        let poll = Poll::new()?;
        let mut lines = Vec::new();
        for number in 0..connections {
            let stream = std::net::TcpStream::connect(address).context("cannot connect")?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            let mut stream = TcpStream::from_std(stream);
            poll.registry().register(&mut stream, Token(number), Interest::READABLE)?;
            lines.push(Line { stream, answer: vec![0; ANSWER_BYTES_MAX], read: 0, due: None });
        }
        let (free, clock) = ((0..connections).collect(), DatabaseClock::start());
        let (gaps, latencies) = (Gaps::default(), Vec::new());
        Ok(Client { poll, lines, free, clock, gaps, latencies })
    }

    fn send(mut self, requests: &[Vec<u8>], per_second: f64) -> anyhow::Result<Steady> {
        // Memory that is asked for meanwhile would be a stretch of its own.
        self.latencies.reserve(requests.len());
        let mut events = Events::with_capacity(self.lines.len());
        let began = self.clock.monotonic() + BEGIN_AFTER;
        let mut started = began;
        let late = started + due_after(requests.len(), per_second) + LATE_MAX;
        let mut requests = requests.iter().zip(0..);
        let mut next = requests.next();
        while next.is_some() || self.free.len() < self.lines.len() {
            let now = self.clock.monotonic();
            started += self.gaps.turn(now);
            ensure!(now < late, "answers do not come");
            if let Some((request, number)) = next
                && now >= started + due_after(number, per_second)
                && let Some(free) = self.free.pop_front()
            {
                self.lines[free].begin(request, started + due_after(number, per_second))?;
                next = requests.next();
            }
            self.poll.poll(&mut events, Some(Duration::ZERO))?;
            for event in &events {
                self.hear(event.token().0)?;
            }
        }
        let took = self.clock.monotonic().saturating_sub(began);
        Ok(Steady {
            load: Load::new(self.latencies, took),
            away_percent: 100.0 * self.gaps.all().as_secs_f64() / took.as_secs_f64(),
            away_longest: self.gaps.longest(),
        })
    }

    fn hear(&mut self, number: usize) -> anyhow::Result<()> {
        let line = &mut self.lines[number];
        if line.is_answered()? {
            let due = line.due.take().context("an answer that nobody has asked for")?;
            self.latencies.push(self.clock.monotonic().saturating_sub(due));
            self.free.push_back(number);
        }
        Ok(())
    }
}

#[expect(clippy::cast_precision_loss, reason = "a measurement has fewer than 2^52 requests")]
fn due_after(number: usize, per_second: f64) -> Duration {
    Duration::from_secs_f64(number as f64 / per_second)
}

/// A connection that is kept open.
struct Line {
    stream: TcpStream,
    answer: Vec<u8>,
    /// Bytes of the answer that are there.
    read: usize,
    /// When the request was due that is not answered yet.
    due: Option<Duration>,
}

impl Line {
    /// A request is far smaller than what the kernel takes from a connection that is idle.
    fn begin(&mut self, request: &[u8], due: Duration) -> anyhow::Result<()> {
        let written = self.stream.write(request).context("cannot send")?;
        ensure!(written == request.len(), "a request was not taken in one piece");
        self.due = Some(due);
        Ok(())
    }

    /// Reads what there is. Whether that is the whole answer, which must be good.
    fn is_answered(&mut self) -> anyhow::Result<bool> {
        loop {
            match self.stream.read(&mut self.answer[self.read..]) {
                Ok(0) => bail!("the server closed the connection, or its answer is too long"),
                Ok(more) => self.read += more,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error).context("cannot read"),
            }
        }
        let Some(length) = answer_length(&self.answer[..self.read])? else { return Ok(false) };
        if self.read < length {
            return Ok(false);
        }
        let answer = &self.answer[..self.read];
        ensure!(self.read == length, "more than an answer: {}", String::from_utf8_lossy(answer));
        ensure!(answer.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(answer));
        self.read = 0;
        Ok(true)
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
