//! Columns, bars and sizes for people.

/// Width of a bar, in characters.
const BAR: usize = 10;

/// How a column is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Rows under headings, each column as wide as its widest cell.
pub(crate) fn table(headings: &[(&str, Align)], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        let heading = headings.get(column).map_or(0, |(heading, _)| heading.chars().count());
        cells.max().unwrap_or(0).max(heading)
    };
    let widths: Vec<usize> = (0..headings.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut out = String::new();
        for ((cell, (_, align)), width) in cells.zip(headings).zip(&widths) {
            let padding = " ".repeat(width.saturating_sub(cell.chars().count()));
            let (before, after) = match align {
                Align::Left => ("", padding.as_str()),
                Align::Right => (padding.as_str(), ""),
            };
            out.push_str(&format!("  {before}{cell}{after}"));
        }
        format!("{}\n", out.trim_end())
    };
    let mut out = line(&mut headings.iter().map(|(heading, _)| *heading));
    for row in rows {
        out.push_str(&line(&mut row.iter().map(String::as_str)));
    }
    out
}

/// A bar that is as full as the share, which is cut to 0…1. Anything above nothing is seen.
pub(crate) fn bar(share: f64) -> String {
    let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
    let full = (share * BAR as f64).round() as usize;
    let full = if share > 0.0 { full.max(1) } else { 0 };
    format!("{}{}", "█".repeat(full), "░".repeat(BAR - full))
}

/// A size in the largest unit that gives at least one.
pub(crate) fn size(bytes: f64) -> String {
    let units = ["B", "KB", "MB", "GB", "TB"];
    let mut rest = bytes;
    let mut unit = 0;
    while rest >= 1024.0 && unit + 1 < units.len() {
        rest /= 1024.0;
        unit += 1;
    }
    let name = units.get(unit).copied().unwrap_or_default();
    if unit == 0 { format!("{rest:.0} {name}") } else { format!("{rest:.1} {name}") }
}

/// A number with its thousands apart.
pub(crate) fn count(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        let left = digits.len() - at;
        if at > 0 && left.is_multiple_of(3) && !out.ends_with('-') {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

/// A share in percent, with a decimal where it is small.
pub(crate) fn percent(share: f64) -> String {
    match share * 100.0 {
        percent if percent == 0.0 || percent >= 10.0 => format!("{percent:.0} %"),
        percent if percent < 0.05 => "< 0.1 %".to_owned(),
        percent => format!("{percent:.1} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [vec!["a".to_owned(), "1".to_owned()], vec!["long".to_owned(), "10".to_owned()]];
        let text = table(&[("ID", Align::Left), ("N", Align::Right)], &rows);
        assert_eq!(text, "  ID     N\n  a      1\n  long  10\n");
    }

    #[test]
    fn numbers_are_for_people() {
        assert_eq!([size(0.0), size(1023.0), size(1536.0)], ["0 B", "1023 B", "1.5 KB"]);
        assert_eq!(size(20.0 * 1024.0 * 1024.0 * 1024.0), "20.0 GB");
        assert_eq!([count(0.0), count(999.0), count(1_234_567.0)], ["0", "999", "1 234 567"]);
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(percent(0.0001), "< 0.1 %");
        assert_eq!(percent(0.015), "1.5 %");
        assert_eq!(percent(0.5), "50 %");
    }

    #[test]
    fn a_bar_shows_a_little_and_no_more_than_all() {
        assert_eq!(bar(0.0), "░".repeat(10));
        assert_eq!(bar(0.001), format!("█{}", "░".repeat(9)));
        assert_eq!(bar(7.0), "█".repeat(10));
        assert_eq!(bar(f64::NAN), "░".repeat(10));
    }
}
