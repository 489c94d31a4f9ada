//! How pictures begin, what is written in them, and their colours. No background and colours of middle lightness, so
//! that they are read on light and dark pages.

use std::fmt::Write;

pub const TEXT: &str = "#808890";
pub const FAINT: &str = "#80889055";
pub const OURS: &str = "#2f81f7";
pub const OTHERS: &str = "#98a0a8";

pub fn open(width: usize, height: usize, title: &str, subtitle: &str) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" font-family=\"system-ui, sans-serif\" font-size=\"13\" \
         role=\"img\">\n<title>{title}</title>\n"
    );
    let _ = writeln!(svg, r#"<text x="16" y="24" fill="{TEXT}" font-size="15" font-weight="600">{title}</text>"#);
    label(&mut svg, 16.0, 43.0, "start", TEXT, subtitle);
    svg
}

pub fn label(svg: &mut String, x: f64, y: f64, anchor: &str, colour: &str, text: &str) {
    let _ = writeln!(svg, r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}" fill="{colour}">{text}</text>"#);
}
