//! Lines, on a clock that the tests move.

use roundsman_testkit::ManualClock;
use tokio::task::JoinSet;

use super::*;
use crate::daily::Rate;

/// Longer than any rest that the tests want.
const STEP: Duration = Duration::from_millis(1100);

struct Calls {
    clock: Arc<ManualClock>,
    limiter: Arc<Limiter>,
    gone: Arc<Mutex<Vec<(Urgency, usize)>>>,
    refused: Arc<Mutex<Vec<RoomsError>>>,
    tasks: JoinSet<()>,
}

impl Calls {
    fn new(limits: DailyLimits) -> Self {
        let clock = Arc::new(ManualClock::default());
        let limiter = Arc::new(Limiter::new(limits, clock.clone()));
        let (gone, refused) = (Arc::default(), Arc::default());
        Calls { clock, limiter, gone, refused, tasks: JoinSet::new() }
    }

    /// So many more calls, each of which stands in line before the next comes.
    async fn come(&mut self, urgency: Urgency, count: usize) {
        for number in 0..count {
            let (limiter, gone) = (self.limiter.clone(), self.gone.clone());
            let refused = self.refused.clone();
            self.tasks.spawn(async move {
                match limiter.enter(Class::Most, urgency).await {
                    Ok(_) => gone.lock().unwrap().push((urgency, number)),
                    Err(error) => refused.lock().unwrap().push(error),
                }
            });
            settle().await;
        }
    }

    async fn pass(&self, time: Duration) {
        self.clock.advance(time);
        self.limiter.recheck();
        settle().await;
    }

    fn take_gone(&self) -> Vec<(Urgency, usize)> {
        std::mem::take(&mut self.gone.lock().unwrap())
    }
}

/// Everybody does what they can do now.
async fn settle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

fn two_a_second() -> DailyLimits {
    let rate = Rate { requests: 2, within: Duration::from_secs(1) };
    DailyLimits { most: vec![rate], ..DailyLimits::default() }
}

fn numbers(gone: &[(Urgency, usize)], of: Urgency) -> Vec<usize> {
    gone.iter().filter(|(urgency, _)| *urgency == of).map(|(_, number)| *number).collect()
}

#[tokio::test]
async fn events_go_first_and_each_line_in_order() {
    let mut calls = Calls::new(two_a_second());
    calls.come(Urgency::Routine, 6).await;
    assert_eq!(calls.take_gone().len(), 2, "nobody waits while there is room");
    calls.come(Urgency::Event, 3).await;
    assert_eq!(calls.take_gone(), [], "there is none until time passes");
    assert_eq!(calls.limiter.waiting(), 7);
    let mut gone = Vec::new();
    for _ in 0..4 {
        calls.pass(STEP).await;
        let now = calls.take_gone();
        assert!(now.len() <= 2, "{now:?}");
        gone.extend(now);
    }
    let (event, routine) = (Urgency::Event, Urgency::Routine);
    let order = [
        (event, 0),
        (event, 1),
        (event, 2),
        (routine, 2),
        (routine, 3),
        (routine, 4),
        (routine, 5),
    ];
    assert_eq!(gone, order);
    assert_eq!(calls.limiter.waiting(), 0);
}

#[tokio::test]
async fn the_timers_calls_are_not_starved() {
    let mut calls = Calls::new(two_a_second());
    calls.come(Urgency::Event, 2).await;
    calls.come(Urgency::Routine, 1).await;
    calls.come(Urgency::Event, 40).await;
    calls.take_gone();
    let mut gone = Vec::new();
    while numbers(&gone, Urgency::Routine).is_empty() {
        calls.pass(STEP).await;
        gone.extend(calls.take_gone());
    }
    let events = numbers(&gone, Urgency::Event);
    assert!((1..=EVENTS_IN_ROW_MAX as usize + 1).contains(&events.len()), "{gone:?}");
    assert!(events.is_sorted());
}

