//! Curves over time, drawn as SVG.

use std::fmt::Write as _;
use std::time::Duration;

use crate::process::Process;

/// What the server held at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    at: Duration,
    /// In MB.
    memory: f64,
    threads: f64,
    descriptors: f64,
}

impl Sample {
    pub(crate) fn of(process: &Process, at: Duration) -> Self {
        Self {
            at,
            memory: process.memory() as f64 / 1e6,
            threads: process.threads() as f64,
            descriptors: process.descriptors() as f64,
        }
    }
}

/// A server under load, second by second.
pub(crate) struct Plot {
    pub(crate) samples: Vec<Sample>,
    pub(crate) runs: usize,
    pub(crate) clients: usize,
}

/// One curve: its name, its colour and its value.
type Curve = (&'static str, &'static str, fn(&Sample) -> f64);

const CURVES: [Curve; 3] = [
    ("resident memory, MB", "#2266aa", |sample| sample.memory),
    ("threads", "#228844", |sample| sample.threads),
    ("descriptors", "#aa5522", |sample| sample.descriptors),
];

/// The size of the whole, of a panel, and of what is around it.
const WIDTH: f64 = 860.0;
const PANEL: f64 = 130.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 50.0;
const GAP: f64 = 44.0;

impl Plot {
    /// What it shows, in words.
    pub(crate) fn summary(&self) -> String {
        let Some((first, last)) = self.samples.first().zip(self.samples.last()) else { return String::new() };
        let seconds = last.at.as_secs_f64();
        let rate = self.runs as f64 / seconds.max(1.0);
        let mut words = format!(
            "{} runs in {:.0} minutes ({rate:.0} a second), {} clients",
            self.runs,
            seconds / 60.0,
            self.clients
        );
        // After the first tenth, when the server is warm.
        let warm = self.samples.get(self.samples.len() / 10).unwrap_or(first);
        for (name, _, value) in CURVES {
            let _ = write!(words, "; {name}: {:.0} when warm, {:.0} at the end", value(warm), value(last));
        }
        words
    }

    /// The whole as SVG.
    pub(crate) fn svg(&self) -> String {
        let height = TOP + CURVES.len() as f64 * (PANEL + GAP);
        let title = format!("A server under load: {} runs of {} clients", self.runs, self.clients);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
             <text x=\"{LEFT}\" y=\"22\" font-size=\"15\">{title}</text>\n"
        );
        for (place, curve) in CURVES.iter().enumerate() {
            svg.push_str(&self.panel(curve, TOP + place as f64 * (PANEL + GAP)));
        }
        svg.push_str("</svg>\n");
        svg
    }

    /// One curve with its axes. The lower end is always zero, so that small changes look small.
    fn panel(&self, (name, colour, value): &Curve, top: f64) -> String {
        let most = rounded(self.samples.iter().map(value).fold(1.0, f64::max));
        let end = self.samples.last().map_or(1.0, |sample| sample.at.as_secs_f64()).max(1.0);
        let (wide, bottom) = (WIDTH - LEFT - 20.0, top + PANEL);
        let x = |at: f64| LEFT + at / end * wide;
        let y = |value: f64| bottom - value / most * PANEL;
        let mut svg = format!("<text x=\"{LEFT}\" y=\"{}\" fill=\"{colour}\">{name}</text>\n", top - 6.0);
        for part in [0.0, 0.5, 1.0] {
            let (level, right) = (y(part * most), LEFT + wide);
            let _ = writeln!(svg, "<path d=\"M{LEFT} {level:.1}H{right}\" stroke=\"#dddddd\"/>");
            let (left, low, figure) = (LEFT - 6.0, level + 4.0, part * most);
            let _ = writeln!(svg, "<text x=\"{left}\" y=\"{low:.1}\" text-anchor=\"end\">{figure:.0}</text>");
            let (at, minutes) = (x(part * end), part * end / 60.0);
            let below = bottom + 16.0;
            let _ = writeln!(svg, "<text x=\"{at:.1}\" y=\"{below}\" text-anchor=\"middle\">{minutes:.1} min</text>");
        }
        let points =
            self.samples.iter().map(|sample| format!("{:.1},{:.1}", x(sample.at.as_secs_f64()), y(value(sample))));
        let points = points.collect::<Vec<_>>().join(" ");
        let _ = writeln!(svg, "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>");
        svg
    }
}

/// The next round number: 1, 2 or 5 with zeros after it.
fn rounded(most: f64) -> f64 {
    let unit = 10_f64.powf(most.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|step| step * unit).find(|round| *round >= most).unwrap_or(most)
}
