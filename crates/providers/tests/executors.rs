//! Every preset against a stand-in with its service's shapes and traps; one file per service.

mod configuration;
mod fal;
mod gemini_image;
mod kling;
mod kling3;
mod openai_video;
mod own;
mod replicate;
mod runway;
mod veo;
mod veo_vertex;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use roundsman_core::ports::{
    Executor, ExternalTask, Submission, Submitted, TaskFailure, TaskRequest,
};
use roundsman_providers::egress::{EgressGuard, EgressOptions};
use roundsman_providers::executors::conformance::{ExecutorHost, Genuine, Trouble};
use roundsman_providers::executors::{ExecutorOptions, ExecutorParts, HttpExecutor, Secrets};
use roundsman_testkit::ManualClock;
use roundsman_testkit::executors::{Ending, Fault, GeneratorStandIn, Provider, Wrong};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A transparent pixel.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// An executor of a preset, the stand-in that it asks, and the clock of both.
struct Pair {
    clock: Arc<ManualClock>,
    service: GeneratorStandIn,
    executor: Arc<HttpExecutor>,
    setup: Setup,
    folder: TempDir,
}

/// What is the same for every executor of one preset.
#[derive(Clone)]
struct Setup {
    preset: &'static str,
    provider: Provider,
    task_type: &'static str,
    params: Value,
    /// More of the description, as TOML; `{url}` is the stand-in's address.
    over: &'static str,
}

impl Pair {
    async fn new(setup: Setup) -> Self {
        let clock = Arc::new(ManualClock::default());
        let service = GeneratorStandIn::start(setup.provider, clock.clone()).await.unwrap();
        let executor = make(&setup, &service, &service.url(), &clock, "", true);
        Pair { clock, service, executor, setup, folder: tempfile::tempdir().unwrap() }
    }

    /// Another one for the same stand-in.
    fn with(&self, over: &str) -> Arc<HttpExecutor> {
        make(&self.setup, &self.service, &self.service.url(), &self.clock, over, true)
    }

    fn submission(&self, key: &str, params: Value) -> Submission {
        Submission {
            request: self.asking(key, params),
            callback_url: Some("https://roundsman.example/webhooks/x".to_owned()),
            time_max: Duration::from_secs(30),
        }
    }

    fn asking(&self, key: &str, params: Value) -> TaskRequest {
        let task_type = self.setup.task_type.to_owned();
        TaskRequest { task_type, params, key: key.to_owned() }
    }

    async fn submit(&self, key: &str) -> Submitted {
        self.executor.submit(&self.submission(key, self.setup.params.clone())).await
    }

    /// A task that was taken.
    async fn task(&self, key: &str) -> ExternalTask {
        match self.submit(key).await {
            Submitted::Accepted { external_task_id } => {
                let request = self.asking(key, self.setup.params.clone());
                ExternalTask { external_task_id, request }
            }
            other => panic!("{other:?}"),
        }
    }

    /// What a refusal by the service in its own words comes to: code, and whether to try again.
    async fn refusal(&self, wrong: Wrong) -> (&'static str, bool) {
        self.service.spoil_submit(Fault::Wrong(wrong));
        match self.submit("refused").await {
            Submitted::Refused(refusal) => (refusal.code.as_str(), refusal.is_retryable),
            other => panic!("{other:?}"),
        }
    }

    /// How a task that ends so is read.
    async fn ended(&self, ending: Ending) -> roundsman_core::ports::Polled {
        let task = self.task(&format!("ended-{}", self.service.ids().len())).await;
        self.service.end(&task.external_task_id, ending);
        self.executor.poll(&task).await
    }

    /// The code and message of a task that ends so.
    async fn failure(&self, ending: Ending) -> (&'static str, String) {
        match self.ended(ending).await {
            roundsman_core::ports::Polled::Failed(TaskFailure { code, message }) => {
                (code.as_str(), message)
            }
            other => panic!("{other:?}"),
        }
    }

    /// The requests that came, for a snapshot.
    fn sent(&self) -> Value {
        let address = self.service.url();
        let shown = |seen: roundsman_testkit::executors::Seen| {
            let mut headers = serde_json::Map::new();
            for (name, value) in seen.headers {
                // Tokens of our making are checked by the stand-in.
                let is_token = value.starts_with("Bearer ey");
                headers.insert(name, json!(if is_token { "Bearer <jwt>" } else { value.as_str() }));
            }
            let request = format!("{} {}", seen.method, seen.target);
            json!({"request": request, "headers": headers, "body": seen.body})
        };
        let all: Value = self.service.seen().into_iter().map(shown).collect();
        serde_json::from_str(&all.to_string().replace(&address, "<service>")).unwrap()
    }
}

fn failed(code: &str, message: &str) -> Ending {
    Ending::Failed { code: code.to_owned(), message: message.to_owned() }
}

