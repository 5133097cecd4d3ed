//! The scenarios that the scripted bot can play, and their names.

use std::str::FromStr;

/// What a scripted bot does with its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scenario {
    /// As normal, and hears a conversation that it tells the server.
    Talk,
    /// Joins, attends until it is told to leave or the time is up, leaves well.
    Normal,
    /// As normal, but takes its time to join.
    SlowJoin,
    /// Is never let in.
    LobbyTimeout,
    /// Is turned away.
    Rejected,
    /// Dies in the meeting without a word.
    Crash,
    /// Stops doing anything in the meeting, heartbeats included, but does not end.
    Hang,
    /// Sends heartbeats for ever and hears nothing.
    Deaf,
    /// Says that it leaves, and dies without a word.
    DiesLeaving,
    /// Says that it was killed.
    Exit137,
    /// Ends well, but before it was in the meeting.
    EarlyExit,
}

/// There is no scenario of this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no scenario {0:?}; there are {names}", names = Scenario::names())]
pub struct UnknownScenario(String);

impl Scenario {
    const ALL: [(&str, Scenario); 11] = [
        ("talk", Scenario::Talk),
        ("normal", Scenario::Normal),
        ("slow_join", Scenario::SlowJoin),
        ("lobby_timeout", Scenario::LobbyTimeout),
        ("rejected", Scenario::Rejected),
        ("crash", Scenario::Crash),
        ("hang", Scenario::Hang),
        ("deaf", Scenario::Deaf),
        ("dies_leaving", Scenario::DiesLeaving),
        ("exit_137", Scenario::Exit137),
        ("early_exit", Scenario::EarlyExit),
    ];

    fn names() -> String {
        Scenario::ALL.map(|(name, _)| name).join(", ")
    }
}

impl FromStr for Scenario {
    type Err = UnknownScenario;

    fn from_str(text: &str) -> Result<Self, UnknownScenario> {
        let found = Scenario::ALL.into_iter().find(|(name, _)| *name == text);
        found.map(|(_, scenario)| scenario).ok_or_else(|| UnknownScenario(text.to_owned()))
    }
}
