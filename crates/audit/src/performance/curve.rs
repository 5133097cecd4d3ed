//! The log-normal curves that Lighthouse scores measures by.

use crate::finding::rounded;
use crate::verdict::Device;

/// Where a measure scores 90 and where it scores 50.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Curve {
    p10: f64,
    median: f64,
}

impl Curve {
    const fn new(p10: f64, median: f64) -> Self {
        Curve { p10, median }
    }

    pub(crate) const fn first_paint(device: Device) -> Self {
        match device {
            Device::Mobile => Curve::new(1800.0, 3000.0),
            Device::Desktop => Curve::new(934.0, 1600.0),
        }
    }

    pub(crate) const fn largest_paint(device: Device) -> Self {
        match device {
            Device::Mobile => Curve::new(2500.0, 4000.0),
            Device::Desktop => Curve::new(1200.0, 2400.0),
        }
    }

    pub(crate) const fn speed_index(device: Device) -> Self {
        match device {
            Device::Mobile => Curve::new(3387.0, 5800.0),
            Device::Desktop => Curve::new(1311.0, 2300.0),
        }
    }

    pub(crate) const fn blocking_time(device: Device) -> Self {
        match device {
            Device::Mobile => Curve::new(200.0, 600.0),
            Device::Desktop => Curve::new(150.0, 350.0),
        }
    }

    pub(crate) const fn layout_shift() -> Self {
        Curve::new(0.1, 0.25)
    }

    pub(crate) const fn total_bytes() -> Self {
        Curve::new(2667.0 * 1024.0, 4000.0 * 1024.0)
    }

    /// 0 to 1. The ends of the ranges are held, so that a measure at a control point never falls to the
    /// wrong side of it by rounding.
    pub(crate) fn score(self, value: f64) -> f64 {
        /// The place of the 90th percentile on the error function's curve.
        const INVERSE_ERF_ONE_FIFTH: f64 = 0.906_193_802_436_823_2;
        if value <= 0.0 {
            return 1.0;
        }
        let standard =
            (value / self.median).ln() * INVERSE_ERF_ONE_FIFTH / -(self.p10 / self.median).ln();
        let score = (1.0 - erf(standard)) / 2.0;
        if value <= self.p10 {
            score.clamp(0.9, 1.0)
        } else if value <= self.median {
            score.clamp(0.5, 0.899_999)
        } else {
            score.clamp(0.0, 0.499_999)
        }
    }

    pub(crate) fn score_percent(self, value: f64) -> u8 {
        rounded(self.score(value) * 100.0)
    }
}

/// Abramowitz and Stegun, 7.1.26.
fn erf(x: f64) -> f64 {
    const P: f64 = 0.327_591_1;
    const A: [f64; 5] =
        [0.254_829_592, -0.284_496_736, 1.421_413_741, -1.453_152_027, 1.061_405_429];
    let t = 1.0 / (1.0 + P * x.abs());
    let sum = A.iter().rev().fold(0.0, |sum, a| (sum + a) * t);
    x.signum() * (1.0 - sum * (-x * x).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_points_score_what_they_are_for() {
        let curve = Curve::largest_paint(Device::Mobile);
        for (value, expected) in [(0.0, 100), (2500.0, 90), (4000.0, 50), (60_000.0, 0)] {
            assert_eq!(curve.score_percent(value), expected, "{value}");
        }
        assert!(curve.score(2501.0) < 0.9 && curve.score(4001.0) < 0.5);
        // Lighthouse's own calculator gives these.
        assert_eq!(Curve::first_paint(Device::Mobile).score_percent(2000.0), 85);
        assert_eq!(Curve::layout_shift().score_percent(0.15), 76);
    }
}
