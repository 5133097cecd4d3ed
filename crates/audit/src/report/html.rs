//! The report as a page that can be sent to somebody: one file, nothing loaded, nothing run.

use super::ReportContext;
use super::markup::{Esc, Markup, when};
use super::sections;
use super::story::{self, Issue, change_sentence, device, host, issues, signed, summary};
use super::style::CSS;
use super::svg::ring;
use crate::verdict::{Category, Verdict};

/// What the report may do itself, should foreign text ever get out of its place.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'";
const FIRST_THINGS: usize = 3;

pub fn report_html(verdict: &Verdict, context: &ReportContext<'_>) -> String {
    let issues = issues(verdict);
    let mut page = Markup::default();
    page.add(format_args!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"robots\" content=\"noindex\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
         <title>Website audit of {}</title>\n<style>{CSS}</style>\n</head>\n<body>\n<main class=\"wrap\">\n",
        Esc(&host(&verdict.final_url))
    ));
    hero(&mut page, verdict, context, &issues);
    categories(&mut page, verdict, context);
    first_things(&mut page, &issues);
    sections::findings(&mut page, &issues);
    sections::comparison(&mut page, context);
    sections::measurements(&mut page, verdict);
    sections::screenshot(&mut page, context);
    sections::waterfall(&mut page, verdict);
    sections::history(&mut page, context);
    sections::fourteen(&mut page, verdict);
    sections::passed(&mut page, verdict);
    sections::missing(&mut page, verdict);
    sections::method(&mut page, verdict);
    page.raw("</main>\n</body>\n</html>\n");
    page.done()
}

fn hero(page: &mut Markup, verdict: &Verdict, context: &ReportContext<'_>, issues: &[Issue<'_>]) {
    page.add(format_args!(
        "<header class=\"hero\"><div class=\"disc\">{}</div><div><p class=\"kind\">Website audit</p><h1>{}</h1><p class=\"url\">{}</p><p class=\"sum\">{}</p>",
        ring(verdict.overall, 150),
        Esc(&host(&verdict.final_url)),
        Esc(&verdict.final_url),
        Esc(&summary(verdict, issues))
    ));
    if let Some(comparison) = context.comparison {
        page.add(format_args!("<p class=\"delta\">{}</p>", Esc(&change_sentence(comparison))));
    }
    page.add(format_args!(
        "<p class=\"meta\">Looked at on {} as seen from {}.</p></div></header>\n",
        when(verdict.looked_at),
        device(verdict.device)
    ));
}

fn categories(page: &mut Markup, verdict: &Verdict, context: &ReportContext<'_>) {
    page.raw("<section class=\"cats\" aria-label=\"Categories\">");
    for scored in &verdict.categories {
        let category = scored.category;
        let change = context.comparison.and_then(|it| {
            it.categories.iter().find(|(known, _)| *known == category).map(|(_, change)| *change)
        });
        let class = match change {
            Some(1..) => "up",
            Some(..=-1) => "down",
            _ => "",
        };
        let change = change.map(|it| format!(" <em class=\"{class}\">{}</em>", signed(it)));
        let note = match category {
            Category::Security => format!("grade {}", verdict.security_grade),
            _ => format!("{} % of the score", category.weight()),
        };
        page.add(format_args!(
            "<div class=\"cat\">{}<b>{}</b><span>{}{}</span></div>",
            ring(scored.score, 74),
            category.title(),
            Esc(&note),
            change.unwrap_or_default()
        ));
    }
    page.raw("</section>\n");
}

/// What a reader in a hurry does.
fn first_things(page: &mut Markup, issues: &[Issue<'_>]) {
    if issues.is_empty() {
        return;
    }
    page.raw("<h2>Do this first</h2>\n<section class=\"first\">");
    for (issue, number) in issues.iter().take(FIRST_THINGS).zip(1..) {
        page.add(format_args!(
            "<div class=\"card\"><span class=\"num\">{number}</span><h3>{}</h3><p>{}</p></div>",
            Esc(&issue.main.title),
            Esc(&issue.main.how_to_fix)
        ));
    }
    page.raw("</section>\n");
    debug_assert!(issues.windows(2).all(|it| story::is_in_order(&it[0], &it[1])));
}
