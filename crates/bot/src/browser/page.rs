//! One meeting page in the browser: what it shows, and what the bot does in it.

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::attendance::Stage;
use super::cdp::{Cdp, CdpError, CdpEvent};
use super::profile::PageProfile;

const WATCHER: &str = include_str!("watcher.js");
const BINDING: &str = "roundsmanEvent";
const MESSAGE_BYTES_MAX: usize = 1024 * 1024;

/// Something that the watcher in the page saw.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum PageMessage {
    Stage {
        stage: Stage,
    },
    Participants {
        participants: Vec<Participant>,
    },
    Caption(Caption),
    /// The page lives: comes every second.
    Pulse,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Participant {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) is_self: bool,
    pub(super) is_speaking: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Caption {
    pub(super) id: String,
    pub(super) speaker: String,
    pub(super) text: String,
    pub(super) is_completed: bool,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum PageError {
    #[error(transparent)]
    Cdp(#[from] CdpError),
    #[error("the meeting page cannot be loaded: {0}")]
    NotLoaded(String),
    #[error("a script failed in the meeting page: {0}")]
    Script(String),
    #[error("the meeting page crashed or was closed")]
    Crashed,
}

/// An open page. It is watched from before its first script on.
pub(super) struct Page {
    cdp: Cdp,
    events: mpsc::Receiver<CdpEvent>,
    session: String,
}

impl Page {
    pub(super) async fn open(
        endpoint: &str,
        url: &str,
        profile: &PageProfile,
    ) -> Result<Self, PageError> {
        let (cdp, events) = Cdp::connect(endpoint).await?;
        let target = cdp.call(None, "Target.createTarget", json!({"url": "about:blank"})).await?;
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = cdp.call(None, "Target.attachToTarget", attach).await?;
        let session = attached["sessionId"].as_str().unwrap_or_default().to_owned();
        let page = Page { cdp, events, session };
        page.prepare(profile).await?;
        let navigated = page.call("Page.navigate", json!({"url": url})).await?;
        match navigated["errorText"].as_str() {
            Some(error) => Err(PageError::NotLoaded(error.to_owned())),
            None => Ok(page),
        }
    }

    /// What the page shows next. May be dropped without losing anything.
    pub(super) async fn next(&mut self) -> Result<PageMessage, PageError> {
        loop {
            let event = self.events.recv().await.ok_or(PageError::Crashed)?;
            if event.session.as_ref().is_some_and(|session| *session != self.session) {
                continue;
            }
            match event.method.as_str() {
                "Runtime.bindingCalled" => {
                    if let Some(message) = message_of(&event.params) {
                        return Ok(message);
                    }
                }
                "Inspector.targetCrashed" => return Err(PageError::Crashed),
                "Target.detachedFromTarget" if event.params["sessionId"] == *self.session => {
                    return Err(PageError::Crashed);
                }
                // A question to a person who is not there would hold up the page for ever.
                "Page.javascriptDialogOpening" => {
                    self.call("Page.handleJavaScriptDialog", json!({"accept": true})).await?;
                }
                _ => {}
            }
        }
    }

    /// Types the name, where there is a place for it, and clicks to join.
    pub(super) async fn join(&self, name: &str) -> Result<bool, PageError> {
        if self.evaluate("roundsmanWatcher.focusName()").await? == json!(true) {
            self.call("Input.insertText", json!({"text": name})).await?;
        }
        Ok(self.evaluate("roundsmanWatcher.click('joinButton')").await? == json!(true))
    }

    pub(super) async fn leave(&self) -> Result<bool, PageError> {
        Ok(self.evaluate("roundsmanWatcher.click('leaveButton')").await? == json!(true))
    }

    async fn prepare(&self, profile: &PageProfile) -> Result<(), PageError> {
        let profile = serde_json::to_string(profile).unwrap_or_default();
        let source = format!("({})({profile});", WATCHER.trim_end());
        for (method, params) in [
            ("Page.enable", json!({})),
            ("Runtime.enable", json!({})),
            ("Inspector.enable", json!({})),
            // The bot's page is never in the background, whatever Chromium thinks of it.
            ("Emulation.setFocusEmulationEnabled", json!({"enabled": true})),
            ("Runtime.addBinding", json!({"name": BINDING})),
            ("Page.addScriptToEvaluateOnNewDocument", json!({"source": source})),
        ] {
            self.call(method, params).await?;
        }
        Ok(())
    }

    async fn evaluate(&self, expression: &str) -> Result<Value, PageError> {
        let params = json!({"expression": expression, "returnByValue": true});
        let mut answer = self.call("Runtime.evaluate", params).await?;
        match answer["exceptionDetails"]["exception"]["description"].as_str() {
            Some(error) => Err(PageError::Script(error.to_owned())),
            None => Ok(answer["result"]["value"].take()),
        }
    }

    async fn call(&self, method: &'static str, params: Value) -> Result<Value, CdpError> {
        self.cdp.call(Some(&self.session), method, params).await
    }
}

/// What is not a message of the watcher comes from the page itself and is ignored.
fn message_of(params: &Value) -> Option<PageMessage> {
    let payload = params["payload"].as_str().filter(|_| params["name"] == BINDING)?;
    (payload.len() <= MESSAGE_BYTES_MAX).then(|| serde_json::from_str(payload).ok())?
}
