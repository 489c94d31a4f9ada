//! What was measured, and nothing else: samples in the order in which they were taken.

use crate::profile::Profile;

pub struct Figures {
    pub all: Vec<Figure>,
    /// What could not be measured, and why.
    pub left_out: Vec<String>,
    pub profiles: Vec<Profile>,
}

pub struct Figure {
    pub id: String,
    pub unit: &'static str,
    pub samples: Vec<f64>,
}

impl Figures {
    pub fn new() -> Self {
        Self { all: Vec::new(), left_out: Vec::new(), profiles: Vec::new() }
    }

    pub fn add(&mut self, id: &str, unit: &'static str, sample: f64) {
        match self.all.iter_mut().find(|figure| figure.id == id) {
            Some(figure) => figure.samples.push(sample),
            None => self.all.push(Figure { id: id.to_owned(), unit, samples: vec![sample] }),
        }
    }

    pub fn get(&self, id: &str) -> Option<&Figure> {
        self.all.iter().find(|figure| figure.id == id)
    }

    pub fn median(&self, id: &str) -> Option<f64> {
        self.get(id).map(Figure::median)
    }

    /// How many times the one is the other: the median over the rounds, in each of which both had their turn.
    pub fn ratio(&self, one: &str, other: &str) -> Option<f64> {
        let (one, other) = (self.get(one)?, self.get(other)?);
        let ratios = one.samples.iter().zip(&other.samples).map(|(one, other)| one / other);
        Some(median(ratios.collect()))
    }

    /// How much more the one is than the other, each taken by itself.
    pub fn difference(&self, one: &str, other: &str) -> Option<f64> {
        Some(self.median(one)? - self.median(other)?)
    }

    /// Why this could not be measured, if it was tried.
    pub fn why_not(&self, what: &str) -> Option<&str> {
        self.left_out.iter().find_map(|left_out| left_out.strip_prefix(what)?.strip_prefix(": "))
    }
}

impl Figure {
    pub fn median(&self) -> f64 {
        median(self.samples.clone())
    }

    pub fn lowest(&self) -> f64 {
        self.samples.iter().copied().fold(f64::INFINITY, f64::min)
    }

    pub fn highest(&self) -> f64 {
        self.samples.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    }
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    let middle = samples.len() / 2;
    if samples.len() % 2 == 1 { samples[middle] } else { f64::midpoint(samples[middle - 1], samples[middle]) }
}
