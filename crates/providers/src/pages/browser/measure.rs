//! One page in the browser: loaded, watched until it is quiet, and asked.

use std::collections::HashSet;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use roundsman_core::audits::observed::BrowserSeen;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;
use url::Url;

use super::cdp::{Cdp, CdpEvent};
use super::proxy::Proxy;
use super::{BrowserError, BrowserOptions};

const SCRIPT: &str = include_str!("measure.js");
const WORLD: &str = "roundsman";
/// A page that says nothing for so long after it was loaded is done.
const QUIET_FOR: Duration = Duration::from_millis(500);
/// A page that never falls silent is done after so long.
const SETTLE_MAX: Duration = Duration::from_secs(3);
/// A page that is never loaded is measured as it is.
const LOAD_MAX: Duration = Duration::from_secs(10);
const CONSOLE_ERRORS_MAX: usize = 50;
const TEXT_CHARS_MAX: usize = 500;
const REQUESTS_MAX: usize = 10_000;

/// What the browser said while the page was loaded.
#[derive(Default)]
struct Heard {
    /// Of the world in which the script runs, in the page itself.
    context: Option<i64>,
    requests: HashSet<String>,
    transfer_bytes: u64,
    console_errors: Vec<String>,
    is_loaded: bool,
}

/// As the script says it, in milliseconds.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Measured {
    first_paint: Option<f64>,
    first_contentful_paint: Option<f64>,
    largest_contentful_paint: Option<f64>,
    largest_element: Option<String>,
    layout_shift: f64,
    blocking_time: f64,
    dom_content_loaded: Option<f64>,
    load: Option<f64>,
}

pub(super) async fn measure(
    endpoint: &str,
    url: &Url,
    proxy: &Proxy,
    options: &BrowserOptions,
) -> Result<BrowserSeen, BrowserError> {
    let mut cdp = Cdp::connect(endpoint).await?;
    let version = cdp.call("Browser.getVersion", json!({})).await?;
    let target = open(&mut cdp, options).await?;
    proxy.open();
    let navigated = cdp.call("Page.navigate", json!({"url": url.as_str()})).await?;
    if let Some(error) = navigated["errorText"].as_str() {
        return Err(BrowserError::NotLoaded(error.to_owned()));
    }
    let mut heard = Heard::default();
    let loading = timeout(LOAD_MAX, async {
        while !heard.is_loaded {
            hear(&mut cdp, &mut heard, &target).await?;
        }
        Ok::<(), BrowserError>(())
    });
    if let Ok(loaded) = loading.await {
        loaded?;
    }
    let settling = timeout(SETTLE_MAX, async {
        while let Ok(event) = timeout(QUIET_FOR, hear(&mut cdp, &mut heard, &target)).await {
            event?;
        }
        Ok::<(), BrowserError>(())
    });
    if let Ok(settled) = settling.await {
        settled?;
    }
    let measured = ask(&mut cdp, &heard).await?;
    let screenshot_png = screenshot(&mut cdp, options).await;
    let product = version["product"].as_str().unwrap_or_default();
    Ok(BrowserSeen {
        first_paint: ms(measured.first_paint),
        first_contentful_paint: ms(measured.first_contentful_paint),
        largest_contentful_paint: ms(measured.largest_contentful_paint),
        largest_element: measured.largest_element.map(|text| short(&text)),
        layout_shift: if measured.layout_shift.is_finite() { measured.layout_shift } else { 0.0 },
        blocking_time: ms(Some(measured.blocking_time)).unwrap_or_default(),
        dom_content_loaded: ms(measured.dom_content_loaded),
        load: ms(measured.load),
        transfer_bytes: heard.transfer_bytes,
        requests: u32::try_from(heard.requests.len()).unwrap_or(u32::MAX),
        console_errors: heard.console_errors,
        screenshot_png,
        viewport_width_px: options.viewport_width_px,
        viewport_height_px: options.viewport_height_px,
        browser: short(product),
    })
}

/// An empty page that is listened to. Returns its number.
async fn open(cdp: &mut Cdp, options: &BrowserOptions) -> Result<String, BrowserError> {
    cdp.call("Browser.setDownloadBehavior", json!({"behavior": "deny"})).await?;
    let target = cdp.call("Target.createTarget", json!({"url": "about:blank"})).await?;
    let target = target["targetId"].as_str().unwrap_or_default().to_owned();
    let attach = json!({"targetId": target, "flatten": true});
    let attached = cdp.call("Target.attachToTarget", attach).await?;
    cdp.enter(attached["sessionId"].as_str().unwrap_or_default());
    let (width, height) = (options.viewport_width_px, options.viewport_height_px);
    let metrics =
        json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
    for (method, params) in [
        ("Page.enable", json!({})),
        ("Runtime.enable", json!({})),
        ("Log.enable", json!({})),
        ("Network.enable", json!({})),
        ("Inspector.enable", json!({})),
        ("Emulation.setDeviceMetricsOverride", metrics),
        // A page in the background is not painted.
        ("Emulation.setFocusEmulationEnabled", json!({"enabled": true})),
        ("Page.addScriptToEvaluateOnNewDocument", json!({"source": SCRIPT, "worldName": WORLD})),
    ] {
        cdp.call(method, params).await?;
    }
    Ok(target)
}

