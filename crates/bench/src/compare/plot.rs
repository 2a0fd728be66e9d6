//! The plots: SVG written by hand, as bars and lines are a few rectangles and paths.
//!
//! `throughput` has a panel for each workload, with a bar for each system. `latency` has lines of
//! percentiles on a logarithmic scale. `growth` shows what an operation costs the server at every
//! number of documents. A picture without anything to show is left out.

use std::fmt::Write;

use super::growth;
use super::results::{Better, PARTITA, Results, Row};
use super::table::number;
use crate::client::PERCENTILES;

/// The colours of the systems in the order in which they take part; Partita's is the first.
const COLOURS: [&str; 7] =
    ["#c2410c", "#1d4ed8", "#0f766e", "#7c3aed", "#6b7280", "#a16207", "#111827"];

const PANEL_WIDTH: f64 = 360.0;
const COLUMNS: usize = 2;
const BAR: f64 = 16.0;
const LEFT: f64 = 90.0;
const LINES_HEIGHT: f64 = 150.0;

/// All pictures, with the names of their files.
pub(crate) fn all(results: &Results) -> Vec<(&'static str, String)> {
    let drawn = [
        ("throughput", throughput(results)),
        ("latency", latency(results)),
        ("growth", growth(results)),
    ];
    drawn.into_iter().filter_map(|(name, picture)| Some((name, picture?))).collect()
}

fn throughput(results: &Results) -> Option<String> {
    let rows = results.rows.iter().filter(|row| row.better == Better::Higher);
    let rows = rows.filter(|row| growth::size_of(&row.name).is_none());
    let panels: Vec<Panel> = rows.map(|row| bars(results, row)).collect();
    sheet("Operations per second: longer is better", &panels)
}

fn latency(results: &Results) -> Option<String> {
    let has_latency = |row: &&Row| row.latency_ms(PARTITA, 0).is_some();
    let rows = results.rows.iter().filter(has_latency);
    let rows = rows.filter(|row| growth::size_of(&row.name).is_none());
    let panels: Vec<Panel> = rows.map(|row| percentile_lines(results, row)).collect();
    sheet("Latency in milliseconds at percentiles: lower is better", &panels)
}

fn growth(results: &Results) -> Option<String> {
    let panels: Vec<Panel> =
        growth::OPERATIONS.iter().filter_map(|name| growth_lines(results, name)).collect();
    sheet("The server's processor time per operation in µs, by number of documents", &panels)
}

/// A picture of its own, to be put somewhere on a sheet.
struct Panel {
    height: f64,
    svg: String,
}

/// Panels in columns below a heading.
fn sheet(heading: &str, panels: &[Panel]) -> Option<String> {
    let first = panels.first()?;
    let height = panels.iter().map(|panel| panel.height).fold(first.height, f64::max);
    let lines = panels.len().div_ceil(COLUMNS) as f64;
    let (width, all) = (PANEL_WIDTH * COLUMNS as f64, 40.0 + height * lines);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{all:.0}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    text(&mut svg, 10.0, 24.0, &format!("font-size=\"15\">{}", escaped(heading)));
    for (at, panel) in panels.iter().enumerate() {
        let x = PANEL_WIDTH * (at % COLUMNS) as f64;
        let y = 40.0 + height * (at / COLUMNS) as f64;
        put(&mut svg, &format!("<g transform=\"translate({x:.0} {y:.0})\">\n{}</g>\n", panel.svg));
    }
    Some(svg + "</svg>\n")
}

/// A bar for each system that did it.
fn bars(results: &Results, row: &Row) -> Panel {
    let did: Vec<(usize, &str, f64)> = results
        .present()
        .enumerate()
        .filter_map(|(at, system)| Some((at, system, row.value(system)?)))
        .collect();
    let most = did.iter().map(|(_, _, value)| *value).fold(f64::MIN_POSITIVE, f64::max);
    let mut svg = title(&format!("{} ({})", row.name, row.unit));
    for (place, (at, system, value)) in did.iter().enumerate() {
        let y = 24.0 + place as f64 * BAR;
        let width = (PANEL_WIDTH - LEFT - 80.0) * value / most;
        text(&mut svg, LEFT - 6.0, y + 11.0, &format!("text-anchor=\"end\">{}", escaped(system)));
        let colour = colour(*at);
        put(
            &mut svg,
            &format!(
                "<rect x=\"{LEFT:.0}\" y=\"{y:.0}\" width=\"{width:.1}\" height=\"{:.0}\" fill=\"{colour}\"/>\n",
                BAR - 3.0
            ),
        );
        text(&mut svg, LEFT + width + 4.0, y + 11.0, &format!(">{}", number(*value)));
    }
    Panel { height: 40.0 + BAR * results.present().count() as f64, svg }
}

/// A line for each system, from the median to the slowest.
fn percentile_lines(results: &Results, row: &Row) -> Panel {
    let places = PERCENTILES.map(|percent| format!("p{percent}"));
    let lines = results.present().enumerate().filter_map(|(at, system)| {
        let values: Option<Vec<f64>> =
            (0..PERCENTILES.len()).map(|place| row.latency_ms(system, place)).collect();
        Some(Line { name: system.to_owned(), colour: colour(at), values: values? })
    });
    lines_panel(&row.name, &places, &lines.collect::<Vec<_>>())
}

