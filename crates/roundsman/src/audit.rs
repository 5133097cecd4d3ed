//! `roundsman audit`: one audit in the terminal, without a server and without a database.
//!
//! The report goes to standard output, how far it is to standard error, so that the report can be piped.

use std::io::{IsTerminal, stdout};
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use roundsman_audit::{
    JudgeOptions, ReportContext, Verdict, judge, report_html, report_pdf, report_text,
};
use roundsman_core::audits::observed::Observed;
use roundsman_core::ports::{Clock, ObserveProgress, ObserveStep, ObserveWish, Pages};
use roundsman_engine::clock::DatabaseClock;

use crate::cli::AuditArgs;
use crate::config::Config;
use crate::node::pages;
use crate::output;

/// The width of a report that is not read in a terminal, or in one whose width nobody tells.
const WIDTH_COLUMNS: usize = 100;

pub(crate) async fn run(config: Config, args: AuditArgs) -> anyhow::Result<()> {
    let clock: Arc<dyn Clock> = Arc::new(DatabaseClock::start());
    let pages = pages(&config, clock)?;
    let seen = look(&config, &args, pages.as_ref()).await?;
    let options = JudgeOptions { device: config.audits.device };
    let judged = tokio::task::spawn_blocking(move || (judge(&seen, &options), seen)).await;
    let (verdict, seen) = judged.context("the page could not be judged")?;
    write_files(&args, &verdict, &seen)?;
    let text = if args.json {
        serde_json::to_string_pretty(&verdict)?
    } else {
        report_text(&verdict, None, width())
    };
    Ok(output::print(&text)?)
}

async fn look(config: &Config, args: &AuditArgs, pages: &dyn Pages) -> anyhow::Result<Observed> {
    let wish = ObserveWish {
        url: args.url.clone(),
        in_browser: args.browser,
        allow_private: args.allow_private,
        obey_robots: config.audits.obey_robots && !args.ignore_robots,
        time_max: config.audits.look_max,
    };
    let progress: Arc<dyn ObserveProgress> =
        if args.quiet { Arc::new(Silent) } else { Arc::new(Telling) };
    pages.observe(wish, progress).await.map_err(|error| {
        let hint = match error.kind.as_str() {
            "blocked_target" if !args.allow_private => {
                "; --allow-private allows addresses of your own machine and network"
            }
            "forbidden_by_robots" => "; --ignore-robots looks all the same",
            _ => "",
        };
        anyhow::anyhow!("{error}{hint}")
    })
}

fn write_files(args: &AuditArgs, verdict: &Verdict, seen: &Observed) -> anyhow::Result<()> {
    let screenshot = seen.browser.as_option().and_then(|browser| browser.screenshot_png.as_deref());
    let context = ReportContext { screenshot_png: screenshot, ..ReportContext::default() };
    if let Some(file) = &args.html {
        write(file, report_html(verdict, &context).as_bytes())?;
    }
    if let Some(file) = &args.pdf {
        write(file, &report_pdf(verdict, &context))?;
    }
    Ok(())
}

fn write(file: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    std::fs::write(file, bytes).with_context(|| format!("cannot write {}", file.display()))?;
    output::note(&format!("wrote {}", file.display()));
    Ok(())
}

/// Says how far it is.
struct Telling;

impl ObserveProgress for Telling {
    fn step(&self, step: ObserveStep) {
        match step {
            ObserveStep::Page => output::note("fetching the page"),
            ObserveStep::Robots => output::note("reading robots.txt"),
            ObserveStep::Sitemap => output::note("reading the sitemap"),
            ObserveStep::Resources { done: 0, of } => {
                output::note(&format!("fetching what it refers to: {of}"));
            }
            ObserveStep::Resources { .. } => {}
            ObserveStep::Browser => output::note("measuring in a browser"),
        }
    }
}

struct Silent;

impl ObserveProgress for Silent {
    fn step(&self, _step: ObserveStep) {}
}

/// A terminal's width, if it is one.
fn width() -> usize {
    if !stdout().is_terminal() {
        return WIDTH_COLUMNS;
    }
    rustix::termios::tcgetwinsize(stdout())
        .map(|size| usize::from(size.ws_col))
        .ok()
        .filter(|columns| *columns > 0)
        .unwrap_or(WIDTH_COLUMNS)
}
