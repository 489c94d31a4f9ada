//! Redisson itself: a Java program measures its locks, as they are and wrapped, and the commands, in turns and in one
//! JVM, on two servers.

use crate::contenders::Module;
use crate::environment::Environment;
use crate::figures::Figures;
use crate::{interrupt, progress, report, servers};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

pub const UNIT: &str = "cycles/s";

const ROUNDS: usize = 5;
const MILLISECONDS: usize = 1_500;

/// Runs the program of this command line, and writes down what it measured.
pub fn compare(directory: &Path, java: &[&str]) -> ExitCode {
    let environment = Environment::look();
    progress::begin(1);
    progress::part("Redisson and the commands in one JVM, about two minutes");
    let figures = measure(java);
    progress::end();
    match figures.and_then(|figures| publish(directory, &figures, &environment)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("bench: nothing is measured with Redisson: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn measure(java: &[&str]) -> Result<Figures, String> {
    let plain = servers::start_on_port(Module::None, &[]);
    let native = servers::start_on_port(Module::Rlock, &[]);
    let mut command = Command::new(java[0]);
    let ports = [&plain, &native].map(|server| server.port().to_string());
    command.args(&java[1..]).args(ports).args([ROUNDS, MILLISECONDS].map(|number| number.to_string()));
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let output = interrupt::run(&mut command).map_err(|error| format!("{}: {error}", java[0]))?;
    if !output.status.success() {
        return Err(format!("the program failed with {}", output.status));
    }
    let mut figures = Figures::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        read(line, &mut figures).ok_or_else(|| format!("no sample: {line}"))?;
    }
    if figures.all.is_empty() { Err("no samples came".to_owned()) } else { Ok(figures) }
}

/// "what who number"
fn read(line: &str, figures: &mut Figures) -> Option<()> {
    let mut words = line.split(' ');
    let (what, who, sample) = (words.next()?, words.next()?, words.next()?.parse().ok()?);
    let unit = match what.rsplit('.').next()? {
        "processor" => "us/cycle",
        "longest" => "ms",
        "connections" => "connections",
        _ => UNIT,
    };
    figures.add(&format!("{what}.{who}"), unit, sample);
    Some(())
}

fn publish(directory: &Path, figures: &Figures, environment: &Environment) -> Result<(), String> {
    let page = report::redisson_page(figures, environment);
    print!("{page}");
    let files = [("redisson.md", page), ("redisson.json", report::redisson_json(figures, environment))];
    report::write_all(directory, &files).map_err(|error| format!("{}: {error}", directory.display()))?;
    eprintln!("bench: results in {}", directory.join("redisson.md").display());
    Ok(())
}