#[tokio::test]
async fn a_line_has_an_end() {
    let mut calls = Calls::new(DailyLimits { queued_max: 3, ..two_a_second() });
    calls.come(Urgency::Routine, 7).await;
    let refusal = RoomsError::RateLimited { after: Some(Duration::from_secs(1)) };
    assert_eq!(*calls.refused.lock().unwrap(), [refusal.clone(), refusal]);
    calls.come(Urgency::Event, 1).await;
    assert_eq!(calls.refused.lock().unwrap().len(), 2, "the other line is another one");
}

#[tokio::test]
async fn nobody_waits_for_ever() {
    let limits = DailyLimits { wait_max: Duration::from_secs(2), ..two_a_second() };
    let mut calls = Calls::new(limits);
    calls.come(Urgency::Routine, 8).await;
    calls.pass(Duration::from_secs(2)).await;
    assert_eq!((calls.gone.lock().unwrap().len(), calls.refused.lock().unwrap().len()), (2, 6));
    assert_eq!(calls.limiter.waiting(), 0);
}

#[tokio::test]
async fn who_stops_waiting_gives_up_the_place() {
    let mut calls = Calls::new(two_a_second());
    calls.come(Urgency::Event, 2).await;
    let mut impatient = Calls { tasks: JoinSet::new(), ..Calls::new(two_a_second()) };
    impatient.limiter = calls.limiter.clone();
    impatient.come(Urgency::Event, 3).await;
    calls.come(Urgency::Routine, 1).await;
    assert_eq!(calls.limiter.waiting(), 4);
    impatient.tasks.shutdown().await;
    assert_eq!(calls.limiter.waiting(), 1);
    calls.take_gone();
    calls.pass(STEP).await;
    assert_eq!(calls.take_gone(), [(Urgency::Routine, 0)]);
}

#[tokio::test]
async fn a_refusal_silences_everybody() {
    let mut calls = Calls::new(DailyLimits::default());
    let ticket = calls.limiter.enter(Class::Most, Urgency::Event).await.unwrap();
    calls.limiter.refused(&ticket, None);
    calls.come(Urgency::Event, 2).await;
    assert_eq!(calls.take_gone(), []);
    calls.pass(STEP).await;
    assert_eq!(calls.take_gone().len(), 2);
    let ticket = calls.limiter.enter(Class::Most, Urgency::Event).await.unwrap();
    calls.come(Urgency::Routine, 1).await;
    calls.limiter.refused(&ticket, Some(Duration::from_secs(120)));
    let refusal = calls.limiter.enter(Class::Scarce, Urgency::Event).await.unwrap_err();
    let after = Some(Duration::from_secs(120));
    assert_eq!(refusal, RoomsError::RateLimited { after }, "longer than anybody waits");
}

/// Two thousand rooms at once: the limit is kept in every stretch of five seconds, and used.
#[tokio::test]
async fn a_crowd_keeps_the_limit_and_uses_it() {
    let limits = DailyLimits {
        wait_max: Duration::from_mins(10),
        queued_max: 5000,
        ..DailyLimits::default()
    };
    let clock = Arc::new(ManualClock::default());
    let limiter = Arc::new(Limiter::new(limits, clock.clone()));
    let sent = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = JoinSet::new();
    for _ in 0..2000 {
        let (limiter, sent) = (limiter.clone(), sent.clone());
        tasks.spawn(async move {
            let ticket = limiter.enter(Class::Most, Urgency::Routine).await.unwrap();
            sent.lock().unwrap().push(ticket.sent_at);
        });
    }
    while sent.lock().unwrap().len() < 2000 {
        tokio::task::yield_now().await;
        if limiter.state().budget.free_at(Class::Most) > clock.monotonic() {
            clock.advance(Duration::from_millis(50));
            limiter.recheck();
        }
    }
    let sent = sent.lock().unwrap();
    for (number, at) in sent.iter().enumerate() {
        let until = sent.partition_point(|other| *other < *at + Duration::from_secs(5));
        assert!(until - number <= 100, "{} from {at:?}", until - number);
    }
    assert!(*sent.last().unwrap() < Duration::from_secs(125), "{:?}", sent.last());
}
