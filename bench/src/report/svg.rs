//! How pictures begin, what is written in them, and their colours.
//!
//! A picture lies on a light or a dark page, and as an image it knows only what the reader's system prefers, not what
//! the page does. So it brings its own paper, and one colour of each kind for either paper. `tests/pictures.rs`
//! measures the contrast of each colour with its paper.

use std::fmt::Write;

/// A colour by what it is for.
#[derive(Clone, Copy)]
pub struct Ink {
    class: &'static str,
    on_light: &'static str,
    on_dark: &'static str,
}

const PAPER: Ink = Ink { class: "paper", on_light: "#ffffff", on_dark: "#0d1117" };
pub const TEXT: Ink = Ink { class: "text", on_light: "#3d444d", on_dark: "#c9d1d9" };
pub const GRID: Ink = Ink { class: "grid", on_light: "#848d97", on_dark: "#6e7681" };
pub const OURS: Ink = Ink { class: "ours", on_light: "#0969da", on_dark: "#58a6ff" };
pub const OTHERS: Ink = Ink { class: "others", on_light: "#656d76", on_dark: "#8b949e" };
pub const GREEN: Ink = Ink { class: "green", on_light: "#1a7f37", on_dark: "#3fb950" };
pub const ORANGE: Ink = Ink { class: "orange", on_light: "#bc4c00", on_dark: "#f0883e" };
pub const OCHRE: Ink = Ink { class: "ochre", on_light: "#7d4e00", on_dark: "#d4a72c" };
pub const VIOLET: Ink = Ink { class: "violet", on_light: "#8250df", on_dark: "#bc8cff" };

const INKS: [Ink; 9] = [PAPER, TEXT, GRID, OURS, OTHERS, GREEN, ORANGE, OCHRE, VIOLET];

impl Ink {
    /// The attributes of what is filled with it.
    pub fn fill(self) -> String {
        format!(r#"class="{}" fill="currentColor""#, self.class)
    }

    /// The attributes of a line that is drawn with it.
    pub fn stroke(self) -> String {
        format!(r#"class="{}" fill="none" stroke="currentColor""#, self.class)
    }
}

pub fn open(width: usize, height: usize, title: &str, subtitle: &str) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" font-family=\"system-ui, sans-serif\" font-size=\"13\" \
         role=\"img\">\n<title>{title}</title>\n"
    );
    svg += &style();
    let _ = writeln!(svg, r#"<rect width="{width}" height="{height}" rx="6" {}/>"#, PAPER.fill());
    let _ = writeln!(svg, r#"<text x="16" y="24" {} font-size="15" font-weight="600">{title}</text>"#, TEXT.fill());
    label(&mut svg, 16.0, 43.0, "start", TEXT, subtitle);
    svg
}

fn style() -> String {
    let rules = |colour: fn(&Ink) -> &'static str| {
        INKS.iter().map(|ink| format!(".{}{{color:{}}}", ink.class, colour(ink))).collect::<String>()
    };
    let (light, dark) = (rules(|ink| ink.on_light), rules(|ink| ink.on_dark));
    format!("<style>\n{light}\n@media (prefers-color-scheme: dark){{{dark}}}\n</style>\n")
}

pub fn label(svg: &mut String, x: f64, y: f64, anchor: &str, ink: Ink, text: &str) {
    let _ = writeln!(svg, r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}" {}>{text}</text>"#, ink.fill());
}
