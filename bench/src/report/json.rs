//! The results for programs: each figure with all its samples.

use super::Report;
use crate::bars::{Bar, Verdict};
use crate::environment::Environment;
use crate::figures::{Figure, Figures};
use crate::plan::Plan;
use serde_json::{Map, Value, json};

pub fn text(report: &Report) -> String {
    let value = json!({
        "mode": if report.plan.is_whole { "whole" } else { "quick" },
        "seconds": report.seconds,
        "environment": environment(report.environment),
        "bars": bars(report),
        "figures": figures(report.figures),
        "left_out": report.figures.left_out,
    });
    format!("{value:#}\n")
}

/// The figures of such a text, and how much was measured. They have no units, since no picture shows any.
pub fn read(text: &str) -> Option<(Figures, Plan)> {
    let value: Value = serde_json::from_str(text).ok()?;
    let plan = if value["mode"] == "whole" { Plan::whole() } else { Plan::quick() };
    let mut figures = Figures::new();
    for (id, figure) in value["figures"].as_object()? {
        for sample in figure["samples"].as_array()? {
            figures.add(id, "", sample.as_f64()?);
        }
    }
    Some((figures, plan))
}

pub fn redisson_json(measured: &Figures, on: &Environment) -> String {
    format!("{:#}\n", json!({ "environment": environment(on), "figures": figures(measured) }))
}

fn environment(environment: &Environment) -> Value {
    json!({
        "server": environment.server,
        "valgrind": environment.valgrind,
        "processors": environment.processors,
        "architecture": environment.architecture,
        "load_before": environment.load,
    })
}

fn bars(report: &Report) -> Vec<Value> {
    let row = |bar: &Bar| {
        json!({
            "what": bar.what,
            "figure": bar.figure,
            "bar": bar.limit(bar.bar),
            "aim": bar.limit(bar.aim),
            "verdict": match bar.verdict() {
                Verdict::Aim => "aim met",
                Verdict::Bar => "bar met",
                Verdict::Missed => "missed",
                Verdict::NotMeasured => "not measured",
            },
        })
    };
    report.bars.iter().map(row).collect()
}

fn figures(figures: &Figures) -> Map<String, Value> {
    let entry = |figure: &Figure| {
        let samples: Vec<_> = figure.samples.iter().map(|sample| rounded(*sample)).collect();
        (figure.id.clone(), json!({ "unit": figure.unit, "median": rounded(figure.median()), "samples": samples }))
    };
    figures.all.iter().map(entry).collect()
}

/// No more digits than mean something; of what is small, such as a time in µs, some more.
fn rounded(number: f64) -> f64 {
    let places = if number.abs() < 100.0 { 1_000.0 } else { 10.0 };
    (number * places).round() / places
}
