//! Every preset from `POST /tasks` to the file that its generator made, in one server that has them
//! all; webhooks of those that send them.

use std::fmt::Write as _;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use reqwest::Method;
use roundsman_engine::clock::DatabaseClock;
use roundsman_testkit::executors::{Callback, Ending, GeneratorStandIn, Provider};
use roundsman_testkit::{JsonClient, eventually, ports};
use serde_json::{Value, json};

use crate::site::{ADMIN_TOKEN, SOON, Site};

const PROJECT: &str = "all-of-them";
/// A preset, whose shapes it has, a type of its tasks, and what is asked of it.
type Case = (&'static str, Provider, &'static str, Value);

fn cases() -> [Case; 9] {
    let prompt = || json!({"prompt": "a cat"});
    [
        ("fal", Provider::Fal, "fal", json!({"model": "fal-ai/flux/dev", "prompt": "a cat"})),
        ("gemini_image", Provider::GeminiImage, "nano_banana", prompt()),
        ("kling", Provider::Kling, "kling_video", prompt()),
        ("kling3", Provider::Kling3, "kling3_video", prompt()),
        (
            "openai_video",
            Provider::OpenAiVideo,
            "openai_video",
            json!({"prompt": "a cat", "model": "sora-2"}),
        ),
        ("replicate", Provider::Replicate, "replicate", json!({"version": "v", "prompt": "a cat"})),
        ("runway", Provider::Runway, "runway_text_video", prompt()),
        ("veo", Provider::Veo, "veo_video", prompt()),
        ("veo_vertex", Provider::VeoVertex, "veo_vertex_video", prompt()),
    ]
}

#[tokio::test]
async fn every_preset_makes_a_file_from_a_wish() {
    run().await.unwrap();
}

async fn run() -> Result<()> {
    let site = Site::sqlite()?;
    let clock = Arc::new(DatabaseClock::start());
    let mut generators = Vec::new();
    for case in cases() {
        let generator = GeneratorStandIn::start(case.1, clock.clone()).await?;
        generators.push((case, generator));
    }
    let account = generators[0].1.account().clone();
    for secret in [&account.api_key, &account.secret_key, &account.webhook_secret, "sig=secret"] {
        site.keep_secret(secret);
    }
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("roundsman.toml");
    std::fs::write(&file, configuration(&generators)?)?;
    let port = ports::free_port()?;
    let base_url = format!("http://{}", ports::loopback(port));
    let options = site
        .options()
        .port(port)
        .env("ROUNDSMAN_CONFIG", &file)
        .env("ROUNDSMAN_SERVER_PUBLIC_URL", &base_url)
        .env("ROUNDSMAN_EXECUTORS_KLING_SECRET_KEY", &account.secret_key);
    let mut node = site.start(options).await?;
    let user = user(&site, &base_url).await?;

    for ((preset, _, task_type, params), generator) in &generators {
        let wish = json!({"project_id": PROJECT, "task_type": task_type, "params": params});
        let task = user.post("/tasks", &wish).await?.expect_status(201)?.body;
        ensure!(task["status"] != "failed", "{preset}: {task}");
        let taken = eventually(SOON, async || generator.ids().pop());
        let id = taken.await.with_context(|| format!("{preset} has no task"))?;
        if *preset != "gemini_image" {
            generator.end(&id, Ending::Succeeded);
        }
        if let Some(callback) = generator.callback(&id) {
            webhooks(preset, &base_url, &callback).await.with_context(|| (*preset).to_owned())?;
        }
    }
    let tasks = all_over(&user).await?;
    for ((preset, _, task_type, _), generator) in &generators {
        let task = tasks.iter().find(|task| task["task_type"] == *task_type);
        let task = task.with_context(|| format!("no task of {preset}"))?;
        ensure!(task["status"] == "completed", "{preset}: {task}");
        ensure!(task["external_service"] == *preset, "{preset}: {task}");
        let url = task["result_url"].as_str().context("no address")?;
        let path = url.strip_prefix(&base_url).context("an address of ours")?;
        let answer = user.request(Method::GET, path).send().await?;
        ensure!(answer.bytes().await? == generator.file(), "{preset}: another file");
        ensure!(generator.submissions_total() == 1, "{preset} was paid twice");
        ensure!(!task.to_string().contains("sig="), "{preset} tells its link: {task}");
    }
    node.stop().await
}

