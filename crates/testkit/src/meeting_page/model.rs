//! The meeting itself: who is there, who waits, and what is said.

use serde_json::{Value, json};

/// Older captions disappear from the page, as they do in real ones.
const CAPTIONS_MAX: usize = 20;

/// Whether guests have to wait for the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lobby {
    Open,
    Guarded,
}

/// Where a guest is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuestState {
    Waiting,
    Admitted,
    Rejected,
    Removed,
    /// The meeting was over before they left.
    Ended,
    /// They said goodbye.
    Left,
    /// Their page went away.
    Vanished,
}

#[derive(Debug)]
pub(super) struct Meeting {
    lobby: Lobby,
    guests: Vec<Guest>,
    pub(super) others: Vec<Person>,
    captions: Vec<Caption>,
}

#[derive(Debug)]
struct Guest {
    name: String,
    state: GuestState,
}

#[derive(Debug)]
pub(super) struct Person {
    name: String,
    is_speaking: bool,
}

#[derive(Debug)]
struct Caption {
    number: u32,
    speaker: String,
    text: String,
    is_final: bool,
}

impl Meeting {
    pub(super) fn new(lobby: Lobby) -> Self {
        Meeting { lobby, guests: Vec::new(), others: Vec::new(), captions: Vec::new() }
    }

    /// Somebody asks to join; returns their number.
    pub(super) fn ask(&mut self, name: &str) -> usize {
        let state = match self.lobby {
            Lobby::Open => GuestState::Admitted,
            Lobby::Guarded => GuestState::Waiting,
        };
        self.guests.push(Guest { name: name.to_owned(), state });
        self.guests.len() - 1
    }

    pub(super) fn guest(&self, name: &str) -> Option<GuestState> {
        let last = self.guests.iter().rev().find(|guest| guest.name == name);
        last.map(|guest| guest.state)
    }

    pub(super) fn decide(&mut self, name: &str, state: GuestState) {
        let found = self.guests.iter().rposition(|guest| guest.name == name);
        if let Some(number) = found {
            self.guest_is(number, state);
        }
    }

    /// Only a guest who is waiting or in the meeting can become anything else.
    pub(super) fn guest_is(&mut self, number: usize, state: GuestState) {
        if let Some(guest) = self.guests.get_mut(number)
            && matches!(guest.state, GuestState::Waiting | GuestState::Admitted)
        {
            guest.state = state;
        }
    }

    pub(super) fn end(&mut self) {
        for number in 0..self.guests.len() {
            self.guest_is(number, GuestState::Ended);
        }
    }

    pub(super) fn set_speaking(&mut self, name: &str, is_speaking: bool) {
        for person in self.others.iter_mut().filter(|person| person.name == name) {
            person.is_speaking = is_speaking;
        }
    }

    pub(super) fn caption(&mut self, number: u32, speaker: &str, text: &str, is_final: bool) {
        let (speaker, text) = (speaker.to_owned(), text.to_owned());
        let caption = Caption { number, speaker, text, is_final };
        match self.captions.iter_mut().find(|known| known.number == number) {
            Some(known) => *known = caption,
            None => self.captions.push(caption),
        }
        let surplus = self.captions.len().saturating_sub(CAPTIONS_MAX);
        self.captions.drain(..surplus);
    }

    /// What a guest's page shows. Only who is in the meeting sees the meeting.
    pub(super) fn seen_by(&self, number: usize) -> Value {
        let state = self.guests.get(number).map_or(GuestState::Rejected, |guest| guest.state);
        if state != GuestState::Admitted {
            return json!({"state": state.as_str(), "participants": [], "captions": []});
        }
        let others = self.others.iter().map(|person| {
            json!({"id": format!("p-{}", person.name), "name": person.name, "self": false,
                "speaking": person.is_speaking})
        });
        let admitted = self.guests.iter().enumerate();
        let admitted = admitted.filter(|(_, guest)| guest.state == GuestState::Admitted);
        let guests = admitted.map(|(other, guest)| {
            json!({"id": format!("g-{other}"), "name": guest.name, "self": other == number,
                "speaking": false})
        });
        let captions = self.captions.iter().map(|caption| {
            json!({"id": caption.number, "speaker": caption.speaker, "text": caption.text,
                "final": caption.is_final})
        });
        json!({
            "state": state.as_str(),
            "participants": guests.chain(others).collect::<Vec<_>>(),
            "captions": captions.collect::<Vec<_>>(),
        })
    }
}

impl Person {
    pub(super) fn new(name: &str) -> Self {
        Person { name: name.to_owned(), is_speaking: false }
    }
}

impl GuestState {
    /// The id of what the page shows.
    fn as_str(self) -> &'static str {
        match self {
            GuestState::Waiting => "lobby",
            GuestState::Admitted => "meeting",
            GuestState::Rejected => "rejected",
            GuestState::Removed => "removed",
            GuestState::Ended => "ended",
            GuestState::Left | GuestState::Vanished => "left",
        }
    }
}