fn make(
    setup: &Setup,
    service: &GeneratorStandIn,
    url: &str,
    clock: &Arc<ManualClock>,
    over: &str,
    is_known: bool,
) -> Arc<HttpExecutor> {
    let account = service.account();
    let secret = |text: &str| if is_known { text.to_owned() } else { format!("no-{text}") };
    let secrets = Secrets::default()
        .with("api_key", secret(&account.api_key).into())
        .with("access_key", secret(&account.access_key).into())
        .with("secret_key", secret(&account.secret_key).into())
        .with("service_account", service.service_account().into())
        .with("webhook_secret", account.webhook_secret.clone().into());
    let url_of =
        if setup.provider == Provider::OpenAiVideo { format!("{url}/v1") } else { url.to_owned() };
    let text = format!("preset = '{}'\nbase_url = '{url_of}'\n{}", setup.preset, setup.over);
    let text = text.replace("{url}", &service.url());
    let mut description: toml::Table = text.parse().unwrap();
    if !over.is_empty() {
        put_over(&mut description, over.parse().unwrap());
    }
    let options = ExecutorOptions { name: setup.preset.to_owned(), description, secrets };
    Arc::new(HttpExecutor::new(options, &parts(clock)).unwrap())
}

fn put_over(under: &mut toml::Table, over: toml::Table) {
    for (name, value) in over {
        match (under.get_mut(&name), value) {
            (Some(toml::Value::Table(under)), toml::Value::Table(over)) => put_over(under, over),
            (_, value) => drop(under.insert(name, value)),
        }
    }
}

fn parts(clock: &Arc<ManualClock>) -> ExecutorParts {
    // The service's own address needs no leave; anything else on loopback does.
    ExecutorParts { guard: EgressGuard::new(EgressOptions::default()), clock: clock.clone() }
}

#[async_trait]
impl ExecutorHost for Pair {
    fn executor(&self) -> Arc<dyn Executor> {
        self.executor.clone()
    }

    fn of_a_stranger(&self) -> Arc<dyn Executor> {
        let over = if self.setup.provider == Provider::VeoVertex {
            // Whoever has no account gets no token at all; this one has one that nobody knows.
            "auth = { kind = 'bearer' }"
        } else {
            ""
        };
        make(&self.setup, &self.service, &self.service.url(), &self.clock, over, false)
    }

    fn of_nobody(&self) -> Arc<dyn Executor> {
        // The discard port: nobody listens there.
        make(&self.setup, &self.service, "http://127.0.0.1:9", &self.clock, "", true)
    }

    fn of_little_patience(&self) -> Arc<dyn Executor> {
        let limits = "[limits]\nsubmit_secs_max = 1\npoll_secs_max = 1\nfile_bytes_max = 1000\n\
                      answer_bytes_max = 100000";
        self.with(limits)
    }

    fn request(&self, key: &str) -> TaskRequest {
        self.asking(key, self.setup.params.clone())
    }

    fn spoil_submit(&self, trouble: Trouble) {
        self.service.spoil_submit(fault(trouble));
    }

    fn spoil_poll(&self, trouble: Trouble) {
        self.service.spoil_poll(fault(trouble));
    }

    fn succeed(&self, id: &str) {
        self.service.end(id, Ending::Succeeded);
    }

    fn fail(&self, id: &str) {
        let ending = failed("13", "it broke");
        if id.is_empty() {
            return self.service.end_at_once(Ending::Filtered("OTHER".to_owned()));
        }
        self.service.end(id, ending);
    }

    fn expire_files(&self) {
        self.service.expire_files();
    }

    fn file(&self) -> Vec<u8> {
        self.service.file()
    }

    fn taken(&self) -> u64 {
        self.service.submissions_total()
    }

    fn requests(&self) -> usize {
        self.service.seen().len()
    }

    fn webhook(&self, id: &str) -> Option<Genuine> {
        let callback = self.service.callback(id)?;
        let query = callback.url.as_deref().and_then(|url| url.split_once('?'));
        let query = query.map_or_else(String::new, |(_, query)| query.to_owned());
        Some(Genuine { headers: callback.headers, query, body: callback.body })
    }

    fn folder(&self) -> &Path {
        self.folder.path()
    }
}

fn fault(trouble: Trouble) -> Fault {
    match trouble {
        Trouble::Gateway => Fault::Gateway(502),
        Trouble::AnswerLost => Fault::AnswerLost,
        Trouble::Hangs => Fault::Hangs,
        Trouble::Garbage => Fault::Garbage,
        Trouble::Server => Fault::Wrong(Wrong::Server),
        Trouble::Forbidden => Fault::Wrong(Wrong::Forbidden),
        Trouble::RetryAfter => Fault::RetryAfter(9),
        Trouble::TooLong => Fault::Padded(200_000),
        Trouble::Redirect => Fault::Redirect("http://169.254.169.254/".to_owned()),
    }
}