/// Genuine ones are heard, twice too; others are not.
async fn webhooks(preset: &str, base_url: &str, callback: &Callback) -> Result<()> {
    let ours = format!("{base_url}/webhooks/{preset}");
    // Where it is the account's business, nobody was told.
    let url = callback.url.clone().unwrap_or_else(|| ours.clone());
    ensure!(url.starts_with(&ours), "the callback goes to {url}");
    let client = JsonClient::new(base_url)?;
    let path = url.strip_prefix(base_url).context("an address of ours")?.to_owned();
    for _ in 0..2 {
        let mut request = client.request(Method::POST, &path).body(callback.body.clone());
        for (name, value) in &callback.headers {
            request = request.header(name, value);
        }
        client.send(request).await?.expect_status(200)?;
    }
    let bare = client.request(Method::POST, &format!("/webhooks/{preset}"));
    client.send(bare.body(callback.body.clone())).await?.expect_status(401)?;
    Ok(())
}

async fn all_over(user: &JsonClient) -> Result<Vec<Value>> {
    let mut seen = Value::Null;
    let over = eventually(SOON, async || {
        let page = user.get(&format!("/projects/{PROJECT}/tasks?limit=100")).await.ok()?;
        seen = page.body["tasks"].clone();
        let tasks = seen.as_array()?.clone();
        let is_over = |task: &Value| task["status"] == "completed" || task["status"] == "failed";
        (tasks.len() == cases().len() && tasks.iter().all(is_over)).then_some(tasks)
    });
    let over = over.await;
    over.with_context(|| format!("not all are over: {seen:#}"))
}

async fn user(site: &Site, base_url: &str) -> Result<JsonClient> {
    let client = JsonClient::new(base_url)?;
    let admin = client.with_header("x-admin-api-key", ADMIN_TOKEN)?;
    let user = admin.post("/admin/users", &json!({"email": "ada@example.org"})).await?;
    let tokens = format!("/admin/users/{}/tokens", user.body["id"]);
    let token = admin.post(&tokens, &json!({})).await?.expect_status(201)?;
    let key = token.body["token"].as_str().context("no token")?;
    site.keep_secret(key);
    client.with_header("x-api-key", key)
}

/// All of them in one file, as an operator writes it, but for where they are and how often to look.
fn configuration(generators: &[(Case, GeneratorStandIn)]) -> Result<String> {
    let mut text = String::new();
    for ((preset, ..), generator) in generators {
        let (url, account) = (generator.url(), generator.account());
        let base = if *preset == "openai_video" { format!("{url}/v1") } else { url.clone() };
        writeln!(text, "[executors.{preset}]\npreset = '{preset}'\nbase_url = '{base}'")?;
        match *preset {
            "kling" => writeln!(text, "access_key = '{}'", account.access_key)?,
            "veo_vertex" => {
                writeln!(text, "service_account = '''{}'''", generator.service_account())?;
                writeln!(text, "[executors.{preset}.settings]\nproject = 'p'")?;
                writeln!(text, "[executors.{preset}.result]\nstorage_url = '{url}'")?;
            }
            "fal" => {
                writeln!(text, "api_key = '{}'", account.api_key)?;
                let keys = format!("{url}/.well-known/jwks.json");
                writeln!(text, "[executors.{preset}.webhook]\nkeys_url = '{keys}'")?;
            }
            _ => writeln!(text, "api_key = '{}'", account.api_key)?,
        }
        if matches!(*preset, "kling" | "kling3" | "replicate" | "openai_video") {
            writeln!(text, "webhook_secret = '{}'", account.webhook_secret)?;
        }
        writeln!(text, "[executors.{preset}.schedule]\nfirst_secs = 0.5\nmax_secs = 0.5")?;
    }
    Ok(text)
}
