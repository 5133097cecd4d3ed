//! What descriptions are refused for, and in which words.

use std::collections::BTreeSet;
use std::sync::Arc;

use roundsman_core::ports::Executor;
use roundsman_providers::executors::{
    ExecutorOptions, HttpExecutor, InvalidExecutor, Secrets, presets,
};
use roundsman_testkit::ManualClock;

use super::parts;

fn made(name: &str, description: &str, secrets: Secrets) -> Result<HttpExecutor, InvalidExecutor> {
    let description = description.parse().unwrap();
    let options = ExecutorOptions { name: name.to_owned(), description, secrets };
    HttpExecutor::new(options, &parts(&Arc::new(ManualClock::default())))
}

fn problems(description: &str) -> Vec<String> {
    let secrets = Secrets::default().with("api_key", "k".to_owned().into());
    made("own", description, secrets).err().map_or_else(Vec::new, |error| error.problems)
}

const SMALL: &str = r#"
base_url = "https://service.example"
auth = { kind = "bearer" }
task_types = { make = {} }
params = { prompt = { kind = "text" } }
submit = { id = ["/id"], request = { method = "POST", path = "/jobs", body = { prompt = "{prompt}" } } }
poll = { request = { path = "/jobs/{$id}" }, status = "/status", statuses = { done = "succeeded" } }
result = { files = ["/url"] }
"#;

#[test]
fn every_preset_can_be_used_with_its_secrets() {
    let secrets = || {
        Secrets::default()
            .with("api_key", "k".to_owned().into())
            .with("access_key", "k".to_owned().into())
            .with("secret_key", "k".to_owned().into())
    };
    let mut types = BTreeSet::new();
    for name in presets::names().filter(|name| *name != "veo_vertex") {
        let over = if name == "openai_video" { "base_url = 'https://g.example/v1'\n" } else { "" };
        let executor = made(name, &format!("{over}preset = '{name}'"), secrets()).unwrap();
        for task_type in executor.task_types() {
            assert!(types.insert(task_type.to_owned()), "{task_type} is taken by two presets");
        }
        assert!(!executor.capabilities().has_webhooks || name == "fal", "{name}");
        let missing = made(name, &format!("{over}preset = '{name}'"), Secrets::default());
        let error = missing.unwrap_err().to_string();
        assert!(error.contains("is missing"), "{name}: {error}");
        assert!(presets::text(name).unwrap().starts_with('#'), "{name} says what it is");
    }
    for task_type in
        ["kling_video", "nano_banana", "nano_banana_pro", "gemini_image", "runway_video"]
    {
        assert!(types.contains(task_type), "{task_type}");
    }
}

#[test]
fn a_description_is_refused_with_all_that_is_wrong() {
    assert_eq!(problems(SMALL), Vec::<String>::new());
    let broken = SMALL
        .replace("\"/id\"", "\"id\"")
        .replace("{prompt}", "{promt}")
        .replace("succeeded", "succeeded\", other = \"pending");
    assert_eq!(problems(&broken), ["submit.id: `id` is no JSON pointer: it begins with `/`"]);
    for (from, to, reason) in [
        (
            "{prompt}",
            "{promt}",
            "submit.request: there is no parameter `promt`; add it to [params]",
        ),
        ("{prompt}", "{prompt|base32}", "submit.request.body: there is no filter `base32`"),
        ("{prompt}", "{prompt|file}", "submit.request.body: `file` needs `is_form = true`"),
        ("{prompt}", "{$id}", "submit.request: the task has no id yet"),
        (
            "{prompt}",
            "{$setting.x}",
            "submit.request: there is no setting `x`; add it to [settings]",
        ),
        ("{prompt}", "{$item}", "submit.request: `{$item}` stands only below `$each`"),
        ("\"/jobs\"", "\"jobs\"", "submit.request.path: it begins with `/`"),
        ("POST", "SEND", "submit.request.method: GET, POST, PUT, PATCH or DELETE, please"),
        (
            "https://service.example",
            "ftp://x",
            "base_url: `ftp://x` is no http://host or https://host/path",
        ),
        (
            "https://service.example",
            "https://a:b@x",
            "base_url: `https://a:b@x` is no http://host or https://host/path",
        ),
        (
            "https://service.example",
            "https://{$setting.r}.x",
            "base_url: it names a setting that is not set",
        ),
        ("status = \"/status\", ", "", "poll: either `status` or `done`"),
        ("task_types = { make = {} }", "task_types = {}", "task_types: name at least one"),
        (
            "make = {}",
            "make = { model = 'x' }",
            "task_types.make.model: there is no such parameter",
        ),
        ("\"/status\"", "\"/a/**/b\"", "poll.status: `/a/**/b`: `**` stands only at the end"),
    ] {
        assert!(SMALL.contains(from), "{from}");
        assert_eq!(problems(&SMALL.replacen(from, to, 1)), [reason], "{to}");
    }
}