/// Takes in the next thing that the browser says.
async fn hear(cdp: &mut Cdp, heard: &mut Heard, frame: &str) -> Result<(), BrowserError> {
    let CdpEvent { method, params } = cdp.event().await?;
    match method.as_str() {
        "Page.loadEventFired" => heard.is_loaded = true,
        "Runtime.executionContextCreated" => {
            let context = &params["context"];
            if context["name"] == WORLD && context["auxData"]["frameId"] == frame {
                heard.context = context["id"].as_i64();
            }
        }
        "Network.requestWillBeSent" => {
            let is_data =
                params["request"]["url"].as_str().is_some_and(|url| url.starts_with("data:"));
            if !is_data && heard.requests.len() < REQUESTS_MAX {
                heard.requests.extend(params["requestId"].as_str().map(str::to_owned));
            }
        }
        "Network.loadingFinished" => {
            heard.transfer_bytes += whole(params["encodedDataLength"].as_f64());
        }
        "Runtime.consoleAPICalled" if params["type"] == "error" => {
            let words = params["args"].as_array().into_iter().flatten();
            let text = words
                .filter_map(|word| word["value"].as_str().or_else(|| word["description"].as_str()));
            heard.error(&text.collect::<Vec<_>>().join(" "));
        }
        "Runtime.exceptionThrown" => {
            let details = &params["exceptionDetails"];
            let text = details["exception"]["description"].as_str();
            heard.error(text.or_else(|| details["text"].as_str()).unwrap_or("an exception"));
        }
        "Log.entryAdded" if params["entry"]["level"] == "error" => {
            let (text, url) = (&params["entry"]["text"], &params["entry"]["url"]);
            let (text, url) = (text.as_str().unwrap_or_default(), url.as_str().unwrap_or_default());
            heard.error(&format!("{text} {url}"));
        }
        // A question to a person who is not there would hold up the page for ever.
        "Page.javascriptDialogOpening" => {
            cdp.call("Page.handleJavaScriptDialog", json!({"accept": false})).await?;
        }
        "Inspector.targetCrashed" | "Target.detachedFromTarget" => {
            return Err(BrowserError::Crashed);
        }
        _ => {}
    }
    Ok(())
}

impl Heard {
    fn error(&mut self, text: &str) {
        if self.console_errors.len() < CONSOLE_ERRORS_MAX {
            self.console_errors.push(short(text.trim()));
        }
    }
}

async fn ask(cdp: &mut Cdp, heard: &Heard) -> Result<Measured, BrowserError> {
    let context = heard.context.ok_or(BrowserError::Odd)?;
    let params = json!({"expression": "roundsmanMeasured()", "contextId": context,
        "returnByValue": true});
    let mut answer = cdp.call("Runtime.evaluate", params).await?;
    serde_json::from_value(answer["result"]["value"].take()).map_err(|_| BrowserError::Odd)
}

/// What is in the window; at half its size if it would be too large otherwise.
async fn screenshot(cdp: &mut Cdp, options: &BrowserOptions) -> Option<Vec<u8>> {
    let (width, height) = (options.viewport_width_px, options.viewport_height_px);
    for scale in [1.0, 0.5] {
        let clip = json!({"x": 0, "y": 0, "width": width, "height": height, "scale": scale});
        let params = json!({"format": "png", "clip": clip});
        let shot: Value = cdp.call("Page.captureScreenshot", params).await.ok()?;
        let png = STANDARD.decode(shot["data"].as_str()?).ok()?;
        if png.len() <= options.screenshot_bytes_max {
            return Some(png);
        }
    }
    None
}

/// What is no time is none.
fn ms(ms: Option<f64>) -> Option<Duration> {
    let secs = ms.filter(|ms| ms.is_finite() && *ms >= 0.0)? / 1000.0;
    Duration::try_from_secs_f64(secs).ok()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "what is not in the range is sorted out"
)]
fn whole(bytes: Option<f64>) -> u64 {
    bytes.filter(|bytes| *bytes > 0.0 && *bytes < 1e15).map_or(0, |bytes| bytes as u64)
}

fn short(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).collect()
}
