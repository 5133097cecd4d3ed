//! How long painting would take on a given network, worked out from what was fetched.
//!
//! A small model of loading, not a browser: connections cost round trips, bytes share the bandwidth,
//! and painting waits for what blocks it. What scripts do is not in it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use roundsman_core::audits::observed::{
    HttpVersion, Resource, ResourceAnswer, ResourceKind, Timing,
};
use url::Url;

use crate::page::Page;
use crate::verdict::Device;

/// To look up the name, to connect, to agree on keys.
const ROUND_TRIPS_TO_CONNECT: f64 = 3.0;
/// To one host, without HTTP/2.
const CONNECTIONS_PER_HOST_MAX: usize = 6;
/// Images beyond these are likely below what is seen at first.
const IMAGES_SEEN_FIRST: usize = 3;
const SHIFT_PER_IMAGE: f64 = 0.05;
const SHIFT_MAX: f64 = 0.5;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Estimate {
    pub(crate) first_paint_ms: f64,
    pub(crate) largest_paint_ms: f64,
    /// By images that do not say how large they are.
    pub(crate) layout_shift: f64,
}

struct Network {
    round_trip_ms: f64,
    bytes_per_ms: f64,
}

impl Network {
    /// Lighthouse's slow 4G, and its desktop.
    const fn of(device: Device) -> Self {
        match device {
            Device::Mobile => Network { round_trip_ms: 150.0, bytes_per_ms: 1638.4 / 8.0 },
            Device::Desktop => Network { round_trip_ms: 40.0, bytes_per_ms: 10_240.0 / 8.0 },
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "sizes of pages are far below 2^52")]
    fn transfer_ms(&self, bytes: u64) -> f64 {
        bytes as f64 / self.bytes_per_ms
    }
}

pub(crate) fn estimate(page: &Page<'_>, unsized_images: usize, device: Device) -> Estimate {
    let network = Network::of(device);
    let document_ms = document(page, &network);
    let blocking: Vec<_> = answered(page).filter(|(it, _)| it.placement.is_blocking).collect();
    let blocking_bytes: u64 = blocking.iter().map(|(_, it)| it.transfer_bytes).sum();
    let blocking_ms = if blocking.is_empty() {
        0.0
    } else {
        waiting(page, &blocking, &network) + network.transfer_ms(blocking_bytes)
    };
    let first_paint_ms = document_ms + blocking_ms;
    let image = largest_image(page);
    let largest_paint_ms = image.map_or(first_paint_ms, |image| {
        let bytes = blocking_bytes + image.1.transfer_bytes;
        let own = document_ms + waiting(page, &[image], &network) + network.transfer_ms(bytes);
        own.max(first_paint_ms)
    });
    let count = f64::from(u32::try_from(unsized_images).unwrap_or(u32::MAX));
    let layout_shift = (count * SHIFT_PER_IMAGE).min(SHIFT_MAX);
    Estimate { first_paint_ms, largest_paint_ms, layout_shift }
}

/// The redirects and the page itself. A host that was asked before needs no new connection.
fn document(page: &Page<'_>, network: &Network) -> f64 {
    let hops = page.seen.hops.iter().map(|hop| (hop.url.as_str(), &hop.timing));
    let all = hops.chain([(page.seen.page.url.as_str(), &page.seen.page.timing)]);
    let mut known = BTreeSet::new();
    let mut sum = network.transfer_ms(page.seen.page.transfer_bytes);
    for (url, timing) in all {
        if known.insert(origin(url)) {
            sum += ROUND_TRIPS_TO_CONNECT * network.round_trip_ms;
        }
        sum += network.round_trip_ms + server_ms(timing);
    }
    sum
}

/// How long the server thought: what was waited, without the way there and back, which connecting showed.
fn server_ms(timing: &Timing) -> f64 {
    timing.wait.saturating_sub(timing.connect).min(Duration::from_secs(60)).as_secs_f64() * 1000.0
}

/// What is waited for these before their bytes flow: the slowest of their hosts counts.
fn waiting(page: &Page<'_>, resources: &[(&Resource, &ResourceAnswer)], network: &Network) -> f64 {
    let own = origin(&page.seen.page.url);
    let mut hosts: BTreeMap<String, Vec<&ResourceAnswer>> = BTreeMap::new();
    for (resource, answer) in resources {
        hosts.entry(origin(&resource.url)).or_default().push(answer);
    }
    let host_ms = |(host, answers): (&String, &Vec<&ResourceAnswer>)| {
        let connect = if *host == own { 0.0 } else { ROUND_TRIPS_TO_CONNECT };
        let slowest = answers.iter().map(|it| server_ms(&it.timing)).fold(0.0, f64::max);
        let is_shared = answers.iter().all(|it| it.http_version == HttpVersion::Http2);
        let turns = if is_shared { 1 } else { answers.len().div_ceil(CONNECTIONS_PER_HOST_MAX) };
        let turns = f64::from(u32::try_from(turns).unwrap_or(u32::MAX));
        connect * network.round_trip_ms + turns * (network.round_trip_ms + slowest)
    };
    hosts.iter().map(host_ms).fold(0.0, f64::max)
}

/// The heaviest of the first images is likely the largest thing on the first screen.
fn largest_image<'a>(page: &'a Page<'_>) -> Option<(&'a Resource, &'a ResourceAnswer)> {
    let images = answered(page).filter(|(it, _)| it.kind == ResourceKind::Image);
    images.take(IMAGES_SEEN_FIRST).max_by_key(|(_, answer)| answer.transfer_bytes)
}

pub(super) fn answered<'a>(
    page: &'a Page<'_>,
) -> impl Iterator<Item = (&'a Resource, &'a ResourceAnswer)> {
    let resources = page.seen.resources.iter();
    resources.filter_map(|it| Some((it, it.answer.as_option()?)))
}

fn origin(url: &str) -> String {
    Url::parse(url).map(|url| url.origin().ascii_serialization()).unwrap_or_default()
}