#[test]
fn more_is_refused() {
    let with = |more: &str| problems(&format!("{SMALL}\n{more}"));
    for (more, reason) in [
        ("colour = 'red'", "colour: unknown field `colour`"),
        ("[limits]\npoll_secs_max = 0", "limits.poll_secs_max: 1 to 86400"),
        ("[limits]\ncalls_max = 0", "limits: nothing can be done with a limit of 0"),
        ("[limits]\npoll_secs = 1", "limits.poll_secs: unknown field `poll_secs`"),
        ("[schedule]\nfactor = 0.5", "schedule: first_secs from 0.5 to max_secs"),
        ("idempotency = 'look_up'", "look_up: `idempotency = \"look_up\"` needs it"),
        ("idempotency = 'perhaps'", "idempotency: unknown variant `perhaps`"),
        (
            "[webhook]\nverify = 'fal'\nid = ['/id']",
            "webhook.keys_url: `verify = \"fal\"` needs it",
        ),
        ("[webhook]\nverify = 'token'\nid = []", "webhook.id: say where the task's id is"),
        ("[[errors.rules]]\nas = 'billing'", "errors.rules[0]: say when it holds"),
        ("[[errors.rules]]\nhttp = [400]\nas = 'bad'", "errors.rules[0]: there is no code `bad`"),
        ("[headers]\n'a b' = 'c'", "headers.a b: no header can be this"),
        (
            "[[variants]]\nwhen = 'image'\nset = { a = 1 }",
            "variants[0].when: there is no parameter `image`",
        ),
        (
            "[[variants]]\nset = { prompt = 'x' }",
            "variants[0].set: `prompt` is a parameter that users give",
        ),
    ] {
        let found = with(more);
        assert!(found.len() == 1 && found[0].starts_with(reason), "{more}: {found:?}");
    }
}

#[test]
fn names_and_presets_are_checked() {
    let error =
        |name: &str, text: &str| made(name, text, Secrets::default()).unwrap_err().to_string();
    assert_eq!(
        error("Own", SMALL),
        "the executor Own: its name has small letters, digits and `_` only"
    );
    assert!(error("own", "preset = 'sora'").contains("there is no preset `sora`; there are fal, "));
    assert!(error("own", "preset = 3").contains("preset: the name of one, please"));
    assert_eq!(error("own", SMALL), "the executor own: api_key is missing");
    assert!(error("own", "preset = 'openai_video'").contains("missing field `base_url`"));
    assert!(error("own", "preset = 'veo_vertex'").contains("there is no setting `project`"));
    let odd = Secrets::default().with("api_key", "a\nb".to_owned().into());
    let error = made("own", SMALL, odd).unwrap_err().to_string();
    assert!(error.contains("no header can carry") && !error.contains("a\nb"), "{error}");
}

/// Two accounts of one service: each takes types of its own.
#[test]
fn who_names_types_names_all_of_them() {
    let secrets = Secrets::default().with("api_key", "k".to_owned().into());
    let text =
        "preset = 'gemini_image'\n[task_types.cheap_picture]\nmodel = 'gemini-2.5-flash-image'";
    let executor = made("second", text, secrets).unwrap();
    assert_eq!(executor.task_types(), ["cheap_picture"]);
}