/// A line for each system over the numbers of documents.
fn growth_lines(results: &Results, name: &str) -> Option<Panel> {
    let rows: Vec<&Row> =
        results.rows.iter().filter(|row| growth::is_row_of(&row.name, name)).collect();
    let places: Vec<String> = rows
        .iter()
        .filter_map(|row| growth::size_of(&row.name))
        .map(|size| number(size as f64))
        .collect();
    let lines = results.present().enumerate().filter_map(|(at, system)| {
        let values: Option<Vec<f64>> = rows.iter().map(|row| row.cpu_us(system)).collect();
        Some(Line { name: system.to_owned(), colour: colour(at), values: values? })
    });
    let lines: Vec<Line> = lines.collect();
    // One size is a point, and no growth.
    (rows.len() > 1 && !lines.is_empty()).then(|| lines_panel(name, &places, &lines))
}

struct Line {
    name: String,
    colour: &'static str,
    values: Vec<f64>,
}

/// Lines over named places, on a logarithmic scale of whole powers of ten.
fn lines_panel(name: &str, places: &[String], lines: &[Line]) -> Panel {
    let values = || lines.iter().flat_map(|line| &line.values).copied().filter(|v| *v > 0.0);
    let least = values().fold(f64::INFINITY, f64::min).log10().floor();
    let most = values().fold(0.0, f64::max).log10().ceil().max(least + 1.0);
    let x = |place: usize| 60.0 + place as f64 * 200.0 / (places.len().max(2) - 1) as f64;
    let y = |value: f64| {
        24.0 + LINES_HEIGHT * (most - value.max(f64::MIN_POSITIVE).log10().max(least))
            / (most - least)
    };
    let mut svg = title(name);
    for power in (least as i32)..=(most as i32) {
        let (value, at) = (10_f64.powi(power), y(10_f64.powi(power)));
        put(&mut svg, &format!("<path d=\"M60 {at:.1}H260\" stroke=\"#ddd\"/>\n"));
        text(&mut svg, 54.0, at + 4.0, &format!("text-anchor=\"end\">{}", power_of_ten(value)));
    }
    for (place, name) in places.iter().enumerate() {
        let below = 24.0 + LINES_HEIGHT + 16.0;
        text(&mut svg, x(place), below, &format!("text-anchor=\"middle\">{}", escaped(name)));
    }
    for (at, line) in lines.iter().enumerate() {
        let points = line.values.iter().enumerate();
        let points = points.map(|(place, value)| format!("{:.1} {:.1}", x(place), y(*value)));
        let points = points.collect::<Vec<_>>().join("L");
        let colour = line.colour;
        put(
            &mut svg,
            &format!(
                "<path d=\"M{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\n"
            ),
        );
        let legend = format!("fill=\"{colour}\">{}", escaped(&line.name));
        text(&mut svg, 272.0, 34.0 + at as f64 * 15.0, &legend);
    }
    Panel { height: LINES_HEIGHT + 60.0, svg }
}

fn power_of_ten(value: f64) -> String {
    if value >= 1.0 {
        number(value).replace(".00", "").replace(".0", "")
    } else {
        value.to_string()
    }
}

fn title(name: &str) -> String {
    let mut svg = String::new();
    text(&mut svg, 10.0, 14.0, &format!("font-weight=\"bold\">{}", escaped(name)));
    svg
}

/// A text at a place; `rest` is its further attributes, a `>` and what it says.
fn text(svg: &mut String, x: f64, y: f64, rest: &str) {
    put(svg, &format!("<text x=\"{x:.1}\" y=\"{y:.1}\" {rest}</text>\n"));
}

fn put(svg: &mut String, part: &str) {
    svg.write_str(part).expect("a string takes everything");
}

fn colour(place: usize) -> &'static str {
    COLOURS.get(place % COLOURS.len()).copied().unwrap_or("black")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::golden;
    use crate::compare::results::tests::example;

    #[test]
    fn the_pictures_look_like_this() {
        let mut results = example();
        let mut grown = results.row("point read").unwrap().clone();
        grown.name = growth::row_name(growth::OPERATIONS[0], 10_000);
        results.rows.push(grown.clone());
        grown.name = growth::row_name(growth::OPERATIONS[0], 100_000);
        results.rows.push(grown);
        let pictures = all(&results);
        let names: Vec<&str> = pictures.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["throughput", "latency", "growth"]);
        for (name, picture) in pictures {
            golden(&format!("{name}.svg"), &picture);
        }
    }

    #[test]
    fn names_cannot_break_the_picture() {
        let mut results = example();
        results.rows[0].name = "a < b & c".to_owned();
        let picture = throughput(&results).unwrap();
        assert!(picture.contains("a &lt; b &amp; c"), "{picture}");
    }

    #[test]
    fn nothing_measured_is_nothing_drawn() {
        assert!(all(&Results::default()).is_empty());
    }
}
