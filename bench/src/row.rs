//! A line of the table: one figure of ours, with an alternative or alone, and its target.

use crate::figures::Figures;

#[derive(Clone)]
pub struct Row {
    pub what: String,
    ours: String,
    /// Its name, and its figure.
    alternative: Option<(String, String)>,
    bar: Option<f64>,
    why: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    NoBar,
    Met,
    Missed,
    NotMeasured,
}

/// A row with its figures.
pub struct Shown {
    /// Title, ours, the alternative, the ratio and the target.
    pub columns: [String; 5],
    pub verdict: Verdict,
    pub why: &'static str,
}

impl Row {
    pub fn compare(what: &str, ours: &str, name: &str, alternative: &str) -> Self {
        let alternative = Some((name.to_owned(), alternative.to_owned()));
        Self { what: what.to_owned(), ours: ours.to_owned(), alternative, bar: None, why: "" }
    }

    /// The worst round must not have more.
    pub fn at_most(what: &str, ours: &str, bar: f64) -> Self {
        Self { what: what.to_owned(), ours: ours.to_owned(), alternative: None, bar: Some(bar), why: "" }
    }

    /// Ours must be this many times as good as the alternative.
    pub fn bar(self, bar: f64) -> Self {
        Self { bar: Some(bar), ..self }
    }

    /// The reason why the target is not met.
    pub fn because(self, why: &'static str) -> Self {
        Self { why, ..self }
    }

    pub fn show(&self, figures: &Figures) -> Shown {
        let (cells, limit, passes) = match &self.alternative {
            Some((name, id)) => self.compared(figures, name, id),
            None => self.alone(figures),
        };
        let (verdict, bar) = match (limit, passes) {
            (None, _) => (Verdict::NoBar, String::new()),
            (Some(limit), None) => (Verdict::NotMeasured, format!("{limit}, not measured")),
            (Some(limit), Some(true)) => (Verdict::Met, limit),
            (Some(limit), Some(false)) => (Verdict::Missed, format!("{limit}, **missed**")),
        };
        let [ours, alternative, ratio] = cells.map(|cell| cell.unwrap_or_else(|| "–".to_owned()));
        Shown { columns: [self.what.clone(), ours, alternative, ratio, bar], verdict, why: self.why }
    }

    fn compared(&self, figures: &Figures, name: &str, id: &str) -> (Cells, Option<String>, Option<bool>) {
        let (ours, other) = (figures.get(&self.ours), figures.get(id));
        let ratios = ours.zip(other).map(|(ours, other)| ours.against(other));
        let cells = [
            ours.map(|figure| format!("{} {}", fine(figure.median()), figure.unit)),
            Some(format!("{name}: {}", other.map_or("–".to_owned(), |figure| fine(figure.median())))),
            ratios.as_ref().map(|it| format!("{:.2}× ({:.2} … {:.2})", it.median, it.lowest, it.highest)),
        ];
        let passes = ratios.zip(self.bar).map(|(ratios, bar)| rounded(ratios.median) >= bar);
        (cells, self.bar.map(|bar| format!("≥ {bar}×")), passes)
    }

    fn alone(&self, figures: &Figures) -> (Cells, Option<String>, Option<bool>) {
        let ours = figures.get(&self.ours);
        let cells = [ours.map(|figure| format!("{} {}", fine(figure.highest()), figure.unit)), None, None];
        let passes = ours.zip(self.bar).map(|(ours, bar)| rounded(ours.highest()) <= bar);
        (cells, self.bar.map(|bar| format!("≤ {bar}")), passes)
    }
}

/// Ours, the alternative and the ratio, if they were measured.
type Cells = [Option<String>; 3];

/// Rounded as it is shown.
fn rounded(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

/// Three digits of the number, or all digits before the point if there are more.
pub fn fine(number: f64) -> String {
    match number.abs() {
        size if size >= 100.0 || number.fract() == 0.0 => grouped(number),
        size if size >= 10.0 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

/// 1234567 as 1,234,567.
pub fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let length = digits.len();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (length - place) % 3 == 0 && digit != '-' {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
